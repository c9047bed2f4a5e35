"""Reads a SQLite journal beside the process that writes it, at any moment, without changing a record.

Each read opens the file, sees the state of one commit, and closes it again. So a reader never makes
a writer wait for its locks, and the writer may start, be killed or close meanwhile. There are three
cases. With a write-ahead log and its index (`-shm`), SQLite reads both and the index is opened
read-only. With a log alone, as after a copy, SQLite makes the index first. Without a log no process
writes, and SQLite reads the file alone: the read is repeated if the file changed meanwhile.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import TypeVar

from holdfast.core.errors import HoldfastError
from holdfast.journal.files.file_check import check_identity, check_schema
from holdfast.journal.files.file_lock import take_lock
from holdfast.journal.files.log_check import check_files, check_left_alone
from holdfast.journal.files.log_file import LOG, ROLLBACK, size_of
from holdfast.journal.files.sqlite_schema import VERSION
from holdfast.journal.journal_errors import (
    JournalBusyError,
    JournalClosedError,
    JournalCorruptError,
    JournalError,
    JournalReadOnlyError,
    JournalStorageError,
    JournalVersionError,
)
from holdfast.journal.sqlite import opening
from holdfast.journal.sqlite.writer import WriterJob

T = TypeVar("T")
Stamp = tuple[int, int, int, bool]

_INDEX = "-shm"
_WAIT = 2.0  # seconds for which a read is repeated while the files change
_PAUSE = 0.01
_NO_TABLES = "holds no tables"
_WHILE_OPENING = (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PROTOCOL)
"""The errors of SQLite while another process makes or removes the index of the log."""


class FileReader:
    """Performs the reads of a journal in a thread, in the place of the thread that writes.

    Args:
        path: the journal.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._process = os.getpid()
        self._thread = ThreadPoolExecutor(1, "holdfast-reader")

    on_answer: Callable[[], None] | None = None
    """Nothing changes through this object."""

    def submit(self, job: WriterJob[T]) -> WriterJob[T]:
        """Queue a read. Raises JournalReadOnlyError for a change."""
        if os.getpid() != self._process:
            raise JournalClosedError(
                self.path,
                "was opened before this process was forked",
                fix="Open a ReadOnlySqliteJournal in the child",
            )
        if job.writes:
            raise JournalReadOnlyError(
                self.path, "is open for reading only", fix="Open it as SqliteJournal to change it"
            )
        try:
            self._thread.submit(self._perform, job)
        except RuntimeError:
            raise JournalClosedError(self.path, "is closed", fix="Open it again") from None
        return job

    def close(self, seconds: float | None = None) -> bool:
        """Finish the queued reads, and wait for that unless seconds are given."""
        if os.getpid() == self._process:
            self._thread.shutdown(wait=seconds is None)
        return True

    def _perform(self, job: WriterJob[T]) -> None:
        if not job.claim():
            return
        try:
            job.value = read_beside(self.path, job.work)
        except Exception as error:  # noqa: BLE001  # REASON: the caller gets it
            job.error = error
        job.finish()


def read_beside(path: str, work: Callable[[sqlite3.Connection], T]) -> T:
    """Read a journal in the state of one commit, whatever its writer does meanwhile.

    Args:
        path: the journal, without symbolic links.
        work: reads with the connection; called again if the file changed meanwhile.

    Raises:
        JournalError: the file cannot be read or is not a journal.
    """
    deadline = time.monotonic() + _WAIT
    while True:
        stamp = _stamp_of(path)
        failure: JournalError
        try:
            with (
                opening.index_guard,
                closing(_connect(path, has_log=stamp[3])) as connection,
            ):
                connection.execute("BEGIN")
                _check_tables(connection, path)
                value = work(connection)
            if stamp[3] or _stamp_of(path) == stamp:
                return value
            failure = _unstable_error(path)
        except HoldfastError as error:
            if not isinstance(error, JournalError):
                raise
            failure = error
        except (sqlite3.Error, TypeError, ValueError) as error:
            failure = opening.to_journal_error(error, path, is_open=True)
            failure.__cause__ = error
        # Damage that is seen once may be the end of a change; damage that stays is reported.
        if time.monotonic() > deadline or not (_may_pass(failure) or _stamp_of(path) != stamp):
            raise failure
        time.sleep(_PAUSE)


def _may_pass(failure: JournalError) -> bool:
    """Whether a failure may be the state of files that another process is just creating."""
    code = getattr(failure.__cause__, "sqlite_errorcode", 0) & 0xFF
    is_new = failure.problem.startswith(_NO_TABLES)
    return is_new or code in _WHILE_OPENING or isinstance(failure, JournalBusyError)


def _connect(path: str, *, has_log: bool) -> sqlite3.Connection:
    option = "immutable=1"
    if has_log:
        option = f"readonly_shm={int(size_of(path + _INDEX) > 0)}"
    connection = sqlite3.connect(
        f"{Path(path).as_uri()}?mode=ro&{option}", uri=True, isolation_level=None, timeout=_WAIT
    )
    try:
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute("PRAGMA cell_size_check = ON")
    except BaseException:
        connection.close()
        raise
    return connection


def _check_tables(connection: sqlite3.Connection, path: str) -> None:
    version = check_schema(connection, path)
    if 0 < version < VERSION:
        raise JournalVersionError(
            path,
            f"has version {version}, and this Holdfast reads version {VERSION}",
            fix="Open it once for writing, for instance with `holdfast serve`: that migrates it",
        )
    if version == 0:
        raise JournalCorruptError(
            path,
            f"{_NO_TABLES}: it was never used, or its {LOG} file is missing",
            fix="Copy a journal with `holdfast journal backup`; a copy of an open file is not whole",
        )
    check_identity(connection, path)


def _stamp_of(path: str) -> Stamp:
    """The parts of a state that change when the file or its log changes."""
    try:
        found = Path(path).stat()
    except OSError as error:
        problem = f"cannot be read: {error.strerror}"
        raise JournalStorageError(path, problem, fix="Check the path") from error
    return found.st_ino, found.st_size, found.st_mtime_ns, size_of(path + LOG) > 0


def _unstable_error(path: str) -> JournalError:
    return JournalBusyError(path, "changed while it was read", fix="Try again")


def check_left_log(path: str) -> None:
    """Refuse a log that a killed process did not leave: SQLite would show the pages of another file.

    Raises:
        JournalError: the log belongs to another file, or is damaged.
    """
    if not (size_of(path) and (size_of(path + LOG) or size_of(path + ROLLBACK))):
        check_left_alone(path)
        return
    try:
        lock = take_lock(path, 0)
    except (JournalError, OSError):
        return  # the log is that of the process that has the file open
    try:
        check_files(path, 0)
    except (OSError, sqlite3.Error, TypeError, ValueError) as error:
        raise opening.to_journal_error(error, path) from error
    finally:
        lock.release()
