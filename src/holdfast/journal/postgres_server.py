"""The operations of a PostgreSQL journal on its server: append, read, list, delete, and leases.

Each append has a random ticket, which is stored with the record. If the connection is lost, it is
not known whether the append was committed. It is then sent again, and the ticket of an existing
record tells whether that is this append or one of another driver.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple, TypeVar

from psycopg import errors

from holdfast.core.errors import SessionBusyError
from holdfast.journal import postgres_statements as sql
from holdfast.journal.journal_errors import (
    JournalError,
    JournalUnreachableError,
    RequestExistsError,
    conflict_error,
    lease_lost_error,
)
from holdfast.journal.loop_thread import Begin
from holdfast.journal.postgres_failures import PostgresAddress
from holdfast.journal.postgres_groups import GroupLane
from holdfast.journal.postgres_inserts import Insert, make_group_values, make_insert_values
from holdfast.journal.postgres_pool import Connection, ConnectionPolicy, Pool, Work
from holdfast.journal.postgres_renewal import MOST_AT_ONCE, LeaseState, Renewal
from holdfast.journal.rows import Row

T = TypeVar("T")


class Claim(NamedTuple):
    """A new lease.

    Args:
        token: its fencing token.
        run_id: the id of the run, which no other run ever has.
        records: the number of its records. Nobody else changes it while the lease is valid.
    """

    token: int
    run_id: int
    records: int


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
        self._appends = GroupLane(self._append_group)
        self._claims = GroupLane(self._claim_group)
        self._releases = GroupLane(self._release_group)

    async def append(self, insert: Insert, begin: Begin) -> None:
        """Save one record or several in one transaction; see the port."""
        if insert.token is None or not await self._appends.perform(insert, insert.token, begin):
            await self._append_alone(insert, begin)

    async def _append_group(self, inserts: Sequence[Insert]) -> Sequence[bool]:
        """Save appends under leases; return which of them were saved. The others go alone."""
        values = {**make_group_values(inserts), "lease": self._lease}
        try:
            rows = await self._pool.perform(lambda c: _fetch_all(c, sql.APPEND_GROUP, values))
        except JournalUnreachableError:
            raise
        except JournalError:
            return [False] * len(inserts)  # one of them was refused, and so the whole statement
        saved = {row[0] for row in rows}
        return [number in saved for number in range(1, len(inserts) + 1)]

    async def _append_alone(self, insert: Insert, begin: Begin) -> None:
        async def work(connection: Connection) -> bool:
            begin()
            return await self._insert_records(connection, insert)

        if await self._pool.perform(work):
            return
        if insert.token is None:
            raise SessionBusyError(insert.run, "another process has a lease of it")
        raise lease_lost_error(self.address.location, insert.run)

    async def _insert_records(self, connection: Connection, insert: Insert) -> bool:
        values = {**make_insert_values(insert), "lease": self._lease}
        statement = sql.APPEND if insert.token is None else sql.APPEND_LEASED
        try:
            if await (await connection.execute(statement, values)).fetchone():
                return True
        except errors.UniqueViolation as error:
            if await self._is_saved(connection, insert):
                return True
            if error.diag.table_name == "holdfast_requests":
                raise RequestExistsError(insert.request) from None
            raise conflict_error(insert.run, insert.rows[0].line.key) from None
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
    ) -> Claim:
        """Return a new lease. Raises SessionBusyError if another driver has one."""
        key = (names["tenant"], names["name"])
        claim = await self._claims.perform({**names, "owner": owner}, key, begin)
        if claim is None:
            raise SessionBusyError(state.run, "another process has a lease of it")
        self._renewal.add(claim.token, state)
        return claim

    async def _claim_group(self, claims: Sequence[Mapping[str, object]]) -> Sequence[Claim | None]:
        values = {
            "tenants": [claim["tenant"] for claim in claims],
            "names": [claim["name"] for claim in claims],
            "runs": [claim["run"] for claim in claims],
            "nested": [claim["nested"] for claim in claims],
            "owners": [claim["owner"] for claim in claims],
            "lease": self._lease,
        }
        rows = await self._pool.perform(lambda c: _fetch_all(c, sql.CLAIM, values))
        found = {row[0]: Claim(*(int(str(number)) for number in row[1:])) for row in rows}
        return [found.get(claim["owner"]) for claim in claims]

    async def release(self, token: int) -> None:
        """End a lease; a lease that cannot be ended expires."""
        self._renewal.remove(token)
        await self._releases.perform(token, token, lambda: None)

    async def _release_group(self, tokens: Sequence[int]) -> Sequence[None]:
        values = {"tokens": list(tokens)}
        with suppress(JournalError):
            await self._pool.perform(lambda c: _execute(c, sql.RELEASE, values), retry=False)
        return [None] * len(tokens)

    async def _renew_leases(self, tokens: Sequence[int]) -> set[int]:
        values = {"tokens": list(tokens), "lease": self._lease}
        rows = await self._renewal_pool.perform(
            lambda c: _fetch_all(c, sql.RENEW, values), retry=False
        )
        return {int(str(row[0])) for row in rows}

    async def close(self) -> None:
        """End all leases and close all connections."""
        if tokens := await self._renewal.stop():
            await self._release_group(tokens)
        await asyncio.gather(self._pool.close(), self._renewal_pool.close())


async def _fetch_all(
    connection: Connection, statement: str, values: Mapping[str, object]
) -> list[Row]:
    cursor = await connection.execute(statement.encode(), values)
    return await cursor.fetchall()


async def _execute(connection: Connection, statement: str, values: Mapping[str, object]) -> None:
    await connection.execute(statement.encode(), values)


async def _delete_run(connection: Connection, names: Mapping[str, object]) -> int:
    row = await (await connection.execute(sql.DELETE_RUN, names)).fetchone()
    if row is None:
        return 0
    for statement in (sql.DELETE_RECORDS, sql.DELETE_SNAPSHOT, sql.DELETE_REQUESTS):
        await connection.execute(statement, {"id": row[0]})
    return int(row[1])
