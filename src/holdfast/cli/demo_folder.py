"""The demo's three tools over a folder, and the count that its answer is checked against.

The tools resolve each path first and refuse it if it lies outside the folder.
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
SECRET = "hunter2"  # noqa: S105  # REASON: invented, to show that it does not leak
_SKIPPED = frozenset({"node_modules", "__pycache__"})


class FolderCounts(Struct, frozen=True):
    """The counts of a folder: files, lines, the longest file, and lines with the word."""

    files: int
    lines: int
    longest: str
    longest_lines: int
    mentions: int


class FolderFiles(Struct, frozen=True):
    """The text files of a folder in order, and whether the list is complete."""

    files: tuple[Path, ...]
    complete: bool = True


def text_files(folder: Path) -> FolderFiles:
    """List the text files below `folder`, without hidden files and folders of tools.

    At most 5,000 files are read and at most 1,000 listed, and fewer if their paths are very long.
    So the demo takes seconds in any folder.
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
        # Changed in place: `os.walk` skips the folders removed here.
        folders[:] = sorted(filter(_is_shown, folders))
        yield from (Path(parent, name) for name in sorted(filter(_is_shown, files)))


def _is_shown(name: str) -> bool:
    # A name that is not valid UTF-8 cannot be sent to a model.
    return not name.startswith(".") and name not in _SKIPPED and name.isprintable()


def read_text(path: Path) -> str | None:
    """Read a text file of at most a megabyte; return None if it is larger, not text or unreadable."""
    try:
        if path.is_symlink() or not path.is_file() or path.stat().st_size > LARGEST_FILE:
            return None
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        return None
    return None if "\0" in text else text


def count_folder(folder: Path, word: str) -> FolderCounts:
    """Count files, lines and lines with the word, without an agent."""
    sizes: dict[str, int] = {}
    mentions = 0
    for path in text_files(folder).files:
        lines = (read_text(path) or "").splitlines()
        sizes[str(path.relative_to(folder))] = len(lines)
        mentions += sum(word in line for line in lines)
    longest = max(sizes, key=lambda name: (sizes[name], name), default="")
    return FolderCounts(len(sizes), sum(sizes.values()), longest, sizes.get(longest, 0), mentions)


class SearchServerDown(Exception):
    """The search server cannot be reached; the message contains a password."""


def folder_tools(folder: Path) -> list[Callable[..., object]]:
    """Make the tools `list_files`, `count_lines` and `search_text` for one folder."""
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
