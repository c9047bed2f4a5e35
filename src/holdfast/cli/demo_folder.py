"""The demo's three real tools over a folder, and the plain count that its answer is checked against.

A tool must never leave the folder: paths are resolved first and refused when they lie outside.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

from msgspec import Struct

from holdfast.tools.tool import tool
from holdfast.tools.tool_failures import ToolError

MOST_FILES = 1_000
MOST_LOOKED_AT = 5_000
LARGEST_FILE = 1_000_000
_LONGEST_LIST = 60_000
SECRET = "hunter2"  # noqa: S105  # REASON: made up, to show that it goes nowhere
_SKIPPED = frozenset({"node_modules", "__pycache__"})


class FolderCounts(Struct, frozen=True):
    """What is true about a folder: files, lines, the longest file, and lines with the word."""

    files: int
    lines: int
    longest: str
    longest_lines: int
    mentions: int


class FolderFiles(Struct, frozen=True):
    """The text files of a folder in order, and whether these are all."""

    files: tuple[Path, ...]
    complete: bool = True


def text_files(folder: Path) -> FolderFiles:
    """The text files below `folder`, without hidden ones and tool folders.

    At most 1,000 of at most 5,000 files, and fewer when a list of them would be very long, so that
    the demo takes seconds wherever it is started.
    """
    files: list[Path] = []
    length = 0
    for seen, path in enumerate(_all_files(folder)):
        if seen == MOST_LOOKED_AT or len(files) == MOST_FILES or length > _LONGEST_LIST:
            return FolderFiles(tuple(files), complete=False)
        if read_text(path) is not None:
            files.append(path)
            length += len(str(path.relative_to(folder)))
    return FolderFiles(tuple(files))


def _all_files(folder: Path) -> Iterator[Path]:
    for parent, folders, files in os.walk(folder):
        # In place: what is taken out here is not walked.
        folders[:] = sorted(filter(_is_shown, folders))
        yield from (Path(parent, name) for name in sorted(filter(_is_shown, files)))


def _is_shown(name: str) -> bool:
    # A name that is no UTF-8 cannot be told to a model.
    return not name.startswith(".") and name not in _SKIPPED and name.isprintable()


def read_text(path: Path) -> str | None:
    """The text of a file of at most a megabyte; None when it is none, or cannot be read."""
    try:
        if path.is_symlink() or not path.is_file() or path.stat().st_size > LARGEST_FILE:
            return None
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        return None
    return None if "\0" in text else text


def count_folder(folder: Path, word: str) -> FolderCounts:
    """The plain count, without any agent."""
    sizes: dict[str, int] = {}
    mentions = 0
    for path in text_files(folder).files:
        lines = (read_text(path) or "").splitlines()
        sizes[str(path.relative_to(folder))] = len(lines)
        mentions += sum(word in line for line in lines)
    longest = max(sizes, key=lambda name: (sizes[name], name), default="")
    return FolderCounts(len(sizes), sum(sizes.values()), longest, sizes.get(longest, 0), mentions)


class SearchServerDown(Exception):
    """The search server cannot be reached; its message holds what must not be shown."""


def folder_tools(folder: Path) -> list[Callable[..., object]]:
    """`list_files`, `count_lines` and `search_text` for one folder."""
    root = folder.resolve()

    @tool(effect="read")
    def list_files() -> list[str]:
        """List the text files of the folder, the first 1,000 at most, as paths relative to it."""
        return [str(path.relative_to(root)) for path in text_files(root).files]

    @tool(effect="read")
    def count_lines(paths: list[str]) -> dict[str, int]:
        """Count the lines of some files.

        Args:
            paths: paths as list_files gives them.
        """
        return {
            path: len((read_text(_resolve_inside(root, path)) or "").splitlines()) for path in paths
        }

    @tool(effect="read")
    def search_text(word: str, index: str = "local") -> int:
        """Count the lines that hold a word.

        Args:
            word: the text to look for.
            index: "local" reads the files; "server" asks the search server.
        """
        if index == "server":
            raise SearchServerDown(f"no route to postgres://search:{SECRET}@search.internal/files")
        return count_folder(root, word).mentions

    return [list_files, count_lines, search_text]


def _resolve_inside(root: Path, path: str) -> Path:
    wanted = (root / path).resolve()
    if not wanted.is_relative_to(root):
        raise ToolError(f"{path!r} lies outside the folder")
    return wanted
