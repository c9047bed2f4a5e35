"""The schedules of a journal: put, pause, trigger and delete them, and fire the ticks that are due."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial

import msgspec
from msgspec import Struct

from holdfast.journal.inbox.entries import InboxEntry
from holdfast.journal.inbox.entry_rows import to_float, to_int
from holdfast.journal.inbox.inbox import InboxStore
from holdfast.journal.inbox.inbox_errors import QueueFullError, QuotaReachedError
from holdfast.journal.inbox.inbox_statements import NOW
from holdfast.journal.inbox.schedules import schedule_statements as sql
from holdfast.journal.inbox.schedules.firing import (
    Fired,
    TickRecord,
    fire_schedule,
    to_record,
    to_schedule,
    trigger_schedule,
)
from holdfast.journal.inbox.schedules.schedule import Schedule
from holdfast.journal.inbox.schedules.ticks import Tick, find_next_tick
from holdfast.journal.inbox.statements import Row, Statement, Transaction

_MOST_SCHEDULES = 100  # that are fired at once
_MOST_TICKS = 100  # of one schedule at once


class ScheduleEntry(Struct, frozen=True, kw_only=True):
    """A schedule in a journal.

    Args:
        schedule: the schedule.
        next_tick: its next tick; None if there is none any more.
        is_paused: whether it is paused.
    """

    schedule: Schedule
    next_tick: Tick | None
    is_paused: bool


class Schedules:
    """The schedules of a journal, of all tenants. Every method may raise JournalError.

    Args:
        store: performs the transactions, as for an `Inbox`.

    >>> import asyncio
    >>> from holdfast.journal.inbox.sqlite_inbox import MemoryInboxStore
    >>> schedules = Schedules(MemoryInboxStore(now=lambda: 5000.0))
    >>> asyncio.run(schedules.put(Schedule(name="report", agent="writer", every=3600))).next_tick
    7200
    """

    def __init__(self, store: InboxStore) -> None:
        self._store = store

    async def put(self, schedule: Schedule) -> ScheduleEntry:
        """Add a schedule, or replace the one with its name; a tick that was due stays due if the times are the same."""
        return await self._store.perform(partial(_put, schedule))

    async def find(self, tenant: str, name: str) -> ScheduleEntry | None:
        """Return a schedule."""
        rows = await self._store.perform(partial(_read, sql.FIND, {"tenant": tenant, "name": name}))
        return _to_entry(rows[0]) if rows else None

    async def list_schedules(self, tenant: str | None = None) -> Sequence[ScheduleEntry]:
        """Return the schedules of a tenant, or of all, sorted by tenant and name."""
        text = sql.LIST + ("" if tenant is None else sql.OF_TENANT) + sql.IN_ORDER
        values = {} if tenant is None else {"tenant": tenant}
        return [_to_entry(row) for row in await self._store.perform(partial(_read, text, values))]

    async def pause(self, tenant: str, name: str) -> bool:
        """Let a schedule have no ticks; returns whether there is one."""
        return await self._store.perform(partial(_set_paused, tenant, name, is_paused=True))

    async def resume(self, tenant: str, name: str) -> bool:
        """Let a schedule have ticks from now on; those of the pause are not caught up."""
        return await self._store.perform(partial(_set_paused, tenant, name, is_paused=False))

    async def delete(self, tenant: str, name: str) -> bool:
        """Delete a schedule and its history; turns that were submitted stay. Returns whether there was one."""
        return await self._store.perform(partial(_delete, tenant, name))

    async def trigger(self, tenant: str, name: str, request: str = "") -> InboxEntry | None:
        """Submit a turn of a schedule at once, also of one that is paused; None if there is none.

        Args:
            tenant: the tenant.
            name: the name of the schedule.
            request: an idempotency key; a second call with it gives the same turn.

        Raises:
            QueueFullError, QuotaReachedError: as `Inbox.submit`.
        """
        word = f"now.{request or secrets.token_hex(8)}"
        return await self._store.perform(partial(trigger_schedule, tenant, name, word))

    async def read_history(self, tenant: str, name: str, limit: int = 50) -> Sequence[TickRecord]:
        """Return the outcomes of the latest ticks of a schedule, the latest first."""
        values = {"tenant": tenant, "name": name, "limit": limit}
        rows = await self._store.perform(partial(_read, sql.HISTORY, values))
        return [to_record(row) for row in rows]

    async def fire_due(self) -> Sequence[Fired]:
        """Fire the ticks that are due; every worker calls it regularly. Returns the fired ticks.

        A tick whose turn cannot be submitted, since a queue is full or a quota is used up, stays due
        and delays no other schedule.
        """
        fired: list[Fired] = []
        after = {"tick": 0, "tenant": "", "name": ""}
        while True:
            values = {**after, "limit": _MOST_SCHEDULES}
            due = await self._store.perform(partial(_read, sql.DUE, values))
            for tick, tenant, name in due:
                after = {"tick": to_int(tick), "tenant": str(tenant), "name": str(name)}
                with suppress(QueueFullError, QuotaReachedError):
                    fired += await self._fire(str(tenant), str(name))
            if len(due) < _MOST_SCHEDULES:
                return fired

    async def _fire(self, tenant: str, name: str) -> Sequence[Fired]:
        fired: list[Fired] = []
        while len(fired) < _MOST_TICKS:
            one = await self._store.perform(partial(fire_schedule, tenant, name))
            if one is None:
                break
            fired.append(one)
        return fired


def _read(text: str, values: Mapping[str, object]) -> Transaction[Sequence[Row]]:
    return (yield Statement(text, values))


def _to_entry(row: Row) -> ScheduleEntry:
    return ScheduleEntry(
        schedule=to_schedule(row[0]),
        next_tick=None if row[1] is None else to_int(row[1]),
        is_paused=bool(row[2]),
    )


def _put(schedule: Schedule) -> Transaction[ScheduleEntry]:
    names = {"tenant": schedule.tenant, "name": schedule.name}
    rows = yield Statement(sql.FIND, names)
    old = _to_entry(rows[0]) if rows else None
    if old is not None and old.schedule.timing == schedule.timing:
        next_tick = old.next_tick
    else:
        next_tick = find_next_tick(schedule, to_float((yield NOW)[0][0]))
    definition = msgspec.json.encode(schedule).decode()
    yield Statement(sql.PUT, {**names, "definition": definition, "next_tick": next_tick})
    is_paused = old is not None and old.is_paused
    return ScheduleEntry(schedule=schedule, next_tick=next_tick, is_paused=is_paused)


def _set_paused(tenant: str, name: str, *, is_paused: bool) -> Transaction[bool]:
    names = {"tenant": tenant, "name": name}
    rows = yield Statement(sql.FIND, names)
    if not rows:
        return False
    entry = _to_entry(rows[0])
    next_tick = entry.next_tick
    if entry.is_paused and not is_paused:
        next_tick = find_next_tick(entry.schedule, to_float(rows[0][3]))
    change = {**names, "is_paused": int(is_paused), "next_tick": next_tick}
    return bool((yield Statement(sql.SET_PAUSED, change)))


def _delete(tenant: str, name: str) -> Transaction[bool]:
    names = {"tenant": tenant, "name": name}
    yield Statement(sql.DELETE_HISTORY, names)
    return bool((yield Statement(sql.DELETE, names)))
