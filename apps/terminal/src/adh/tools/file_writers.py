"""The tools that change files: write_file, create_directory and delete_file.

A change is recorded before it is made, and a file is replaced whole. They must never write to a file that
is not as it was when the call was approved.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from msgspec import Struct

from adh.storage.call_context import CallContext
from adh.storage.changes import FileChange, make_change_id
from adh.storage.content_digest import ABSENT, digest_bytes
from adh.storage.path_steps import open_parent, open_regular_file
from adh.storage.replaced_files import Entry, read_mode, remove_file, replace_file
from adh.storage.storage_errors import ChangedContentError, ProjectFileError
from adh.tools.failure_words import raise_as_tool_error
from adh.tools.judged_paths import find_approval, find_judged_path, join_path
from adh.tools.tools_context import ToolsContext
from holdfast import tool
from holdfast.tools import ToolContext, ToolError

_OUTER_TURN = re.compile(r"/t(\d+)\.i\d+\.tool\.\d+")
"""The place of a nested run in the conversation: the run of an agent is saved under the call that it works for."""

_AGAIN = "Read it again, then decide anew"


class _Present(Struct, frozen=True):
    """The file at the path of an entry now."""

    digest: str
    mode: int | None


class FileWriters:
    """The tools that change files.

    Args:
        context: the parts that the tools work with.
    """

    def __init__(self, context: ToolsContext) -> None:
        self._context = context

    def list_tools(self) -> tuple[Callable[..., object], ...]:
        """Return the tools."""
        return self.write_file, self.create_directory, self.delete_file

    @tool(effect="write")
    def write_file(
        self,
        context: ToolContext[CallContext],
        file_path: str,
        content: str,
        *,
        create_dirs: bool = True,
    ) -> dict[str, object]:
        """Write a text file as UTF-8. It replaces the whole file, or creates it.

        Args:
            context: the call.
            file_path: the path of the file, absolute or relative to the working folder.
            content: the whole new content.
            create_dirs: whether to create missing folders of the path.
        """
        with raise_as_tool_error("file_path"):
            path = find_judged_path(context, file_path, self._context.home)
            data = _encode_content(content)
            if create_dirs:
                self._create_folders(context, str(Path(path).parent))
            with open_parent(path) as (folder, name):
                entry = Entry(folder=folder, name=name, path=path)
                changed = self._replace(context, entry, data)
        return {"path": path, "bytes": len(data), "changed": changed}

    def _replace(self, context: ToolContext[CallContext], entry: Entry, data: bytes) -> bool:
        """Replace a file, and return whether its content changed."""
        present = self._save_present(context, entry)
        after = digest_bytes(data)
        if present.digest == after:
            return False
        self._record(context, entry.path, present, after)
        mode = self._context.new_file_mode if present.mode is None else present.mode
        with self._context.pending.reserve_name(str(Path(entry.path).parent)) as temporary:
            replace_file(entry, [data], temporary, expected=present.digest, mode=mode)
        return True

    @tool(effect="write")
    def create_directory(
        self,
        context: ToolContext[CallContext],
        directory: str,
        *,
        parents: bool = True,
    ) -> str:
        """Create a folder. It is no error if it is there already.

        Args:
            context: the call.
            directory: the path of the folder, absolute or relative to the working folder.
            parents: whether to create missing folders above it.
        """
        with raise_as_tool_error("directory"):
            path = find_judged_path(context, directory, self._context.home)
            parent = str(Path(path).parent)
            if not parents and _find_missing(parent):
                raise ProjectFileError(
                    path, "has no parent folder", "Pass parents=true to create it"
                )
            created = self._create_folders(context, path)
        return "created" if created else "it is there already"

    @tool(effect="write")
    def delete_file(
        self, context: ToolContext[CallContext], file_path: str, *, confirm: bool
    ) -> str:
        """Delete a file. A copy goes to the backups first.

        Args:
            context: the call.
            file_path: the path of the file, absolute or relative to the working folder.
            confirm: must be true; it shows that the file is to be deleted for certain.
        """
        if not confirm:
            raise ToolError("ValueError: confirm must be true to delete a file.")
        with raise_as_tool_error("file_path"):
            path = find_judged_path(context, file_path, self._context.home)
            if os.path.islink(join_path(context.deps.folder, file_path, self._context.home)):  # noqa: PTH114  # REASON: a string
                raise ProjectFileError(path, "is a symbolic link", "Delete it with a command")
            with open_parent(path) as (folder, name):
                entry = Entry(folder=folder, name=name, path=path)
                present = self._save_present(context, entry)
                if present.digest == ABSENT:
                    raise FileNotFoundError(2, "", path)
                self._context.backups.save(path)
                self._record(context, path, present, ABSENT)
                remove_file(entry, expected=present.digest)
        return "deleted; a copy is in the backups"

    def _save_present(self, context: ToolContext[CallContext], entry: Entry) -> _Present:
        """Store the present content of a file, and check that it is the approved one.

        Raises:
            ChangedContentError: it is not.
        """
        present = self._read_present(context.deps.session, entry)
        expected = find_approval(context).content.get(entry.path)
        if expected is not None and expected != present.digest:
            problem = "has changed since the call was approved"
            raise ChangedContentError(entry.path, problem, _AGAIN)
        return present

    def _read_present(self, session: str, entry: Entry) -> _Present:
        mode = read_mode(entry)
        if mode is None:
            return _Present(ABSENT, None)
        try:
            descriptor = open_regular_file(entry.folder, entry.name, entry.path)
        except FileNotFoundError:
            return _Present(ABSENT, None)
        try:
            return _Present(self._context.changes.save_content(session, descriptor), mode)
        finally:
            os.close(descriptor)

    def _record(
        self, context: ToolContext[CallContext], path: str, present: _Present, after: str
    ) -> None:
        self._context.changes.record(
            self._make_change(context, path, "file", present=present, after=after)
        )

    def _create_folders(self, context: ToolContext[CallContext], path: str) -> bool:
        """Create the missing folders of a path, each recorded before; whether any was missing."""
        missing = _find_missing(path)
        for folder in missing:
            present = _Present(ABSENT, None)
            change = self._make_change(context, folder, "folder", present=present, after=ABSENT)
            self._context.changes.record(change)
        # The last part is never used: all the folders before it are created or checked.
        with open_parent(f"{path}/entry", create=bool(missing)):
            return bool(missing)

    def _make_change(
        self,
        context: ToolContext[CallContext],
        path: str,
        kind: Literal["file", "folder"],
        *,
        present: _Present,
        after: str,
    ) -> FileChange:
        return FileChange(
            id=make_change_id(),
            at=self._context.now(),
            session=context.deps.session,
            turn=find_turn(context),
            call=context.key,
            tool=context.tool,
            path=path,
            kind=kind,
            before=present.digest,
            after=after,
            mode=present.mode,
        )


def find_turn(context: ToolContext[CallContext]) -> int:
    """Return the number of the turn in the conversation, also for a call of an agent that works for a tool.

    >>> nested = ToolContext(run_id="s/t3.i0.tool.0", key="t1.i2.tool.0", tool="write_file")
    >>> find_turn(nested), find_turn(ToolContext(run_id="s", key="t2.i0.tool.0", tool="write_file"))
    (3, 2)
    """
    outer = _OUTER_TURN.search(context.run_id)
    return int(outer[1]) if outer else context.turn


def _encode_content(content: str) -> bytes:
    try:
        return content.encode()
    except UnicodeEncodeError:
        raise ToolError("ValueError: content holds half of a surrogate pair.") from None


def _find_missing(path: str) -> list[str]:
    """Return the folders of a path that do not exist, outer ones first."""
    missing: list[str] = []
    place = Path(path)
    while not os.path.lexists(place):
        missing.append(str(place))
        place = place.parent
    return missing[::-1]
