"""Connections to a PostgreSQL server: a few at a time, made when needed, dropped when lost.

An act whose connection is lost is tried again on another one, so it must be of a kind that may be
repeated. This module must never decide what an act is, and never hand out a connection in whose
transaction something is left.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeAlias, TypeVar

import psycopg
from msgspec import Struct
from psycopg.conninfo import make_conninfo
from psycopg.pq import TransactionStatus

from holdfast.journal import postgres_schema
from holdfast.journal.journal_errors import JournalStorageError
from holdfast.journal.postgres_failures import PostgresAddress, is_transient
from holdfast.journal.postgres_statements import SETTINGS

T = TypeVar("T")

Connection: TypeAlias = psycopg.AsyncConnection[Any]
Work: TypeAlias = Callable[[Connection], Awaitable[T]]

_GRACE = 5.0  # seconds for which the server's own timeout may be late before the connection is lost


class ConnectionPolicy(Struct, frozen=True):
    """How to treat a server.

    Args:
        timeout: seconds for one statement.
        wait: seconds for which an act is tried again while the server is gone.
        create: whether to make tables that are missing.
    """

    timeout: float
    wait: float
    create: bool = True


class Pool:
    """At most `size` connections; lives on one event loop.

    Args:
        address: where the server is.
        size: how many acts run at once.
        policy: how long each may take.
    """

    def __init__(self, address: PostgresAddress, size: int, policy: ConnectionPolicy) -> None:
        self._address = address
        self._policy = policy
        self._slots = asyncio.Semaphore(size)
        self._idle: list[Connection] = []
        self._was_reached = False

    async def perform(self, work: Work[T], *, retry: bool = True) -> T:
        """Do the work on a connection; if that is lost, on another one.

        Args:
            work: may be done twice with the effect of once.
            retry: whether to try again at all.

        Raises:
            JournalError: what went wrong; no password stands in it.
        """
        loop = asyncio.get_running_loop()
        end, pause = None, 0.0
        while True:
            try:
                return await self._perform_once(work)
            except (psycopg.Error, OSError, TimeoutError) as error:
                # A server that was never there is more likely a wrong address than a restart.
                end = end or loop.time() + (self._policy.wait if retry and self._was_reached else 0)
                if not is_transient(error) or loop.time() + pause >= end:
                    raise self._address.to_journal_error(error) from error
                await self._close_all(self._idle)
            await asyncio.sleep(pause)
            pause = min(max(2 * pause, 0.05), 1.0)

    async def _perform_once(self, work: Work[T]) -> T:
        async with (
            self._use_connection() as connection,
            asyncio.timeout(self._policy.timeout + _GRACE),
        ):
            return await work(connection)

    @asynccontextmanager
    async def _use_connection(self) -> AsyncIterator[Connection]:
        async with self._slots:
            connection = self._idle.pop() if self._idle else await self._open_connection()
            try:
                yield connection
            except TimeoutError:
                await connection.close()
                raise
            finally:
                if connection.info.transaction_status == TransactionStatus.IDLE:
                    self._idle.append(connection)
                else:
                    await connection.close()

    async def _open_connection(self) -> Connection:
        wanted = {**self._build_parameters(), **self._address.parts}
        connection = await psycopg.AsyncConnection.connect(
            make_conninfo("", **wanted), autocommit=True
        )
        try:
            await self._prepare_session(connection)
        except BaseException:
            await connection.close()
            raise
        self._was_reached = True
        return connection

    def _build_parameters(self) -> dict[str, str]:
        seconds = self._policy.timeout
        return {
            "application_name": "holdfast",
            "connect_timeout": str(max(2, round(min(seconds, 10)))),
            "keepalives_idle": "10",
            "keepalives_interval": "5",
            "tcp_user_timeout": str(round(seconds * 1000)),
        }

    async def _prepare_session(self, connection: Connection) -> None:
        limit = {"timeout": str(max(1, round(self._policy.timeout * 1000)))}
        row = await (await connection.execute(SETTINGS, limit)).fetchone()
        encoding = row[-1] if row else None
        if encoding != "UTF8":
            raise JournalStorageError(
                self._address.location,
                f"keeps text as {encoding}, which cannot hold every text",
                fix="Create the database with ENCODING 'UTF8' TEMPLATE template0",
            )
        if not self._was_reached:
            await postgres_schema.prepare_schema(
                connection, self._address.location, create=self._policy.create
            )

    async def close(self) -> None:
        """Close what is open."""
        await self._close_all(self._idle)

    async def _close_all(self, connections: list[Connection]) -> None:
        while connections:
            await connections.pop().close()
