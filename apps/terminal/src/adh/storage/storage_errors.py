"""Errors of the program's files. Each names the file, the problem and the fix."""

from __future__ import annotations

import errno
from pathlib import Path

_PROBLEMS = {
    errno.EACCES: ("may not be accessed by this user", "Change its permissions or its owner"),
    errno.EDQUOT: ("does not fit into the quota of this user", "Free some space and try again"),
    errno.EFBIG: ("would grow over the file size limit", "Raise the limit or delete old entries"),
    errno.EISDIR: ("is a folder", "Move it away"),
    errno.ELOOP: ("leads through a symbolic link", "Give the path without links"),
    errno.ENAMETOOLONG: ("has a name that is too long", "Give a shorter name"),
    errno.ENOENT: ("does not exist", "Check the path"),
    errno.ENOSPC: ("does not fit: the disk is full", "Free some space and try again"),
    errno.ENOTDIR: ("leads through something that is not a folder", "Check the path"),
    errno.EPERM: ("may not be changed by this user", "Change its permissions or its owner"),
    errno.EROFS: ("is on a read-only disk", "Make the disk writable, or set another folder"),
}


class StorageError(Exception):
    """A file or folder cannot be used.

    Args:
        path: the file or folder.
        problem: the problem, as the rest of a sentence about the file.
        fix: the instruction that solves it, as a sentence without its full stop.
    """

    def __init__(self, path: str | Path, problem: str, fix: str) -> None:
        super().__init__(str(path), problem, fix)
        self.path = str(path)
        self.problem = problem
        self.fix = fix

    def __str__(self) -> str:
        return f"{self.path} {self.problem}. {self.fix}."


class ProjectFileError(StorageError):
    """A file that a call works on cannot be used. Other storage errors are about the program's own files."""


class LinkInPathError(ProjectFileError):
    """A part of the path is a symbolic link, which was not there when the path was approved."""


class ChangedContentError(ProjectFileError):
    """A file is not as it was when its change was planned."""


def explain_os_error(error: OSError) -> tuple[str, str]:
    """Return the problem and the fix of an error of the system, in plain words.

    >>> explain_os_error(OSError(errno.ENOSPC, "")) [0]
    'does not fit: the disk is full'
    """
    known = _PROBLEMS.get(error.errno or 0)
    if known is not None:
        return known
    return f"cannot be used ({error.strerror or type(error).__name__})", "Check the disk"
