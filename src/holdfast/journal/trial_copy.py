"""Copies of a SQLite journal and its logs, in a folder beside it, on which a log is tried.

The folder is for its owner only, since a copy holds conversations, and is removed in any case. It
must never touch what is not a copy.
"""

from __future__ import annotations

import errno
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from holdfast.journal.journal_errors import JournalStorageError
from holdfast.journal.log_file import LOG, ROLLBACK, size_of

_LARGEST_PAGE = 65536
_COPY = "copy"
_COPIES = (_COPY, _COPY + LOG, _COPY + ROLLBACK, _COPY + "-shm")


@contextmanager
def copied_files(path: str, *, pages: bool) -> Iterator[str]:
    """A copy of a journal and its logs in a folder beside it, for as long as it is looked at.

    Args:
        path: the journal.
        pages: whether all its pages are needed; else the first one.
    """
    folder = _folder_of(path)
    logs = [ending for ending in (LOG, ROLLBACK) if size_of(path + ending)]
    needed = (size_of(path) if pages else 0) + 2 * sum(size_of(path + one) for one in logs)
    try:
        if shutil.disk_usage(folder.parent).free < needed:
            raise OSError(errno.ENOSPC, "no room")
        folder.mkdir(0o700)
        try:
            copy = folder / _COPY
            _copy_file(path, copy, pages=pages)
            for ending in logs:
                shutil.copyfile(path + ending, str(copy) + ending)
            yield str(copy)
        finally:
            _remove_folder(folder)
    except OSError as error:
        if error.errno == errno.ENOSPC:
            problem = f"has a log, and no room for a copy of {needed} bytes to check it on"
            raise JournalStorageError(
                path, problem, fix="Free some space, and open it again"
            ) from error
        problem = f"has a log that cannot be checked on a copy in {folder}: {error.strerror}"
        raise JournalStorageError(
            path, problem, fix="See that this user can make that folder"
        ) from error


def _copy_file(path: str, copy: Path, *, pages: bool) -> None:
    if pages:
        shutil.copyfile(path, copy)
        return
    with Path(path).open("rb") as file, copy.open("xb") as made:
        made.write(file.read(_LARGEST_PAGE))
        made.truncate(size_of(path))  # a hole: it takes no room


def _folder_of(path: str) -> Path:
    return Path(path).with_name(f".{Path(path).name}-check")


def remove_leftover(path: str) -> None:
    """Remove the copies of a process that was killed while it looked at them, and nothing else.

    Args:
        path: the journal.
    """
    folder = _folder_of(path)
    try:
        if stat.S_ISDIR(folder.lstat().st_mode):
            _remove_folder(folder)
    except OSError:
        return


def _remove_folder(folder: Path) -> None:
    for name in _COPIES:
        (folder / name).unlink(missing_ok=True)
    folder.rmdir()
