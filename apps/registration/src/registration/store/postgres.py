"""Connections to a PostgreSQL server."""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from functools import lru_cache
from typing import Any, LiteralString, cast

import psycopg
from psycopg.pq import TransactionStatus
from psycopg.rows import dict_row

from registration.store.connection import Parameter, Row
from registration.store.errors import (
    ConnectionLost,
    ConstraintViolated,
    DatabaseUnavailable,
    StatementFailed,
    StoreError,
    TransactionConflict,
)

_SCHEMA_LOCK = 7_204_118_526  # any number that only this program uses
_UNAVAILABLE = {
    "53100": "its disk is full",
    "53200": "its memory is full",
    "53300": "it has too many connections",
    "55P03": "another program holds a lock",
    "57014": "it took too long",
    "25006": "it can only be read",
    "XX001": "it is damaged",
    "XX002": "it is damaged",
}
_LOST = ("08", "57P", "25P03")
_REPEAT = ("40001", "40P01")


class PostgresOpener:
    """Opens connections to one database.

    Args:
        url: `postgresql://user:password@host:port/database`.
        patience: seconds to wait for a connection, a lock, or a statement.
        size: the greatest number of connections of this process.
    """

    readers = 0

    def __init__(self, url: str, patience: float, size: int) -> None:
        self._url = url
        self._patience = patience
        self.writers = size

    def open(self, *, write: bool) -> PostgresConnection:  # noqa: ARG002 -- every one can write
        """Open a connection, or raise DatabaseUnavailable."""
        milliseconds = int(self._patience * 1000)
        settings = {
            "statement_timeout": milliseconds,
            "lock_timeout": milliseconds,
            "idle_in_transaction_session_timeout": milliseconds * 3,
            "client_min_messages": "error",
            "default_transaction_read_only": "on",  # a transaction that writes says so when it begins
        }
        try:
            connection: psycopg.Connection[Row] = psycopg.connect(
                self._url,
                autocommit=True,
                row_factory=dict_row,
                connect_timeout=max(2, int(self._patience)),
                application_name="holdfast-registration",
            )
            for name, value in settings.items():
                connection.execute("SELECT set_config(%s, %s, false)", (name, str(value)))
        except (psycopg.Error, OSError, UnicodeError):
            connection = cast("psycopg.Connection[Row]", None)
        if connection is None:
            # Outside the except block: the driver's message may quote the address.
            raise DatabaseUnavailable("its server cannot be reached, or refuses this user")
        return PostgresConnection(connection)


class PostgresConnection:
    """One connection to a server."""

    skip_locked = "FOR UPDATE SKIP LOCKED"

    def __init__(self, connection: psycopg.Connection[Row]) -> None:
        self._connection = connection
        self._is_begun = False

    @property
    def is_usable(self) -> bool:
        """Whether another transaction can run on this connection."""
        idle = self._connection.info.transaction_status is TransactionStatus.IDLE
        return idle and not self._connection.closed

    def begin(self, *, write: bool) -> None:
        """Begin a transaction. One that only reads needs none: each statement sees the rows committed by then."""
        self._is_begun = write
        if write:
            self.execute("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE", ())

    def execute(self, sql: str, parameters: tuple[Parameter, ...]) -> list[Row]:
        """Run one statement with `?` parameters and return its rows."""
        failure: StoreError
        try:
            cursor = self._connection.execute(write_placeholders(sql), parameters or None)
            return cursor.fetchall() if cursor.description else []
        except (psycopg.Error, OSError, UnicodeError) as error:
            failure = translate(error)
        # Outside the except block: the driver's message, which quotes rows, must not be its context.
        raise failure

    def lock_row(self, table: str, column: str, value: str) -> None:
        """Let no other transaction change this row until the end of this one."""
        self.execute(f"SELECT 1 FROM {table} WHERE {column} = ? FOR UPDATE", (value,))  # noqa: S608 -- names of this program

    def lock_schema(self) -> None:
        """Let no other process change the schema until the end of this transaction."""
        self.execute("SELECT pg_advisory_xact_lock(?)", (_SCHEMA_LOCK,))

    def commit(self) -> None:
        """Save the transaction; return when it survives a crash."""
        if not self._is_begun:
            return
        failure: StoreError | None = None
        status = None
        try:
            status = self._connection.execute("COMMIT").statusmessage
        except (psycopg.Error, OSError) as error:
            failure = translate(error)
        if isinstance(failure, ConnectionLost):
            reason = "the connection was lost while it saved"
            raise DatabaseUnavailable(reason, landed="unknown")
        if failure is not None:
            raise failure
        if status != "COMMIT":
            # The server rolls back a transaction in which a statement failed, and says so only here.
            raise StatementFailed("25P02")

    def rollback(self) -> None:
        """Forget the transaction. Never raises."""
        with suppress(psycopg.Error, OSError):
            if self._connection.info.transaction_status is not TransactionStatus.IDLE:
                self._connection.execute("ROLLBACK")

    def compact(self) -> None:
        """Remove deleted rows from the files of the tables."""
        tables = self.execute(
            "SELECT tablename FROM pg_tables WHERE schemaname = current_schema()", ()
        )
        self.execute("SET statement_timeout = 0", ())
        self.execute("SET default_transaction_read_only = off", ())
        try:
            for table in tables:
                self.execute(f'VACUUM (FULL) "{table["tablename"]}"', ())
        finally:
            self.close()

    def abort(self) -> None:
        """End the present wait of the connection; called from another thread."""
        with suppress(OSError, psycopg.Error):
            # A copy of the socket, because the driver closes its own.
            copy = socket.socket(fileno=os.dup(self._connection.fileno()))
            copy.shutdown(socket.SHUT_RDWR)
            copy.close()

    def close(self) -> None:
        """Close the connection. Never raises."""
        with suppress(psycopg.Error, OSError):
            self._connection.close()


@lru_cache(maxsize=500)
def write_placeholders(sql: str) -> LiteralString:
    """Return the statement with the placeholders of the driver. Our statements quote no `?`."""
    # The driver asks for a LiteralString, which text that was put together cannot be.
    return cast("Any", sql.replace("%", "%%").replace("?", "%s"))  # type: ignore[no-any-return]


def translate(error: Exception) -> StoreError:
    """Return the store's error for one of the driver. It contains names and codes, no values."""
    code = getattr(error, "sqlstate", None) or ""
    if code.startswith(_REPEAT):
        return TransactionConflict()
    if code.startswith("23"):
        diagnostics = getattr(error, "diag", None)
        return ConstraintViolated(getattr(diagnostics, "constraint_name", None) or "of the schema")
    if code in _UNAVAILABLE:
        return DatabaseUnavailable(_UNAVAILABLE[code])
    lost = isinstance(error, psycopg.OperationalError | psycopg.InterfaceError | OSError)
    if code.startswith(_LOST) or (lost and not code):
        return ConnectionLost()
    return StatementFailed(code or type(error).__name__)
