"""Whether the files of an open SQLite journal are still the ones that were opened.

SQLite goes on writing to the files that it has open when their names are gone or lead to other
files. A commit to such files keeps nothing. Nobody else may write, so no file changes between two
groups of operations: before a group, the names must lead to the open files, the files must have
their size, and the log its header. After COMMIT, and before it is acknowledged, the names must lead
to them still, and none may be shorter. A file that is overwritten in its place with as many bytes
is not noticed.

Every commit waits for these checks, which take about four microseconds each. As long as the folder
has its time of change, no name in it was changed, and the names are not looked up. The size of the
log is asked by `lseek` and not by `stat`: after a `stat`, Linux gives the file a new time at the next
write, which made a commit 50 microseconds slower.
"""

from __future__ import annotations

import os
import sys
import time
from contextlib import suppress
from pathlib import Path

from holdfast.journal.file_lock import ENDING, FileLock, Identity, identity_of
from holdfast.journal.journal_errors import JournalError, JournalStorageError

LOG_ENDING = "-wal"

_LOG_HEADER = 32  # bytes; two random numbers in it are other ones in another log
_LOG_BEGINNING = b"\x37\x7f\x06"

_SECOND = 1_000_000_000  # nanoseconds
_TICK = 50_000_000  # longer than any Linux lets the time of files stand still

_STOP = "Stop what changes it, restore a backup if records are missing, and open the journal again"
_FOLD = "Close the journal, which writes what was acknowledged into the file, and open it again"
_LOCK = "Stop what removes it; another process may have the journal. Open the journal again"

_CHANGED = "was written by another program"
_DELETED = "was deleted"
_REPLACED = "was replaced"
_TRUNCATED = "was truncated"


class FileWatch:
    """Compares the journal, its log and its lock file with what they were.

    After the first difference every check raises the same error.

    Args:
        path: the journal, which is open.
        lock: the lock on it.

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
        """Raise unless all files are as they were left; before a group that writes.

        Raises:
            JournalError: one of them was changed.
        """
        if self._failure is None and not self._is_unchanged():
            self._fail(may_grow=False)
        self._raise()

    def check_commit(self) -> None:
        """Raise unless what was committed is in the files; before it is acknowledged.

        Raises:
            JournalError: it may not be.
        """
        if self._failure is None and not self._is_committed():
            self._fail(may_grow=True)
        self._raise()

    def is_intact(self) -> bool:
        """Whether all files are as they were left."""
        with suppress(JournalError):
            self.check()
        return self._failure is None

    def observe(self) -> None:
        """Take the sizes as they are for what they should be; after an operation that changes them."""
        self._file_size = os.lseek(self._file, 0, os.SEEK_END)
        self._log_size = os.lseek(self._log, 0, os.SEEK_END)
        self._log_header = self._read_log_header()

    def allows_checkpoint(self) -> bool:
        """Whether the log may be written into the file when the journal is closed.

        It may when nothing was changed. When the log has only lost its name, that saves it.
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
        """Let go of the log, before SQLite deletes it."""
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
            # A log that was cut off, and written on where it had its end, begins with zeros. One
            # that a loss of power left may do so too, until SQLite begins it anew.
            or (header != self._log_header and not header.startswith(_LOG_BEGINNING[: len(header)]))
            or not self._have_names()
        ):
            return False
        self._file_size = file_size
        self._log_size = log_size
        self._log_header = header
        return True

    def _have_names(self) -> bool:
        """Whether the three names lead to the files that are open."""
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
        """Say what is different, the worst first."""
        if what := _difference(self._path, self._file_id, self._file_size, may_grow=may_grow):
            problem, fix = what, _STOP
        elif what := _difference(self._lock_path, self._lock_id):
            problem, fix = f"its lock file {Path(self._lock_path).name} {what}", _LOCK
        else:
            what = _difference(self._log_path, self._log_id, self._log_size, may_grow=may_grow)
            # Only the log is looked into, so a difference that no size shows is there.
            what = what or (_TRUNCATED if may_grow else _CHANGED)
            self._lost_log = what in {_DELETED, _REPLACED}
            problem, fix = f"its {LOG_ENDING} file {what}", _FOLD if self._lost_log else _STOP
        self._failure = f"{problem} while it was open", fix

    def _raise(self) -> None:
        if self._failure is not None:
            problem, fix = self._failure
            raise JournalStorageError(self._path, problem, fix=fix)


def _difference(path: str, identity: Identity, size: int = 0, *, may_grow: bool = True) -> str:
    """What happened to a file, in words; empty when nothing did."""
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
    """Whether a change of the folder from now on gives it another time."""
    if sys.platform != "linux" or folder.st_ctime_ns % _SECOND == 0:
        return False  # not tested there; a file system that counts in seconds
    return time.time_ns() - folder.st_ctime_ns > _TICK
