"""Performs the undo of a turn: the audit line, the rewind of the session, then the files."""

from __future__ import annotations

import asyncio

from adh.conversation.undo import UndoError, UndoPlan, plan_turn_undo
from adh.storage.audit_log import AuditEntry
from adh.storage.file_undo import undo_changes
from adh.workspace.open_session import OpenSession
from adh.workspace.workspace import Workspace


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
        """Return what it would do; None if there is nothing to undo. Raises StorageError."""
        if not await self.opened.journal.read(self.opened.id):
            return None
        history = await self.opened.agent.sessions.read(self.opened.id)
        return await asyncio.to_thread(plan_turn_undo, history, self._parts.changes, self.opened.id)

    async def run(self, plan: UndoPlan) -> tuple[str, ...]:
        """Do what a plan says; return the paths that changed.

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
