"""An outbox behind a connection of the DB-API (PEP 249), such as those of sqlite3 and psycopg, in a thread of its own.

This module must never use a connection that saves each statement by itself.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

from holdfast.core.errors import ConfigurationError
from holdfast.core.redaction import redact
from holdfast.outbox.job_outcomes import JobOutcome, OutboxJob
from holdfast.outbox.outbox_statements import Outbox, OutboxStatement, read_claimed
from holdfast.outbox.outbox_worker import OutboxUnavailableError

T = TypeVar("T")

_AWAY = ("OperationalError", "InterfaceError")  # PEP 249: of the database, and not of the program


class DbapiConnection(Protocol):
    """A connection, as the store uses it."""

    def cursor(self) -> Any:  # REASON: PEP 249 has no types
        """Return a cursor."""

    def commit(self) -> None:
        """Save the transaction."""

    def rollback(self) -> None:
        """Undo the transaction."""

    def close(self) -> None:
        """Close the connection."""


C = TypeVar("C", bound=DbapiConnection)


class DbapiOutboxStore(Generic[C]):
    """The jobs of an outbox for a worker, behind one connection in one thread.

    Args:
        outbox: the table.
        connect: opens the connection, in that thread. It is called again when the connection was lost.

    Raises:
        ConfigurationError: the outbox is for a driver whose connections are asynchronous.
    """

    def __init__(self, outbox: Outbox, connect: Callable[[], C]) -> None:
        if outbox.driver == "asyncpg":
            raise ConfigurationError(
                "outbox",
                "is for asyncpg, whose connections are not of the DB-API",
                fix="Write an OutboxStore with Outbox.claim, renew and record",
            )
        self._outbox = outbox
        self._connect = connect
        self._connection: C | None = None
        self._is_finishing = False  # whether the user's `finish` is called now
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="holdfast-outbox")

    async def claim(self, kinds: Sequence[str], now: float, until: float) -> OutboxJob | None:
        """Take the job that has been due longest; see `OutboxStore`."""
        follow = self._outbox.follow_clock(now)
        statement = self._outbox.claim(kinds, secrets.token_hex(8), now, until)

        def work(connection: C) -> list[Sequence[object]]:
            _execute(connection, follow)
            return _fetch(connection, statement)

        rows = await self._run(work)
        return read_claimed(rows[0]) if rows else None

    async def renew(self, job: OutboxJob, now: float, until: float) -> None:
        """Keep a job for longer; see `OutboxStore`."""
        statement = self._outbox.renew(job, now, until)
        await self._run(lambda connection: _fetch(connection, statement))

    async def record(
        self, job: OutboxJob, outcome: JobOutcome, now: float, finish: Callable[[C], None] | None
    ) -> bool:
        """Save an outcome, and the rows that follow from it; see `OutboxStore`."""
        statement = self._outbox.record(job, outcome, now)

        def work(connection: C) -> bool:
            is_ours = bool(_fetch(connection, statement))
            if is_ours and finish is not None:
                self._is_finishing = True
                finish(connection)
                self._is_finishing = False
            return is_ours

        return await self._run(work)

    async def close(self) -> None:
        """Close the connection when its transaction has ended."""
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self._thread, self._drop)
        self._thread.shutdown(wait=False)

    async def _run(self, work: Callable[[C], T]) -> T:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, partial(self._transact, work))

    def _transact(self, work: Callable[[C], T]) -> T:
        self._is_finishing = False
        try:
            connection = self._open()
            # In SQLite this is the only statement that waits for a lock.
            if getattr(connection, "in_transaction", None) is False:
                connection.cursor().execute("BEGIN IMMEDIATE")
            result = work(connection)
            connection.commit()
        except BaseException as error:
            is_away = self._is_away(error)
            self._undo(is_away)
            if is_away:
                reason = redact(str(error)).partition("\n")[0]
                raise OutboxUnavailableError(f"the database of the outbox: {reason}") from error
            raise
        return result

    def _open(self) -> C:
        if self._connection is None:
            connection = self._connect()
            if getattr(connection, "autocommit", False) is True:
                connection.close()
                raise ConfigurationError(
                    "connect",
                    "opens a connection that saves each statement by itself",
                    fix="Open it without autocommit",
                )
            self._connection = connection
        return self._connection

    def _is_away(self, error: BaseException) -> bool:
        """Whether the database failed, and not the program."""
        if self._is_finishing and self._outbox.driver == "sqlite3":
            return False  # its OperationalError is also that of a statement that is wrong
        return any(kind.__name__ in _AWAY for kind in type(error).__mro__)

    def _undo(self, is_away: bool) -> None:
        if self._connection is not None:
            with suppress(Exception):
                self._connection.rollback()
        if is_away:
            self._drop()

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(Exception):
                connection.close()


def _execute(connection: DbapiConnection, statement: OutboxStatement) -> None:
    cursor = connection.cursor()
    try:
        cursor.execute(*statement)
    finally:
        cursor.close()


def _fetch(connection: DbapiConnection, statement: OutboxStatement) -> list[Sequence[object]]:
    cursor = connection.cursor()
    try:
        cursor.execute(*statement)
        return list(cursor.fetchall())
    finally:
        cursor.close()
