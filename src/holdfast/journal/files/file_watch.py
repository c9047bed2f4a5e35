"""Checks that the files of an open SQLite journal are still the ones that were opened.

SQLite continues to write to its open files after they were deleted or replaced, and such a commit is
lost. No other program may write to the files, so they do not change between two groups of
operations. Before a group, the paths must lead to the open files, the files must have their last
size, and the log must have its last header. After COMMIT, and before it is acknowledged, the paths
must still lead to the files, and no file may be shorter. A file that is overwritten in place with
the same number of bytes is not detected.

Every commit waits for two of these checks, which take about four microseconds each. While the
folder's time of change is the same, no name in it has changed, so the names are not looked up. The
size of the log comes from `lseek` and not from `stat`: after a `stat`, Linux sets a new time at the
next write, which made a commit 50 microseconds slower.
"""

from __future__ import annotations

import os
import sys
import time
from contextlib import suppress
from pathlib import Path

from holdfast.journal.files.file_lock import ENDING, FileLock, Identity, identity_of
from holdfast.journal.journal_errors import JournalError, JournalStorageError

LOG_ENDING = "-wal"

_LOG_HEADER = 32  # bytes; two random numbers in it differ from log to log
_LOG_BEGINNING = b"\x37\x7f\x06"

_SECOND = 1_000_000_000  # nanoseconds
_TICK = 50_000_000  # nanoseconds; longer than the resolution of file times on Linux

_STOP = "Stop the program that changes it, restore a backup if records are missing, and reopen it"
_FOLD = "Close the journal, which writes all acknowledged records into the file, and reopen it"
_LOCK = "Stop the program that removes it; another process may have the journal open. Reopen it"

_CHANGED = "was written by another program"
_DELETED = "was deleted"
_REPLACED = "was replaced"
_TRUNCATED = "was truncated"


class FileWatch:
    """Compares the journal, its log and its lock file with their last known state.

    After the first difference, every check raises the same error.

    Args:
        path: the open journal.
        lock: the lock of the journal.

    Raises:
        JournalError: a file is not the one that was locked or opened.
    """

    def __init__(self, path: str, lock: FileLock) -> None:
        self._path = path
        self._log_path = path + LOG_ENDING
        self._lock_path = path + ENDING
        self._folder = str(Path(path).parent)
        self._folder_changed: tuple[int, int, int] | None = None
        self._failure: tuple[str, str] | None = None
        self._lost_log = False
        try:
            self._log = os.open(self._log_path, os.O_RDONLY)
        except OSError as error:
            problem = f"its {LOG_ENDING} file cannot be opened: {error}"
            raise JournalStorageError(path, problem, fix=_STOP) from error
        self._file = lock.descriptor
        self._file_id = lock.identity
        self._lock_id = lock.lock_identity
        self._log_id = identity_of(os.fstat(self._log))
        self.observe()
        if not self._is_committed():
            self.close()
            self._fail(may_grow=True)
            self._raise()

    def check(self) -> None:
        """Check the files before a group of writes.

        Raises:
            JournalError: one of them was changed.
        """
        if self._failure is None and not self._is_unchanged():
            self._fail(may_grow=False)
        self._raise()

    def check_commit(self) -> None:
        """Check the files after a commit, before it is acknowledged.

        Raises:
            JournalError: the files may not contain the commit.
        """
        if self._failure is None and not self._is_committed():
            self._fail(may_grow=True)
        self._raise()

    def is_intact(self) -> bool:
        """Whether no file was changed."""
        with suppress(JournalError):
            self.check()
        return self._failure is None

    def observe(self) -> None:
        """Remember the current sizes, after an operation of this process that changed them."""
        self._file_size = os.lseek(self._file, 0, os.SEEK_END)
        self._log_size = os.lseek(self._log, 0, os.SEEK_END)
        self._log_header = self._read_log_header()

    def allows_checkpoint(self) -> bool:
        """Whether closing the journal may copy the log into the file.

        It may if no file was changed. If the log was only deleted or replaced, copying the open log
        saves its records.
        """
        if self.is_intact():
            return True
        return (
            self._lost_log
            and os.lseek(self._log, 0, os.SEEK_END) >= self._log_size
            and not _difference(self._path, self._file_id, self._file_size, may_grow=True)
            and not _difference(self._lock_path, self._lock_id)
        )

    def close(self) -> None:
        """Close the log, before SQLite deletes it."""
        os.close(self._log)

    def _is_unchanged(self) -> bool:
        return (
            os.lseek(self._file, 0, os.SEEK_END) == self._file_size
            and os.lseek(self._log, 0, os.SEEK_END) == self._log_size
            and self._read_log_header() == self._log_header
            and self._have_names()
        )

    def _is_committed(self) -> bool:
        file_size = os.lseek(self._file, 0, os.SEEK_END)
        log_size = os.lseek(self._log, 0, os.SEEK_END)
        header = self._read_log_header()
        if (
            file_size < self._file_size
            or log_size < self._log_size
            # A log that was truncated and then written at its old end begins with zeros. A log
            # left by a power failure may do so too, until SQLite restarts it.
            or (header != self._log_header and not header.startswith(_LOG_BEGINNING[: len(header)]))
            or not self._have_names()
        ):
            return False
        self._file_size = file_size
        self._log_size = log_size
        self._log_header = header
        return True

    def _have_names(self) -> bool:
        """Whether the three paths lead to the open files."""
        try:
            folder = os.lstat(self._folder)
            changed = (folder.st_dev, folder.st_ino, folder.st_ctime_ns)
            if changed == self._folder_changed:
                return True
            if not (
                identity_of(os.lstat(self._path)) == self._file_id
                and identity_of(os.lstat(self._log_path)) == self._log_id
                and identity_of(os.lstat(self._lock_path)) == self._lock_id
            ):
                return False
        except OSError:
            return False
        self._folder_changed = changed if _is_settled(folder) else None
        return True

    def _read_log_header(self) -> bytes:
        return b"" if sys.platform == "win32" else os.pread(self._log, _LOG_HEADER, 0)

    def _fail(self, *, may_grow: bool) -> None:
        """Describe the most serious difference."""
        if change := _difference(self._path, self._file_id, self._file_size, may_grow=may_grow):
            problem, fix = change, _STOP
        elif change := _difference(self._lock_path, self._lock_id):
            problem, fix = f"its lock file {Path(self._lock_path).name} {change}", _LOCK
        else:
            change = _difference(self._log_path, self._log_id, self._log_size, may_grow=may_grow)
            # Without a difference in size it is the header of the log, the only content compared.
            change = change or (_TRUNCATED if may_grow else _CHANGED)
            self._lost_log = change in {_DELETED, _REPLACED}
            problem, fix = f"its {LOG_ENDING} file {change}", _FOLD if self._lost_log else _STOP
        self._failure = f"{problem} while it was open", fix

    def _raise(self) -> None:
        if self._failure is not None:
            problem, fix = self._failure
            raise JournalStorageError(self._path, problem, fix=fix)


def _difference(path: str, identity: Identity, size: int = 0, *, may_grow: bool = True) -> str:
    """Describe how a file was changed; "" if it was not."""
    try:
        found = os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return _DELETED
    except OSError as error:
        return f"could not be checked ({error})"
    if identity_of(found) != identity:
        return _REPLACED
    if found.st_size < size:
        return _TRUNCATED
    return "" if may_grow or found.st_size == size else _CHANGED


def _is_settled(folder: os.stat_result) -> bool:
    """Whether any later change of the folder will change its time."""
    if sys.platform != "linux" or folder.st_ctime_ns % _SECOND == 0:
        return False  # other systems are not tested; some file systems have times in seconds
    return time.time_ns() - folder.st_ctime_ns > _TICK
