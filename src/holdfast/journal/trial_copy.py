"""Copies a SQLite journal and its logs to a folder beside it, to apply the logs to the copy.

Only the owner can read the folder, since the copy contains conversations. The folder is always
removed afterwards.
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

_BEGINNING = 1_000_000
"""The first bytes of a journal: SQLite needs the pages of the schema, which lie there in a new file."""

_COPY = "copy"
_COPIES = (_COPY, _COPY + LOG, _COPY + ROLLBACK, _COPY + "-shm")


@contextmanager
def copied_files(path: str, *, pages: bool) -> Iterator[str]:
    """Copy a journal and its logs to a folder beside it; remove the folder at the end.

    Args:
        path: the journal.
        pages: whether to copy all pages; otherwise only those at the beginning.

    Raises:
        JournalStorageError: the copy cannot be made, such as on a full disk.
    """
    folder = _folder_of(path)
    logs = [ending for ending in (LOG, ROLLBACK) if size_of(path + ending)]
    needed = (size_of(path) if pages else 0) + 2 * sum(size_of(path + ending) for ending in logs)
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
            problem = (
                f"has a log, and the disk has no room for a copy of {needed} bytes to check it"
            )
            raise JournalStorageError(
                path, problem, fix="Free some space, and open it again"
            ) from error
        problem = f"has a log that cannot be checked on a copy in {folder}: {error.strerror}"
        raise JournalStorageError(
            path, problem, fix="Check that this user can create that folder"
        ) from error


def _copy_file(path: str, copy: Path, *, pages: bool) -> None:
    if pages:
        shutil.copyfile(path, copy)
        return
    with Path(path).open("rb") as file, copy.open("xb") as target:
        target.write(file.read(_BEGINNING))
        target.truncate(size_of(path))  # a sparse file: it needs no space


def _folder_of(path: str) -> Path:
    return Path(path).with_name(f".{Path(path).name}-check")


def remove_leftover(path: str) -> None:
    """Remove the copies that a killed process left, and nothing else.

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
