"""The demo's three real tools over a folder, and the plain count that its answer is checked against.

A tool must never leave the folder: paths are resolved first and refused when they lie outside.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from msgspec import Struct

from holdfast.tools.tool import tool

_MOST_FILES = 400
_LARGEST_FILE = 1_000_000
_SKIPPED = frozenset(
    {".git", ".venv", ".tools", "node_modules", "__pycache__", ".mypy_cache", ".ruff_cache"}
)


class Counted(Struct, frozen=True):
    """What is true about a folder: files, lines, the longest file, and lines with the word."""

    files: int
    lines: int
    longest: str
    longest_lines: int
    mentions: int


def text_files(folder: Path) -> Iterator[Path]:
    """The readable text files below `folder`, in order, without tool folders; at most 400."""
    found = 0
    for path in sorted(folder.rglob("*")):
        inside = path.relative_to(folder).parts
        if _SKIPPED.intersection(inside) or any(part.startswith(".") for part in inside):
            continue
        if path.is_symlink() or not path.is_file() or _read(path) is None:
            continue
        yield path
        found += 1
        if found == _MOST_FILES:
            return


def _read(path: Path) -> str | None:
    try:
        if path.stat().st_size > _LARGEST_FILE:
            return None
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        return None


def count(folder: Path, word: str) -> Counted:
    """The plain count, without any agent."""
    sizes: dict[str, int] = {}
    mentions = 0
    for path in text_files(folder):
        lines = (_read(path) or "").splitlines()
        sizes[str(path.relative_to(folder))] = len(lines)
        mentions += sum(word in line for line in lines)
    longest = max(sizes, key=lambda name: (sizes[name], name), default="")
    return Counted(len(sizes), sum(sizes.values()), longest, sizes.get(longest, 0), mentions)


class SearchIndexDown(Exception):
    """The remote index cannot be reached; its message holds what must not be shown."""


def folder_tools(folder: Path) -> list[Callable[..., object]]:
    """`list_files`, `count_lines` and `search_text` for one folder."""
    root = folder.resolve()

    @tool(effect="read")
    def list_files() -> list[str]:
        """List the text files of the folder, as paths relative to it."""
        return [str(path.relative_to(root)) for path in text_files(root)]

    @tool(effect="read")
    def count_lines(paths: list[str]) -> dict[str, int]:
        """Count the lines of some files.

        Args:
            paths: paths as list_files gives them.
        """
        return {path: len((_read(_inside(root, path)) or "").splitlines()) for path in paths}

    @tool(effect="read")
    def search_text(word: str, index: str = "local") -> int:
        """Count the lines that hold a word.

        Args:
            word: the text to look for.
            index: "local" reads the files; "remote" asks the search server.
        """
        if index == "remote":
            raise SearchIndexDown("no route to postgres://search:hunter2@index.internal/files")
        return count(root, word).mentions

    return [list_files, count_lines, search_text]


def _inside(root: Path, path: str) -> Path:
    wanted = (root / path).resolve()
    if not wanted.is_relative_to(root):
        raise ValueError(f"{path!r} lies outside the folder")
    return wanted
