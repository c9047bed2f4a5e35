"""Opens the file of a SQLite journal: one owner, checked, and brought to the newest schema.

It must never change a file that is damaged, newer, or somebody else's; each has its own error.
"""

from __future__ import annotations

import errno
import os
import sqlite3
import threading
from pathlib import Path

from holdfast.journal.failures import (
    JournalBusyError,
    JournalCorruptError,
    JournalError,
    JournalStorageError,
)
from holdfast.journal.file_check import RESTORE
from holdfast.journal.log_check import busy_error, check_files, check_left_alone
from holdfast.journal.migrations import MIGRATIONS

_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_BROKEN = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_STORAGE = {
    sqlite3.SQLITE_FULL: ("the disk is full", "Free some space"),
    sqlite3.SQLITE_READONLY: ("cannot be written", "Allow this user to write file and folder"),
    sqlite3.SQLITE_CANTOPEN: ("cannot be opened", "Check that the folder can be written"),
    sqlite3.SQLITE_PERM: ("cannot be used by this user", "Allow it to read and write the file"),
}
_FILE = {
    errno.ENOENT: ("its folder does not exist", "Make the folder first"),
    errno.ENOTDIR: ("its folder is a file", "Choose another path"),
    errno.EISDIR: ("is a folder", "Name a file in it"),
    errno.EACCES: ("cannot be written by this user", "Allow it, or choose another path"),
    errno.EPERM: ("cannot be written by this user", "Allow it, or choose another path"),
    errno.EROFS: ("is on a read-only file system", "Make that writable, or choose another path"),
    errno.ENOSPC: ("the disk is full", "Free some space"),
}

Identity = tuple[int, int]
_open_here: set[Identity] = set()
_lock = threading.Lock()


def claim(path: str) -> Identity:
    """Make the file if need be, and note that this process has it open.

    A file that POSIX locks protect must not be opened and closed a second time by its own process:
    that would drop the locks. Hence the list comes before any look into the file.

    Raises:
        JournalError: the file cannot be had.
    """
    with _lock:
        try:
            known = Path(path).stat()
        except OSError:
            known = None
        if known is not None and _identity(known) in _open_here:
            raise JournalBusyError(
                path, "is open in this process already", fix="Use one SqliteJournal for all"
            )
        check_left_alone(path)
        try:
            # 0600: conversations are nobody else's business. SQLite gives its log the same mode.
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            problem, fix = _FILE.get(error.errno or 0, (str(error), "Check the path"))
            raise JournalStorageError(path, problem, fix=fix) from error
        try:
            found = os.fstat(descriptor)
        finally:
            os.close(descriptor)
        _open_here.add(_identity(found))
        return _identity(found)


def release(identity: Identity) -> None:
    """The file is closed."""
    with _lock:
        _open_here.discard(identity)


def _identity(found: os.stat_result) -> Identity:
    return found.st_dev, found.st_ino


def connect(path: str, wait: float) -> sqlite3.Connection:
    """The one connection: exclusive, durable, checked and migrated.

    Args:
        path: a file that was claimed.
        wait: seconds to wait for another process to let go of it.

    Raises:
        JournalError: the file cannot be used.
    """
    try:
        check_files(path, wait)
    except (OSError, sqlite3.Error, TypeError, ValueError) as error:
        raise failure_of(error, path) from error
    connection = sqlite3.connect(
        path, timeout=wait, isolation_level=None, check_same_thread=False, cached_statements=16
    )
    try:
        _prepare(connection, path)
    except (sqlite3.Error, TypeError, ValueError) as error:
        connection.close()
        raise failure_of(error, path) from error
    except JournalError:
        connection.close()
        raise
    return connection


def _prepare(connection: sqlite3.Connection, path: str) -> None:
    run = connection.execute
    run("PRAGMA locking_mode = EXCLUSIVE")  # before WAL: no shared memory, and one process only
    run("PRAGMA journal_mode = WAL")
    run("PRAGMA wal_autocheckpoint = 0")  # the writer does that, and knows when it is done
    run("PRAGMA synchronous = FULL")
    run("PRAGMA secure_delete = ON")  # what is deleted is overwritten
    run("PRAGMA trusted_schema = OFF")
    run("BEGIN IMMEDIATE")  # takes the lock now, and keeps it
    run("COMMIT")
    migrate(connection, path)


def migrate(
    connection: sqlite3.Connection, path: str, migrations: tuple[tuple[str, ...], ...] = MIGRATIONS
) -> None:
    """Apply what is missing, each in one transaction."""
    version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    for number, statements in enumerate(migrations[version:], version + 1):
        connection.execute("BEGIN IMMEDIATE")
        try:
            for statement in statements:
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {number}")
            connection.execute("COMMIT")
        except (sqlite3.Error, ValueError) as error:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise failure_of(error, path) from error


def failure_of(error: Exception, path: str, *, is_open: bool = False) -> JournalError:
    """What an error of SQLite, or of its adapter, means for whoever has to mend it.

    Args:
        error: what was raised.
        path: the file.
        is_open: whether a journal has it, which goes on; else it was being opened.
    """
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in _BUSY:
        return busy_error(path)
    # Python has no code of its own for text that is no UTF-8, not even in what SQLite says.
    unreadable = isinstance(error, UnicodeError) or "Could not decode" in str(error)
    if code in _BROKEN or unreadable:
        return JournalCorruptError(path, f"is damaged: {error}", fix=RESTORE)
    if code in _STORAGE:
        problem, fix = _STORAGE[code]
        if code == sqlite3.SQLITE_FULL:
            fix += "; the journal goes on by itself" if is_open else ", and open it again"
        return JournalStorageError(path, problem, fix=fix)
    return JournalStorageError(path, f"{error}", fix="Check the disk and the file")
