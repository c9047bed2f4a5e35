"""The branch of a git repository, read from its files.

It must never start git, which runs programs that a repository names.
"""

from __future__ import annotations

from pathlib import Path

_MOST_BYTES = 4_096
_BRANCHES = "ref: refs/heads/"
_SHORT = 8


def find_branch(repository: str) -> str:
    """Return the branch of a repository; a part of the commit if none is checked out; empty if unknown.

    Args:
        repository: its top folder; empty for none.
    """
    if not repository:
        return ""
    place = Path(repository) / ".git"
    if place.is_file():  # a worktree or a submodule
        named = _read_line(place).removeprefix("gitdir:").strip()
        place = Path(repository, named)
    head = _read_line(place / "HEAD")
    if head.startswith(_BRANCHES):
        return head.removeprefix(_BRANCHES)
    return head[:_SHORT] if head.isalnum() else ""


def _read_line(path: Path) -> str:
    try:
        with path.open("rb") as stream:
            return stream.read(_MOST_BYTES).decode(errors="replace").partition("\n")[0].strip()
    except OSError:
        return ""
