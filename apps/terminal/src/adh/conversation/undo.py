"""Undo: takes back a turn with the changes that it made to files.

The rewind of the session is saved first, and the files follow. If the process ends in between, the turn no
longer counts and its changes are still in the store: `plan_turn_undo` then plans the rest. This module must
never undo the changes of a turn that counts together with those of one that was left over.
"""

from __future__ import annotations

import asyncio
import difflib
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from adh.storage.audit_log import AuditEntry
from adh.storage.changes import ChangeStore
from adh.storage.content_digest import ABSENT
from adh.storage.file_undo import FilesPlan, FileUndo, UndoConflict, plan_undo, undo_changes
from adh.storage.storage_errors import StorageError
from adh.transcript.wording import to_line
from adh.workspace.open_session import OpenSession
from adh.workspace.workspace import Workspace
from holdfast.middleware import escape_invisible
from holdfast.sessions import History, Point

LARGEST_DIFF = 200_000
"""Bytes of the largest file that is shown as a difference."""

_ACTIONS = {"restore": "restored", "delete": "deleted", "nothing": "as it was already"}


class UndoFile(Struct, frozen=True):
    """A file that an undo changes.

    Args:
        path: the absolute path.
        action: the action on it.
        refusal: why it cannot be undone; empty if it can.
        diff: the difference that the undo makes; empty if it is not text.
    """

    path: str
    action: str
    refusal: str = ""
    diff: str = ""


class UndoPlan(Struct, frozen=True, kw_only=True):
    """The plan of an undo. One with a refusal is not carried out.

    Args:
        summary: the turn that would be undone, in a line.
        files: the files that would change.
        turn: the number of the turn; 0 to finish an undo that was left over.
        changes: the changes to the files.
    """

    summary: str
    files: tuple[UndoFile, ...]
    turn: int
    changes: FilesPlan

    @property
    def refusals(self) -> tuple[UndoFile, ...]:
        """The files that cannot be undone."""
        return tuple(file for file in self.files if file.refusal)


class UndoError(Exception):
    """A turn cannot be undone; the text has the reason and the fix."""


def plan_turn_undo(history: History, changes: ChangeStore, session: str) -> UndoPlan | None:
    """Return the plan to undo the newest turn; None if there is nothing to undo.

    Args:
        history: the turns of the conversation.
        changes: the changes of files.
        session: the conversation.

    Raises:
        StorageError: the changes cannot be read.
    """
    left = _find_left_over(history, changes, session)
    if left:
        plan = plan_undo(changes, session, left)
        summary = f"Finish the undo of turn {left}, which was interrupted"
        return _make_plan(summary, 0, plan, changes)
    point = _find_newest(history)
    if point is None:
        return None
    plan = plan_undo(changes, session, point.number)
    summary = f"Undo turn {point.number}: {to_line(point.text, 60)}"
    return _make_plan(summary, point.number, plan, changes)


def _find_newest(history: History) -> Point | None:
    turns = [point for point in history.points if point.kind == "turn" and point.counts]
    return turns[-1] if turns else None


def _find_left_over(history: History, changes: ChangeStore, session: str) -> int:
    """Return the first turn that was rewound and whose changes are still there; 0 for none."""
    counting = {point.number for point in history.points if point.counts}
    turns = {change.turn for change in changes.list_changes(session)}
    known = {point.number for point in history.points}
    dead = sorted((turns & known) - counting)
    if not dead or any(turn > dead[0] for turn in turns & counting):
        return 0
    return dead[0]


def _make_plan(summary: str, turn: int, plan: FilesPlan, changes: ChangeStore) -> UndoPlan:
    files = [_describe_file(file, plan.session, changes) for file in plan.files]
    files += [_describe_conflict(conflict) for conflict in plan.conflicts]
    return UndoPlan(summary=summary, files=tuple(files), turn=turn, changes=plan)


def _describe_conflict(conflict: UndoConflict) -> UndoFile:
    return UndoFile(escape_invisible(conflict.path), "not undone", conflict.reason)


def _describe_file(file: FileUndo, session: str, changes: ChangeStore) -> UndoFile:
    diff = "" if file.action == "nothing" else _make_diff(file, session, changes)
    return UndoFile(escape_invisible(file.path), _ACTIONS[file.action], diff=diff)


def _make_diff(file: FileUndo, session: str, changes: ChangeStore) -> str:
    try:
        with open(file.path, "rb") as stream:  # noqa: PTH123  # REASON: only so many bytes of it
            now = stream.read(LARGEST_DIFF + 1)
        blocks = changes.read_content(session, file.content) if file.content != ABSENT else ()
        old = _take_bytes(iter(blocks))
        lines = [part.decode().splitlines() for part in (now, old)]
    except (OSError, StorageError, UnicodeDecodeError):
        return ""
    if max(len(now), len(old)) > LARGEST_DIFF:
        return ""
    name = Path(file.path).name
    names = (f"{name} (now)", f"{name} (after undo)")
    diff = difflib.unified_diff(lines[0], lines[1], *names, lineterm="")
    return escape_invisible("\n".join(diff))


def _take_bytes(blocks: Iterator[bytes]) -> bytes:
    taken = b""
    for block in blocks:
        taken += block
        if len(taken) > LARGEST_DIFF:
            break
    return taken


class UndoTurn:
    """The undo of the newest turn of an open conversation.

    Args:
        workspace: where the changes are.
        opened: the conversation.
        is_running: whether a turn is in progress.

    Raises:
        UndoError: a turn is in progress.
    """

    def __init__(self, workspace: Workspace, opened: OpenSession, *, is_running: bool) -> None:
        if is_running:
            raise UndoError("A turn is in progress. Stop it with Esc, then undo.")
        self._parts = workspace.parts
        self.opened = opened

    async def plan(self) -> UndoPlan | None:
        """Return the plan; None if there is nothing to undo. Raises StorageError."""
        if not await self.opened.journal.read(self.opened.id):
            return None
        history = await self.opened.agent.sessions.read(self.opened.id)
        return await asyncio.to_thread(plan_turn_undo, history, self._parts.changes, self.opened.id)

    async def run(self, plan: UndoPlan) -> tuple[str, ...]:
        """Carry out a plan; return the paths that changed.

        Raises:
            UndoError: something changed since the plan was shown. Nothing was done.
            AuditError: the audit log cannot be written. Nothing was done.
            StorageError: a file cannot be restored; the undo can be planned again.
        """
        if plan.refusals:
            files = "; ".join(f"{file.path} {file.refusal}" for file in plan.refusals)
            raise UndoError(f"The turn cannot be undone: {files}. Restore these files by hand.")
        if await self.plan() != plan:
            raise UndoError("Something changed since the undo was shown. Look at it again.")
        self._write_audit("undoing", plan)
        if plan.turn:
            sessions = self.opened.agent.sessions
            await sessions.rewind(self.opened.id, plan.turn - 1, by=self._parts.user)
        changed = await asyncio.to_thread(
            undo_changes,
            self._parts.changes,
            self._parts.pending,
            plan.changes,
            self._parts.now(),
        )
        self._write_audit("undone", plan)
        return changed

    def _write_audit(self, decision: str, plan: UndoPlan) -> None:
        context = self.opened.context
        self._parts.audit.write(
            AuditEntry(
                at=self._parts.now(),
                event="decision" if decision == "undoing" else "outcome",
                session=self.opened.id,
                user=context.user,
                agent=context.agent,
                folder=context.folder,
                repository=context.repository,
                tool="undo",
                parameters={"turn": plan.turn, "files": [file.path for file in plan.files]},
                decision=decision,
                decided_by="person",
            )
        )
