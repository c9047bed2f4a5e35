"""The tools that read: read_file, list_directory and get_file_info.

They must never open anything but a regular file or a folder, as that could wait without end.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Annotated

from msgspec import Meta

from adh.storage.call_context import CallContext
from adh.storage.path_steps import (
    is_link,
    make_link_error,
    name_kind,
    open_folder,
    open_parent,
    open_regular_file,
)
from adh.storage.storage_errors import ProjectFileError
from adh.tools.failure_words import raise_as_tool_error
from adh.tools.judged_paths import find_judged_path
from adh.tools.text_content import cut_lines, decode_text, find_binary_kind
from adh.tools.tools_context import ToolsContext
from holdfast import tool
from holdfast.tools import ToolContext, ToolError

MOST_BYTES = 10_000_000
"""The largest file that is read."""
MOST_ENTRIES = 2_000
"""The largest number of entries that are listed."""

Lines = Annotated[int, Meta(ge=1)]


class FileReaders:
    """The tools that read.

    Args:
        context: the parts that the tools work with.
    """

    def __init__(self, context: ToolsContext) -> None:
        self._context = context

    def list_tools(self) -> tuple[Callable[..., object], ...]:
        """Return the tools."""
        return self.read_file, self.list_directory, self.get_file_info

    @tool(effect="read")
    def read_file(
        self, context: ToolContext[CallContext], file_path: str, max_lines: Lines | None = None
    ) -> str:
        """Read a text file of at most 10 MB.

        Args:
            context: the call.
            file_path: the path of the file, absolute or relative to the working folder.
            max_lines: how many lines to read, from the first; all by default.
        """
        with raise_as_tool_error("file_path"):
            path = find_judged_path(context, file_path, self._context.home)
            with open_parent(path) as (folder, name):
                if stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
                    raise ProjectFileError(path, "is a folder", "Use list_directory")
                descriptor = open_regular_file(folder, name, path)
            content = _read_content(descriptor, path, max_lines)
        kind = find_binary_kind(content)
        if kind:
            raise ToolError(f"ValueError: file_path is not a text file but {kind}.")
        decoded = decode_text(content)
        text = cut_lines(decoded.text, max_lines)
        if decoded.encoding == "utf-8":
            return text
        return f"[the file is encoded as {decoded.encoding}]\n{text}"

    @tool(effect="read")
    def list_directory(
        self,
        context: ToolContext[CallContext],
        directory: str = ".",
        *,
        show_hidden: bool = False,
    ) -> dict[str, object]:
        """List the entries of a folder with their kinds and sizes.

        Args:
            context: the call.
            directory: the path of the folder, absolute or relative to the working folder.
            show_hidden: whether to list names that begin with a dot.
        """
        with raise_as_tool_error("directory"):
            path = find_judged_path(context, directory, self._context.home)
            with open_parent(path) as (parent, name):
                descriptor = open_folder(parent, name, path)
            try:
                entries, missing = _list_entries(descriptor, show_hidden=show_hidden)
            finally:
                os.close(descriptor)
        listed: dict[str, object] = {"directory": path, "entries": entries}
        if missing:
            listed["not_listed"] = missing
        return listed

    @tool(effect="read")
    def get_file_info(self, context: ToolContext[CallContext], file_path: str) -> dict[str, object]:
        """Tell the kind, size, times and permissions of a file or folder.

        Args:
            context: the call.
            file_path: its path, absolute or relative to the working folder.
        """
        with raise_as_tool_error("file_path"):
            path = find_judged_path(context, file_path, self._context.home)
            with open_parent(path) as (folder, name):
                if is_link(folder, name):
                    raise make_link_error(path)
                found = os.stat(name, dir_fd=folder, follow_symlinks=False)
        return {
            "path": path,
            "kind": name_kind(found.st_mode),
            "size": found.st_size,
            "mode": stat.filemode(found.st_mode),
            "modified": _format_time(found.st_mtime),
            "accessed": _format_time(found.st_atime),
            "changed": _format_time(found.st_ctime),
        }


def _read_content(descriptor: int, path: str, max_lines: int | None) -> bytes:
    with os.fdopen(descriptor, "rb") as file:
        size = os.fstat(descriptor).st_size
        if size > MOST_BYTES and max_lines is None:
            problem = f"has {size:,} bytes, and at most {MOST_BYTES:,} are read"
            raise ProjectFileError(path, problem, "Pass max_lines to read its beginning")
        # One byte more shows a file that grows meanwhile.
        # A file of /proc that would wait has nothing to read.
        content = file.read(MOST_BYTES + 1) or b""
    if len(content) > MOST_BYTES:
        if max_lines is None:
            raise ProjectFileError(path, "grows while it is read", "Pass max_lines")
        content = content[:MOST_BYTES]
    return content


def _list_entries(descriptor: int, *, show_hidden: bool) -> tuple[list[dict[str, object]], int]:
    names = sorted(
        name
        for name in os.listdir(descriptor)  # REASON: of a descriptor
        if show_hidden or not name.startswith(".")
    )
    entries: list[dict[str, object]] = []
    for name in names[:MOST_ENTRIES]:
        try:
            found = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
        except FileNotFoundError:
            continue  # it was deleted meanwhile
        entry: dict[str, object] = {"name": name, "kind": name_kind(found.st_mode)}
        if stat.S_ISREG(found.st_mode):
            entry["size"] = found.st_size
        entries.append(entry)
    return entries, max(len(names) - MOST_ENTRIES, 0)


def _format_time(seconds: float) -> str:
    try:
        return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
    except (OverflowError, ValueError, OSError):
        return f"{seconds:.0f} seconds after 1970"  # a year that the calendar does not have
