"""Connections to a SQLite file: one writes, others read beside it."""

from __future__ import annotations

import os
import sqlite3
import time
from contextlib import suppress
from pathlib import Path

from registration.store.connection import Parameter, Row
from registration.store.errors import (
    ConstraintViolated,
    DatabaseUnavailable,
    Landed,
    StatementFailed,
    StoreError,
)

_DISK_ERROR = "the disk reports an error"
_UNAVAILABLE = {
    sqlite3.SQLITE_BUSY: "another program is writing",
    sqlite3.SQLITE_LOCKED: "another program is writing",
    sqlite3.SQLITE_PROTOCOL: "another program is writing",
    sqlite3.SQLITE_FULL: "the disk is full",
    sqlite3.SQLITE_IOERR: _DISK_ERROR,
    sqlite3.SQLITE_READONLY: "the file cannot be written",
    sqlite3.SQLITE_CANTOPEN: "the file cannot be opened",
    sqlite3.SQLITE_AUTH: "the file cannot be opened",
    sqlite3.SQLITE_PERM: "the file cannot be opened",
    sqlite3.SQLITE_NOMEM: "the memory is full",
    sqlite3.SQLITE_CORRUPT: "the file is damaged: restore it from a backup",
    sqlite3.SQLITE_NOTADB: "the file is no SQLite database",
    sqlite3.SQLITE_INTERRUPT: "it took too long",
}


class SqliteOpener:
    """Opens one file.

    Args:
        path: the file; it is made if it does not exist, readable by its owner only.
        patience: seconds to wait for another program that writes.
    """

    writers = 1
    readers = 2

    def __init__(self, path: Path, patience: float) -> None:
        self._path = path
        self._patience = patience

    def open(self, *, write: bool) -> SqliteConnection:
        """Open a connection, or raise DatabaseUnavailable."""
        try:
            # Never a file that exists: closing it would drop the locks of this process's connections.
            os.close(
                os.open(self._path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
            )
        except FileExistsError:
            pass
        except OSError as error:
            raise DatabaseUnavailable(f"the file cannot be opened ({error.strerror})") from None
        failure: StoreError
        try:
            return SqliteConnection(self._connect(write))
        except sqlite3.Error as error:
            failure = translate(error)
        raise failure

    def _connect(self, write: bool) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self._path, timeout=self._patience, isolation_level=None, check_same_thread=False
        )
        try:
            self._set_write_ahead_log(connection)
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("PRAGMA secure_delete = ON")
            connection.execute("PRAGMA foreign_keys = ON")
            if not write:
                connection.execute("PRAGMA query_only = ON")
        except sqlite3.Error:
            connection.close()
            raise
        return connection

    def _set_write_ahead_log(self, connection: sqlite3.Connection) -> None:
        """SQLite does not wait by itself when two connections do this at the same time."""
        end = time.monotonic() + self._patience
        while True:
            try:
                connection.execute("PRAGMA journal_mode = WAL")
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > end:
                    raise
                time.sleep(0.01)
            else:
                return


class SqliteConnection:
    """One connection to a file."""

    skip_locked = ""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self.is_usable = True

    def begin(self, *, write: bool) -> None:
        """Begin a transaction; one that writes waits for the writer before it."""
        self.execute("BEGIN IMMEDIATE" if write else "BEGIN", ())

    def execute(self, sql: str, parameters: tuple[Parameter, ...]) -> list[Row]:
        """Run one statement with `?` parameters and return its rows."""
        failure: StoreError
        try:
            cursor = self._connection.execute(sql, parameters)
            names = [column[0] for column in cursor.description or ()]
            return [dict(zip(names, row, strict=True)) for row in cursor]
        except sqlite3.Error as error:
            failure = translate(error)
        except (UnicodeEncodeError, OverflowError) as error:
            failure = StatementFailed(type(error).__name__)
        # Outside the except block: the driver's message must not become its context.
        raise failure

    def lock_row(self, table: str, column: str, value: str) -> None:
        """Do nothing: a transaction that writes is alone."""

    def lock_schema(self) -> None:
        """Do nothing: a transaction that writes is alone."""

    def commit(self) -> None:
        """Save the transaction; return when it survives a crash."""
        try:
            self.execute("COMMIT", ())
        except DatabaseUnavailable as error:
            reason = error.reason
        else:
            return
        # The disk may have written the transaction before it reported the error.
        landed: Landed = "unknown" if reason == _DISK_ERROR else "no"
        raise DatabaseUnavailable(reason, landed=landed)

    def rollback(self) -> None:
        """Forget the transaction. Never raises."""
        try:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
        except sqlite3.Error:
            self.is_usable = False

    def compact(self) -> None:
        """Rewrite the file without deleted rows, and empty the write-ahead log."""
        self.execute("VACUUM", ())
        (state,) = self.execute("PRAGMA wal_checkpoint(TRUNCATE)", ())
        if state["busy"]:
            raise DatabaseUnavailable("another program is reading, so its log cannot be emptied")

    def abort(self) -> None:
        """End the present wait of the connection; called from another thread."""
        self._connection.interrupt()

    def close(self) -> None:
        """Close the connection. Never raises."""
        self.is_usable = False
        with suppress(sqlite3.Error):
            self._connection.close()


def translate(error: sqlite3.Error) -> StoreError:
    """Return the store's error for one of the driver. It contains names of columns, no values."""
    code = getattr(error, "sqlite_errorcode", 0)
    if code & 0xFF == sqlite3.SQLITE_CONSTRAINT:
        return ConstraintViolated(str(error).partition(": ")[2] or "of the schema")
    if code & 0xFF in _UNAVAILABLE:
        return DatabaseUnavailable(_UNAVAILABLE[code & 0xFF])
    return StatementFailed(getattr(error, "sqlite_errorname", type(error).__name__))
