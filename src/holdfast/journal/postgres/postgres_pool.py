"""A pool of connections to a PostgreSQL server.

Connections are opened when needed and dropped when lost. Work whose connection is lost is repeated
on another connection, so it must be safe to repeat. A connection with an open transaction is closed
and not used again. Locks, settings and prepared statements belong to a session of the server, so a
pooler between them that changes the session from one transaction to the next is refused.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Final, TypeAlias, TypeVar

import psycopg
from msgspec import Struct
from psycopg import errors
from psycopg.conninfo import make_conninfo
from psycopg.pq import TransactionStatus

from holdfast.journal.journal_errors import (
    JournalError,
    JournalStorageError,
    JournalUnreachableError,
    transaction_pooling_error,
)
from holdfast.journal.postgres import postgres_migration
from holdfast.journal.postgres.postgres_failures import PostgresAddress, is_transient
from holdfast.journal.postgres.postgres_statements import SETTINGS

T = TypeVar("T")

Connection: TypeAlias = psycopg.AsyncConnection[Any]
Work: TypeAlias = Callable[[Connection], Awaitable[T]]

_GRACE = 5.0  # seconds to wait for the server's own timeout before the connection is closed
_ROUNDS = 4  # one is enough for a pooler without other clients, who may take connections meanwhile
_BACKEND: Final = "SELECT pg_backend_pid()"


class ConnectionPolicy(Struct, frozen=True):
    """Timeouts of the connections to a server.

    Args:
        timeout: seconds for one statement.
        wait: seconds for which work is retried while the server is unreachable.
        create: whether to create missing tables.
    """

    timeout: float
    wait: float
    create: bool = True


class Pool:
    """A pool of at most `size` connections; it belongs to one event loop.

    Args:
        address: the address of the server.
        size: the maximum number of connections.
        policy: the timeouts.
    """

    def __init__(self, address: PostgresAddress, size: int, policy: ConnectionPolicy) -> None:
        self._address = address
        self._policy = policy
        self._slots = asyncio.Semaphore(size)
        self._idle: list[Connection] = []
        self._was_reached = False
        self._checking = asyncio.Lock()
        self._is_checked = False

    async def perform(self, work: Work[T], *, retry: bool = True) -> T:
        """Do the work on a connection; if the connection is lost, repeat it on another one.

        Args:
            work: the work; it must be safe to repeat.
            retry: whether to repeat it.

        Raises:
            JournalError: the work failed. The message contains no password.
        """
        loop = asyncio.get_running_loop()
        end, pause = None, 0.0
        failure: JournalError | None = None
        while failure is None:
            try:
                return await self._perform_once(work)
            except (psycopg.Error, OSError, TimeoutError) as error:
                # Before the first connection, the address is more likely wrong than the server
                # restarting, so there is no retry.
                end = end or loop.time() + (self._policy.wait if retry and self._was_reached else 0)
                if not is_transient(error) or loop.time() + pause >= end:
                    failure = self._address.to_journal_error(error)
                    continue
                await self._close_all(self._idle)
            await asyncio.sleep(pause)
            pause = min(max(2 * pause, 0.05), 1.0)
        raise failure  # outside the `except`: the driver's exception may hold the password

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

    async def open_connection(self) -> Connection:
        """Return a connection that is not of the pool. Raises psycopg.Error, OSError and JournalError."""
        return await self._open_connection()

    async def _open_connection(self) -> Connection:
        connection = await self._connect()
        try:
            await self._check_sessions(connection)
            await self._prepare_session(connection)
        except BaseException:
            await connection.close()
            raise
        self._was_reached = True
        return connection

    async def _connect(self) -> Connection:
        wanted = {**self._build_parameters(), **self._address.parts}
        return await psycopg.AsyncConnection.connect(make_conninfo("", **wanted), autocommit=True)

    async def _check_sessions(self, connection: Connection) -> None:
        """Refuse a pooler that gives a connection another session of the server for each transaction.

        It is done once, and first: nothing of this process may stay behind in a session of others. A
        pooler invents the number by which a connection is cancelled; a server sends its own.
        """
        async with self._checking:  # others wait, so that a small pooler has a second session
            if self._is_checked:
                return
            async with asyncio.timeout(self._policy.timeout + _GRACE):
                backend = await _read_backend(connection)
            if backend != connection.info.backend_pid:
                await self._check_pooler(connection, backend)
            self._is_checked = True

    async def _check_pooler(self, connection: Connection, backend: int) -> None:
        seconds = min(self._policy.timeout, 10.0)
        other = await self._connect()
        try:
            async with asyncio.timeout(seconds):
                for _ in range(_ROUNDS):
                    # One more statement than connections: also a pooler that uses its sessions in turn
                    # comes to another one.
                    own = {await _read_backend(connection), await _read_backend(connection)}
                    if own != {backend} or await _read_backend(other) == backend:
                        raise transaction_pooling_error(self._address.location)
                return
        except (TimeoutError, errors.ProtocolViolation):  # the latter is of PgBouncer
            pass
        finally:
            await other.close()
        raise JournalUnreachableError(
            self._address.location,
            "the connection pooler before it gave no second session",
            fix="Increase its pool size (default_pool_size of PgBouncer), or connect directly",
        )

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
                f"has the encoding {encoding}, which cannot store every text",
                fix="Create the database with ENCODING 'UTF8' TEMPLATE template0",
            )
        if not self._was_reached:
            await postgres_migration.prepare_schema(
                connection, self._address.location, create=self._policy.create
            )
        await postgres_migration.keep_version(connection, self._address.location)

    async def close(self) -> None:
        """Close the idle connections."""
        await self._close_all(self._idle)

    async def _close_all(self, connections: list[Connection]) -> None:
        while connections:
            await connections.pop().close()


async def _read_backend(connection: Connection) -> int:
    """Return which process of the server executes a statement of a connection."""
    # A statement that is prepared would itself stay behind in a session of others.
    row = await (await connection.execute(_BACKEND, prepare=False)).fetchone()
    return int(row[0]) if row else 0
