"""Opens the file of a SQLite journal: one owner, checked, and with its tables.

It does not change a file that is damaged, of a newer version or of another program; each of these
raises its own error.
"""

from __future__ import annotations

import errno
import os
import sqlite3
import sys
import threading
from collections.abc import Sequence

from holdfast.journal.files.file_check import RESTORE
from holdfast.journal.files.file_lock import ENDING, FileLock, busy_error, take_lock
from holdfast.journal.files.log_check import check_files, check_left_alone
from holdfast.journal.files.sqlite_schema import STEPS
from holdfast.journal.journal_errors import (
    JournalCorruptError,
    JournalError,
    JournalStorageError,
)
from holdfast.journal.sqlite.run_heads import WriterConnection

_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_BROKEN = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_STORAGE = {
    sqlite3.SQLITE_FULL: ("the disk is full", "Free some space"),
    sqlite3.SQLITE_READONLY: ("cannot be written", "Allow this user to write file and folder"),
    sqlite3.SQLITE_CANTOPEN: ("cannot be opened", "Check that the folder can be written"),
    sqlite3.SQLITE_PERM: ("cannot be used by this user", "Allow it to read and write the file"),
}
_FULL_VACUUM = 1
_FILE = {
    errno.ENOENT: ("its folder does not exist", "Create the folder first"),
    errno.ENOTDIR: ("its folder is a file", "Choose another path"),
    errno.EISDIR: ("is a folder", "Name a file in it"),
    errno.EACCES: ("cannot be written by this user", "Allow it, or choose another path"),
    errno.EPERM: ("cannot be written by this user", "Allow it, or choose another path"),
    errno.EROFS: ("is on a read-only file system", "Make that writable, or choose another path"),
    errno.ENOSPC: ("the disk is full", "Free some space"),
}
_LOCK_FILE = {
    errno.EACCES: "cannot be created or written by this user",
    errno.EPERM: "cannot be created or written by this user",
    errno.EISDIR: "is a folder",
    errno.ELOOP: "is a symbolic link",
}
_ALLOW_LOCK = "Allow this user to write to the folder and to that file, or move that file away"


index_guard = threading.Lock()
"""Held while a connection of this process opens the index of a log. SQLite opens the index once in a
process, so a reader that opened it read-only would leave a writer nothing to write to."""


def _renew_guard() -> None:
    global index_guard  # noqa: PLW0603  # REASON: a forked child must not inherit a lock that is held
    index_guard = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_guard)


def claim_file(path: str, wait: float) -> FileLock:
    """Lock the file for this process; create it if it does not exist.

    Args:
        path: the file, without symbolic links.
        wait: seconds to wait for another process to close it.

    Raises:
        JournalError: the file cannot be locked.
    """
    check_left_alone(path)  # before `take_lock` creates the file
    try:
        lock = take_lock(path, wait)
    except OSError as error:
        raise _failure_to_open(error, path) from error
    try:
        check_left_alone(path)
    except BaseException:
        lock.release()
        raise
    return lock


def _failure_to_open(error: OSError, path: str) -> JournalStorageError:
    problem, fix = _FILE.get(error.errno or 0, (str(error), "Check the path"))
    if error.filename == path + ENDING and error.errno in _LOCK_FILE:
        problem, fix = f"its lock file {error.filename} {_LOCK_FILE[error.errno]}", _ALLOW_LOCK
    return JournalStorageError(path, problem, fix=fix)


def open_connection(path: str, wait: float) -> WriterConnection:
    """The one connection that writes: durable and checked, with its tables.

    Other processes may read beside it: SQLite shows each reader the state of one commit.

    Args:
        path: a locked file.
        wait: seconds to wait for another process to close it.

    Raises:
        JournalError: the file cannot be used.
    """
    try:
        check_files(path, wait)
    except (OSError, sqlite3.Error, TypeError, ValueError) as error:
        raise to_journal_error(error, path) from error
    connection = sqlite3.connect(
        path,
        timeout=wait,
        isolation_level=None,
        check_same_thread=False,
        factory=WriterConnection,
        cached_statements=16,
    )
    try:
        with index_guard:
            _prepare_connection(connection, path)
    except (sqlite3.Error, TypeError, ValueError) as error:
        connection.close()
        raise to_journal_error(error, path) from error
    except JournalError:
        connection.close()
        raise
    return connection


def close(connection: sqlite3.Connection, *, checkpoint: bool) -> None:
    """Close the connection.

    Args:
        connection: the connection of the journal.
        checkpoint: whether to copy the log into the file; otherwise both stay unchanged.
    """
    if not checkpoint:
        if sys.version_info >= (3, 12):
            connection.setconfig(sqlite3.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE)
        else:
            connection.interrupt()  # SQLite then skips the checkpoint and keeps the log
    connection.close()


def _prepare_connection(connection: sqlite3.Connection, path: str) -> None:
    run = connection.execute
    if run("PRAGMA page_count").fetchone()[0] == 0:
        run("PRAGMA auto_vacuum = INCREMENTAL")  # possible only before the first page is written
    run("PRAGMA journal_mode = WAL")
    run("PRAGMA wal_autocheckpoint = 0")  # `LogKeeper` does it and must know when
    run("PRAGMA synchronous = FULL")
    run("PRAGMA journal_size_limit = -1")  # `FileWatch` treats a shorter log as damage
    run("PRAGMA cache_size = -8000")  # KiB, so that the rows of a thousand open sessions fit
    run("PRAGMA secure_delete = ON")  # deleted data is overwritten
    run("PRAGMA trusted_schema = OFF")
    run("BEGIN IMMEDIATE")  # fails now if another program is writing
    run("COMMIT")
    migrate(connection, path)
    if run("PRAGMA auto_vacuum").fetchone()[0] == _FULL_VACUUM:
        run("PRAGMA auto_vacuum = INCREMENTAL")  # otherwise a commit could shorten the file


def migrate(
    connection: sqlite3.Connection, path: str, steps: Sequence[Sequence[str]] = STEPS
) -> None:
    """Create the tables of a new file, or bring those of an older version to this one.

    All steps are one transaction. The file is locked, so no other process writes to it.

    Args:
        connection: the connection of the journal.
        path: its file.
        steps: the statements that make each version of the one before.
    """
    version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    if version == len(steps):
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        for step in steps[version:]:
            for statement in step:
                connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {len(steps)}")
        connection.execute("COMMIT")
    except (sqlite3.Error, ValueError) as error:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise to_journal_error(error, path) from error


def to_journal_error(error: Exception, path: str, *, is_open: bool = False) -> JournalError:
    """Translate an error of SQLite, its adapter or a check into a JournalError.

    Args:
        error: the error.
        path: the file.
        is_open: whether the journal is open; otherwise it was being opened.
    """
    if isinstance(error, JournalError):
        return type(error)(error.path, error.problem, fix=error.fix)
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in _BUSY:
        return busy_error(path)
    # Python has no error code for invalid UTF-8, even in messages of SQLite.
    unreadable = isinstance(error, UnicodeError) or "Could not decode" in str(error)
    if code in _BROKEN or unreadable:
        return JournalCorruptError(path, f"is damaged: {error}", fix=RESTORE)
    if code in _STORAGE:
        problem, fix = _STORAGE[code]
        if code == sqlite3.SQLITE_FULL:
            fix += "; the journal then continues" if is_open else ", and open it again"
        return JournalStorageError(path, problem, fix=fix)
    return JournalStorageError(path, f"{error}", fix="Check the disk and the file")
