"""Undo: gives files back the contents that they had before some turns of a conversation.

All files are checked before the first is touched. An undo that a crash cut is planned again and goes on:
a file that already has its old content counts as done. This module must never touch a file that is
neither as the agent left it nor as it was before.
"""

from __future__ import annotations

import itertools
import os
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Literal

from msgspec import Struct

from adh.storage.changes import ChangeStore, FileChange
from adh.storage.content_digest import ABSENT, digest_path
from adh.storage.path_steps import open_parent
from adh.storage.pending_writes import PendingWrites
from adh.storage.replaced_files import Entry, remove_file, replace_file
from adh.storage.storage_errors import ChangedContentError, StorageError, explain_os_error

_NEW_MODE = 0o644


class FileUndo(Struct, frozen=True, kw_only=True):
    """The effect of an undo on one file.

    Args:
        path: the absolute path.
        action: restore its old content, delete it, or nothing, as it is already as it was.
        found: the digest of the present content, or "absent".
        content: the digest of the old content, or "absent".
        mode: the old permission bits.
    """

    path: str
    action: Literal["restore", "delete", "nothing"]
    found: str
    content: str
    mode: int


class UndoConflict(Struct, frozen=True):
    """A file that cannot be undone.

    Args:
        path: the absolute path.
        reason: why, as the rest of a sentence about the file.
    """

    path: str
    reason: str


class FilesPlan(Struct, frozen=True, kw_only=True):
    """The plan of an undo. One with conflicts must not be carried out.

    Args:
        session: the conversation.
        changes: the ids of the changes that it undoes.
        files: the effect on each file.
        folders: folders that are removed if they are empty, inner ones first.
        conflicts: the files that cannot be undone.
    """

    session: str
    changes: tuple[str, ...]
    files: tuple[FileUndo, ...] = ()
    folders: tuple[str, ...] = ()
    conflicts: tuple[UndoConflict, ...] = ()


def plan_undo(store: ChangeStore, session: str, first_turn: int) -> FilesPlan:
    """Return the plan to undo the changes of a turn and of all later ones.

    Args:
        store: the changes.
        session: the conversation.
        first_turn: the first turn to undo, from 1.

    Raises:
        StorageError: the changes cannot be read.
    """
    changes = store.list_changes(session, first_turn)
    by_path: dict[str, list[FileChange]] = {}
    for change in changes:
        if change.kind == "file":
            by_path.setdefault(change.path, []).append(change)
    files: list[FileUndo] = []
    conflicts: list[UndoConflict] = []
    for path, history in by_path.items():
        planned = _plan_file(path, history)
        if isinstance(planned, UndoConflict):
            conflicts.append(planned)
        else:
            files.append(planned)
    folders = {change.path for change in changes if change.kind == "folder"}
    return FilesPlan(
        session=session,
        changes=tuple(change.id for change in changes),
        files=tuple(files),
        folders=tuple(sorted(folders, key=len, reverse=True)),
        conflicts=tuple(conflicts),
    )


def _plan_file(path: str, history: list[FileChange]) -> FileUndo | UndoConflict:
    try:
        found = digest_path(path)
    except StorageError as error:
        return UndoConflict(path, error.problem)
    except OSError as error:
        return UndoConflict(path, explain_os_error(error)[0])
    content = history[0].before
    mode = history[0].mode if history[0].mode is not None else _NEW_MODE
    if found == content:
        return FileUndo(path=path, action="nothing", found=found, content=content, mode=mode)
    links = itertools.pairwise(history)
    if any(earlier.after != later.before for earlier, later in links):
        return UndoConflict(path, "was changed by somebody else between two changes of the agent")
    # A crash between the record and the write leaves the old content.
    if found not in (history[-1].after, history[-1].before):
        return UndoConflict(path, "was changed by somebody else since")
    action: Literal["restore", "delete"] = "delete" if content == ABSENT else "restore"
    return FileUndo(path=path, action=action, found=found, content=content, mode=mode)


def undo_changes(
    store: ChangeStore, pending: PendingWrites, plan: FilesPlan, at: datetime
) -> tuple[str, ...]:
    """Carry out a plan, and return the paths that changed.

    Args:
        store: the changes.
        pending: the temporary files.
        plan: the plan, without conflicts.
        at: the time, for the record.

    Raises:
        ChangedContentError: a file is not as it was when the undo was planned. Nothing was done unless
            it changed in the very moment; then the undo can be planned again.
        StorageError: a file cannot be restored. The undo can be planned again.
    """
    if plan.conflicts:
        first = plan.conflicts[0]
        raise ChangedContentError(first.path, first.reason, "Restore it by hand")
    _check_files(plan)
    changed: list[str] = []
    for file in plan.files:
        if file.action != "nothing":
            _undo_file(store, pending, plan.session, file)
            changed.append(file.path)
    for folder in plan.folders:
        with suppress(OSError, StorageError), open_parent(folder) as (parent, name):
            os.rmdir(name, dir_fd=parent)
            changed.append(folder)
    store.record_undone(plan.session, at, plan.changes)
    return tuple(changed)


def _check_files(plan: FilesPlan) -> None:
    for file in plan.files:
        if digest_path(file.path) != file.found:
            problem = "has changed since the undo was shown"
            raise ChangedContentError(file.path, problem, "Look at it, then undo again")


def _undo_file(store: ChangeStore, pending: PendingWrites, session: str, file: FileUndo) -> None:
    try:
        with open_parent(file.path, create=file.action == "restore") as (folder, name):
            entry = Entry(folder=folder, name=name, path=file.path)
            if file.action == "delete":
                remove_file(entry, expected=file.found)
                return
            content = store.read_content(session, file.content)
            with pending.reserve_name(str(Path(file.path).parent)) as temporary:
                replace_file(entry, content, temporary, expected=file.found, mode=file.mode)
    except OSError as error:
        raise StorageError(file.path, *explain_os_error(error)) from error
