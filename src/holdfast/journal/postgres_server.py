"""The operations of a PostgreSQL journal on its server: append, read, list, delete, and leases.

Each append has a random ticket, which is stored with the record. If the connection is lost, it is
not known whether the append was committed. It is then sent again, and the ticket of an existing
record tells whether that is this append or one of another driver.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TypeVar

from msgspec import Struct
from psycopg import errors

from holdfast.core.errors import SessionBusyError
from holdfast.journal import postgres_statements as sql
from holdfast.journal.journal_errors import (
    JournalError,
    RequestExistsError,
    conflict_error,
    lease_lost_error,
)
from holdfast.journal.loop_thread import Begin
from holdfast.journal.postgres_failures import PostgresAddress
from holdfast.journal.postgres_pool import Connection, ConnectionPolicy, Pool, Work
from holdfast.journal.postgres_renewal import MOST_AT_ONCE, LeaseState, Renewal
from holdfast.journal.rows import EncodedRow, Row

T = TypeVar("T")


class Insert(Struct, frozen=True):
    """One append: its rows, what they say about the run, and whose they are.

    Args:
        run: the run.
        rows: the rows of its records.
        names: the values by which statements name the run.
        ticket: a random value that identifies this append.
        open: whether a turn is open after it; None if the event does not change that.
        agent: the agent of the turn, if the event opens one.
        request: the request of that turn; "" without one.
        token: the fencing token of the lease; None without a lease.
    """

    run: str
    rows: Sequence[EncodedRow]
    names: Mapping[str, object]
    ticket: bytes
    open: bool | None
    agent: str | None
    request: str
    token: int | None


class PostgresServer:
    """Performs the operations; all run on the event loop of the journal.

    Args:
        address: the address of the server.
        size: the maximum number of operations at the same time.
        policy: the timeouts.
        lease: seconds without renewal after which another driver may take over a run.
    """

    def __init__(
        self, address: PostgresAddress, size: int, policy: ConnectionPolicy, lease: float
    ) -> None:
        self.address = address
        self._lease = lease
        self._pool = Pool(address, size, policy)
        # A separate pool: a queue of appends must not delay a renewal until the lease expires.
        self._renewal_pool = Pool(address, MOST_AT_ONCE, policy)
        self._renewal = Renewal(self._renew_leases, lease)

    async def append(self, insert: Insert, begin: Begin) -> None:
        """Save one record or several in one transaction; see the port."""

        async def work(connection: Connection) -> bool:
            begin()
            return await self._insert_records(connection, insert)

        if await self._pool.perform(work):
            return
        if insert.token is None:
            raise SessionBusyError(insert.run, "another process has a lease of it")
        raise lease_lost_error(self.address.location, insert.run)

    async def _insert_records(self, connection: Connection, insert: Insert) -> bool:
        lines = [row.line for row in insert.rows]
        values = {
            **insert.names,
            "count": len(lines),
            "first": min(line.at for line in lines),
            "last": max(line.at for line in lines),
            "keys": [line.key for line in lines],
            "digests": [line.digest for line in lines],
            "types": [line.type for line in lines],
            "times": [line.at for line in lines],
            "schemas": [line.schema for line in lines],
            "events": [row.event for row in insert.rows],
            "checksums": [row.checksum for row in insert.rows],
            "ticket": insert.ticket,
            "open": insert.open,
            "agent": insert.agent,
            "request": insert.request,
            "token": insert.token,
            "lease": self._lease,
        }
        statement = sql.APPEND if insert.token is None else sql.APPEND_LEASED
        try:
            if await (await connection.execute(statement, values)).fetchone():
                return True
        except errors.UniqueViolation as error:
            if await self._is_saved(connection, insert):
                return True
            if error.diag.table_name == "holdfast_requests":
                raise RequestExistsError(insert.request) from None
            raise conflict_error(insert.run, lines[0].key) from None
        return await self._is_saved(connection, insert)

    async def _is_saved(self, connection: Connection, insert: Insert) -> bool:
        """Whether this very append was committed before its connection was lost."""
        values = {**insert.names, "key": insert.rows[0].line.key}
        row = await (await connection.execute(sql.TICKET, values)).fetchone()
        return row is not None and row[0] == insert.ticket

    async def fetch_rows(self, statement: str, values: Mapping[str, object]) -> list[Row]:
        """Return the rows of a reading statement of `postgres_statements`."""
        return await self._pool.perform(lambda c: _fetch_all(c, statement, values))

    async def apply_change(self, work: Work[T], begin: Begin) -> T:
        """Make a change that is safe to repeat."""

        async def begin_work(connection: Connection) -> T:
            begin()
            return await work(connection)

        return await self._pool.perform(begin_work)

    async def delete(self, runs: Sequence[Mapping[str, object]], begin: Begin) -> int:
        """Delete runs in one transaction and end their leases; return the number of records."""
        count = 0

        async def work(connection: Connection) -> int:
            nonlocal count
            begin()
            found = 0
            async with connection.transaction():
                for names in runs:
                    found += await _delete_run(connection, names)
            count = found or count  # 0 if the response to the first attempt was lost
            return count

        return await self._pool.perform(work)

    async def claim(
        self, names: Mapping[str, object], state: LeaseState, owner: bytes, begin: Begin
    ) -> int:
        """Return the token of a new lease. Raises SessionBusyError if another driver has one."""
        values = {**names, "owner": owner, "lease": self._lease}

        async def work(connection: Connection) -> Row | None:
            begin()
            return await (await connection.execute(sql.CLAIM, values)).fetchone()

        row = await self._pool.perform(work)
        if row is None:
            raise SessionBusyError(state.run, "another process has a lease of it")
        token = int(str(row[0]))
        self._renewal.add(token, state)
        return token

    async def release(self, tokens: Sequence[int]) -> None:
        """End leases; a lease that cannot be ended expires."""
        for token in tokens:
            self._renewal.remove(token)
        values = {"tokens": list(tokens)}

        async def work(connection: Connection) -> None:
            await connection.execute(sql.RELEASE, values)

        try:
            await self._pool.perform(work, retry=False)
        except JournalError:
            return

    async def _renew_leases(self, tokens: Sequence[int]) -> set[int]:
        values = {"tokens": list(tokens), "lease": self._lease}
        rows = await self._renewal_pool.perform(
            lambda c: _fetch_all(c, sql.RENEW, values), retry=False
        )
        return {int(str(row[0])) for row in rows}

    async def close(self) -> None:
        """End all leases and close all connections."""
        if tokens := await self._renewal.stop():
            await self.release(tokens)
        await asyncio.gather(self._pool.close(), self._renewal_pool.close())


async def _fetch_all(
    connection: Connection, statement: str, values: Mapping[str, object]
) -> list[Row]:
    cursor = await connection.execute(statement.encode(), values)
    return await cursor.fetchall()


async def _delete_run(connection: Connection, names: Mapping[str, object]) -> int:
    row = await (await connection.execute(sql.DELETE_RUN, names)).fetchone()
    if row is None:
        return 0
    for statement in (sql.DELETE_RECORDS, sql.DELETE_SNAPSHOT, sql.DELETE_REQUESTS):
        await connection.execute(statement, {"id": row[0]})
    return int(row[1])
