"""The operations of a PostgreSQL journal on its server: append, read, list, delete, and leases.

If the connection is lost, it is not known whether an append was committed. It is then sent again,
and the checksum of an existing record shows whether that is this append or one of another driver.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TypeVar

from psycopg import errors

from holdfast.core.errors import SessionBusyError
from holdfast.journal.handoff import Handoff
from holdfast.journal.journal_errors import (
    JournalError,
    JournalUnreachableError,
    RequestExistsError,
    conflict_error,
    lease_lost_error,
)
from holdfast.journal.postgres import postgres_statements as sql
from holdfast.journal.postgres.loop_thread import Begin, LoopThread, WithdrawnError
from holdfast.journal.postgres.postgres_acts import delete_acts, has_act, insert_act
from holdfast.journal.postgres.postgres_failures import PostgresAddress
from holdfast.journal.postgres.postgres_groups import GroupLane, ReadGroups
from holdfast.journal.postgres.postgres_inserts import (
    Insert,
    Outcome,
    make_group_values,
    make_insert_values,
    make_owner_values,
    to_array,
)
from holdfast.journal.postgres.postgres_media import delete_media, save_media
from holdfast.journal.postgres.postgres_pool import Connection, ConnectionPolicy, Pool, Work
from holdfast.journal.postgres.postgres_presence import (
    END_LEASES,
    END_WORKERS,
    UNSEEN,
    Departures,
    Presence,
)
from holdfast.journal.postgres.postgres_renewal import MOST_AT_ONCE, LeaseState, Renewal
from holdfast.journal.rows import Row
from holdfast.journal.run_summary import HISTORY_TYPES, recount_turns

T = TypeVar("T")


class PostgresServer:
    """Performs the operations in a thread of its own.

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
        self.lease_seconds = lease
        self.statement_seconds = policy.timeout
        self._pool = Pool(address, size, policy)
        # A separate pool: a queue of appends must not delay a renewal until the lease expires.
        self._renewal_pool = Pool(address, MOST_AT_ONCE, policy)
        self._renewal = Renewal(self._renew_leases, lease)
        self.presence = Presence(self._renewal_pool.open_connection, self._renewal.renew_now)
        self._departures = Departures[tuple[str, str]]()
        self.thread = thread = LoopThread(address.location, self.close)
        self._saves = GroupLane(thread, self._save_group)
        self._claims = GroupLane(thread, self._claim_group)
        self._releases = GroupLane(thread, self._release_group, is_for_all=True)
        self.reads = ReadGroups(thread, self.fetch_rows)

    def save(self, insert: Insert) -> Handoff[Outcome]:
        """Save an append under its lease, together with others; await the outcome."""
        return self._saves.submit(insert, insert.key)

    async def _save_group(self, inserts: Sequence[Insert]) -> Sequence[Outcome]:
        values = {**make_group_values(inserts), "lease": self.lease_seconds}
        owned: list[Row] = []
        tries = 0

        async def work(connection: Connection) -> list[Row]:
            nonlocal tries
            tries += 1
            if tries > 1:
                owned[:] = await _fetch_all(connection, sql.OWNED, make_owner_values(inserts))
            return await _fetch_all(connection, sql.SAVE_GROUP, values)

        try:
            rows = await self._pool.perform(work)
        except JournalUnreachableError:
            raise
        except JournalError:
            rows = []  # one of them was refused, and so the whole statement
        outcomes = [Outcome.UNKNOWN if tries > 1 else Outcome.UNSAVED] * len(inserts)
        for row in (*owned, *rows):
            number, token, run_id = (int(str(value or 0)) for value in row)
            outcomes[number - 1] = Outcome.SAVED
            self._note_saved(inserts[number - 1], token, run_id)
        return outcomes

    def _note_saved(self, insert: Insert, token: int, run_id: int) -> None:
        """Begin or end the lease of an append that was saved."""
        lease = insert.lease
        if lease is None:
            return
        if insert.ends:
            self._renewal.remove(lease.token)
            lease.is_lost = True
        elif not lease.token:
            lease.token, lease.run_id = token, run_id
            self._renewal.add(lease)

    async def append_alone(self, insert: Insert, begin: Begin, *, is_unknown: bool) -> None:
        """Save an append in a transaction of its own; see the port.

        Args:
            insert: the append; the lease of it has begun.
            begin: called before anything is changed.
            is_unknown: whether an earlier attempt may have saved it.
        """
        tries = int(is_unknown)

        async def work(connection: Connection) -> bool:
            nonlocal tries
            begin()
            tries += 1
            return await self._insert_records(connection, insert, is_first=tries == 1)

        if await self._pool.perform(work):
            self._note_saved(insert, 0, 0)
            return
        if insert.lease is None:
            raise SessionBusyError(insert.run, "another process has a lease of it")
        raise lease_lost_error(self.address.location, insert.run)

    async def _insert_records(
        self, connection: Connection, insert: Insert, *, is_first: bool
    ) -> bool:
        values = {**make_insert_values(insert), "lease": self.lease_seconds}
        statement = sql.APPEND if insert.lease is None else sql.APPEND_LEASED
        try:
            if not insert.is_alone:
                saved = await (await connection.execute(statement, values)).fetchone()
            else:
                async with connection.transaction():
                    saved = await (await connection.execute(statement, values)).fetchone()
                    if saved:
                        await insert_act(connection, insert.act)
                        await save_media(connection, insert.names, insert.media)
                        if insert.change.is_rewind:
                            await _recount_turns(connection, insert.names)
            if saved:
                return True
        except errors.UniqueViolation as error:
            if not is_first and await self._is_saved(connection, insert):
                return True
            if error.diag.table_name == "holdfast_requests":
                raise RequestExistsError(insert.request) from None
            raise conflict_error(insert.run, insert.rows[0].line.key) from None
        return not is_first and await self._is_saved(connection, insert)

    async def _is_saved(self, connection: Connection, insert: Insert) -> bool:
        """Whether the journal has this very record, so that an attempt before has saved it."""
        values = {**insert.names, "key": insert.rows[0].line.key}
        row = await (await connection.execute(sql.SAVED, values)).fetchone()
        return row is not None and row[0] == insert.rows[0].checksum

    async def fetch_rows(self, statement: str, values: Mapping[str, object]) -> list[Row]:
        """Return the rows of a reading statement of `postgres_statements`."""
        return await self._pool.perform(lambda c: _fetch_all(c, statement, values))

    async def apply_change(self, work: Work[T], begin: Begin) -> T:
        """Make a change that is safe to repeat."""

        async def begin_work(connection: Connection) -> T:
            begin()
            return await work(connection)

        return await self._pool.perform(begin_work)

    async def delete(
        self, runs: Sequence[Mapping[str, object]], act: dict[str, object] | None, begin: Begin
    ) -> int:
        """Delete runs in one transaction and end their leases; return the number of records.

        Args:
            runs: the values by which statements name the runs.
            act: the values of the act that deletes them.
            begin: called before anything is changed.
        """
        count = tries = 0

        async def work(connection: Connection) -> int:
            nonlocal count, tries
            begin()
            tries += 1
            found = 0
            if act is not None and tries > 1 and await has_act(connection, act):
                return count  # it was committed before the connection was lost
            async with connection.transaction():
                await insert_act(connection, act)
                for names in runs:
                    found += await _delete_run(connection, names)
                    await delete_acts(connection, names, act)
            count = found or count  # 0 if the response to the first attempt was lost
            return count

        return await self._pool.perform(work)

    def claim(self, names: Mapping[str, object], lease: LeaseState) -> Handoff[bool]:
        """Begin a lease; await whether no other driver has one."""
        return self._claims.submit((names, lease), (names["tenant"], names["name"]))

    async def _claim_group(
        self, claims: Sequence[tuple[Mapping[str, object], LeaseState]]
    ) -> Sequence[bool]:
        values = {
            **{
                f"{name}s": [names[name] for names, _ in claims]
                for name in ("tenant", "name", "run")
            },
            "nested": [names["nested"] for names, _ in claims],
            "owners": [lease.owner for _, lease in claims],
            "lease": self.lease_seconds,
        }
        rows = await self._pool.perform(lambda c: _fetch_all(c, sql.CLAIM, values))
        found = {row[0]: [int(str(number)) for number in row[1:]] for row in rows}
        for _, lease in claims:
            if lease.owner in found:
                lease.token, lease.run_id, lease.records = found[lease.owner]
                self._renewal.add(lease)
        return [bool(lease.token) for _, lease in claims]

    def release(self, lease: LeaseState) -> Handoff[None]:
        """End a lease; a lease that cannot be ended expires."""
        return self._releases.submit(lease, lease.token)

    async def _release_group(self, leases: Sequence[LeaseState]) -> Sequence[None]:
        for lease in leases:
            self._renewal.remove(lease.token)
        with suppress(JournalError):
            values = _make_lease_values(leases)
            await self._pool.perform(lambda c: _execute(c, sql.RELEASE, values), retry=False)
        return [None] * len(leases)

    async def _renew_leases(self, leases: Sequence[LeaseState]) -> set[int]:
        values = {**_make_lease_values(leases), "lease": self.lease_seconds}
        rows = await self._renewal_pool.perform(
            lambda c: _fetch_all(c, sql.RENEW, values), retry=False
        )
        return {int(str(row[0])) for row in rows}

    def show_process(self) -> None:
        """Let other processes see from now on that this one is there."""
        if not self.presence.is_kept:
            self.presence.is_kept = True
            self.thread.start(self.presence.keep, _withdraw)

    async def end_departed(self, begin: Begin) -> bool:
        """End what processes hold that have ended; return whether there was something."""
        rows = await self.fetch_rows(UNSEEN, {})
        begin()
        missing = {(str(kind), str(name)): str(sign) for kind, name, sign in rows}
        gone = self._departures.note(asyncio.get_running_loop().time(), missing)
        ended: list[Row] = []
        for kind, statement in (("lease", END_LEASES), ("worker", END_WORKERS)):
            names = [one for one in gone if one[0] == kind]
            if names:
                values = {
                    "names": [name for _, name in names],
                    "signs": [missing[one] for one in names],
                }
                ended += await self.fetch_rows(statement, values)
        return bool(ended)

    async def close(self) -> None:
        """End all leases and close all connections."""
        leases = await self._renewal.stop()
        if leases:
            await self._release_group(leases)
        await asyncio.gather(self._pool.close(), self._renewal_pool.close())


def _withdraw() -> None:
    """Let `close` of the journal end the session."""
    raise WithdrawnError


async def _fetch_all(
    connection: Connection, statement: str, values: Mapping[str, object]
) -> list[Row]:
    # Binary: the driver reads a number or a time several times as fast as from text.
    cursor = await connection.execute(statement.encode(), values, binary=True)
    return await cursor.fetchall()


async def _execute(connection: Connection, statement: str, values: Mapping[str, object]) -> None:
    await connection.execute(statement.encode(), values)


def _make_lease_values(leases: Sequence[LeaseState]) -> dict[str, object]:
    return {
        "ids": to_array([lease.run_id for lease in leases]),
        "tokens": to_array([lease.token for lease in leases]),
    }


async def _recount_turns(connection: Connection, names: Mapping[str, object]) -> None:
    """Count the turns of a run again, after a rewind in the same transaction."""
    values = {**names, "types": list(HISTORY_TYPES)}
    rows = await _fetch_all(connection, sql.HISTORY, values)
    texts = ((str(key), str(tag), None if text is None else str(text)) for key, tag, text in rows)
    title, turns, messages = recount_turns(texts)
    values = {**names, "title": title, "turns": turns, "messages": messages}
    await _execute(connection, sql.SET_TURNS, values)


async def _delete_run(connection: Connection, names: Mapping[str, object]) -> int:
    row = await (await connection.execute(sql.DELETE_RUN, names)).fetchone()
    if row is None:
        return 0
    await delete_media(connection, row[0])
    for statement in (sql.DELETE_RECORDS, sql.DELETE_SNAPSHOT, sql.DELETE_REQUESTS):
        await connection.execute(statement, {"id": row[0]})
    return int(row[1])
