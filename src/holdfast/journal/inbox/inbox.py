"""The inbox of a journal: submit turns, admit them, begin and end them, and read the queue.

`open_inbox` returns it. This module must never run a turn or reach an engine.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Protocol, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from holdfast.journal.inbox import inbox_statements as sql
from holdfast.journal.inbox.admitting import NO_OFFER, Admission, MakePut, Offer, admit_turns
from holdfast.journal.inbox.dispatch_engine import Job
from holdfast.journal.inbox.driving import (
    NEVER,
    EndedEntry,
    begin_entry,
    end_entries,
    hand_back_entry,
    isolate_entry,
    park_entry,
)
from holdfast.journal.inbox.entries import EntryState, InboxEntry, Submission
from holdfast.journal.inbox.entry_rows import to_entry, to_float, to_int, to_limits, to_worker
from holdfast.journal.inbox.inbox_errors import QueueFullError
from holdfast.journal.inbox.queue_limits import (
    NO_LIMITS,
    QUOTA_REACHED,
    QueueLimits,
    check_scope,
)
from holdfast.journal.inbox.statements import Row, Statement, Transaction
from holdfast.journal.inbox.steering import (
    cancel_entry,
    drop_entry,
    find_entry,
    retry_entry,
    wake_entry,
)
from holdfast.journal.inbox.submitting import name_day, promise_room, submit_turn
from holdfast.journal.inbox.sweeping import (
    StalledEntry,
    find_stalled,
    promote_due,
    prune_entries,
    put_again,
)
from holdfast.journal.inbox.token_room import TokenUse, add_tokens, count_again
from holdfast.journal.inbox.worker_entries import WorkerEntry, WorkerInfo
from holdfast.journal.journal_names import digest_name
from holdfast.journal.port import MOST_REQUESTS

T = TypeVar("T")


class QueueDepth(Struct, frozen=True):
    """How many entries of a tenant are in one state.

    Args:
        tenant: the tenant.
        state: the state.
        count: how many.
        oldest_seconds: the age of the oldest one.
    """

    tenant: str
    state: EntryState
    count: int
    oldest_seconds: float


class InboxStore(Protocol):
    """Performs transactions of the inbox in a database."""

    async def perform(self, make: Callable[[], Transaction[T]]) -> T:
        """Perform a transaction: all of it or, if it raises, nothing.

        Args:
            make: makes the transaction; again, if another one was faster or the connection was lost.

        Raises:
            JournalError: the database cannot be used.
        """
        ...

    def watch(self, notify: Callable[[], None], *, of_ends: bool = True) -> Callable[[], None]:
        """Call a function whenever the inbox may have changed, from any thread; returns a function that ends that.

        Args:
            notify: the function.
            of_ends: also when a turn has ended or waits, which leaves nothing to admit.
        """
        ...

    def close(self) -> None:
        """Close the connections that the store has opened itself."""
        ...


class InboxChanges:
    """Whether an inbox may have changed since one task looked; it belongs to an event loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._changed = asyncio.Event()
        self._shared: list[InboxChanges] = []

    def share(self) -> InboxChanges:
        """Return the same changes for another task: each watch of a shared journal has a connection of its own."""
        other = InboxChanges()
        self._shared.append(other)
        return other

    def note(self) -> None:
        """Note that the inbox may have changed, from any thread."""
        with suppress(RuntimeError):  # the loop is closed, perhaps in this moment
            self._loop.call_soon_threadsafe(self._set)

    def _set(self) -> None:
        self._changed.set()
        for other in self._shared:
            other._set()  # noqa: SLF001  # REASON: it is of this class

    async def wait(self, seconds: float | None = None) -> bool:
        """Return when the inbox may have changed since the last call, or after some seconds.

        Returns:
            Whether it may have changed.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        was_changed = self._changed.is_set()
        self._changed.clear()
        return was_changed


class Inbox:
    """The inbox of a journal, with the turns of all tenants. Every method may raise JournalError.

    Args:
        store: performs its transactions.
    """

    def __init__(self, store: InboxStore) -> None:
        self._store = store

    async def submit(self, submission: Submission) -> InboxEntry:
        """Save a turn, or return the one that was submitted with its request.

        Raises:
            SubmissionError: the request is that of another submission.
            QueueFullError: the queue is full or closed.
            QuotaReachedError: the tenant has used up its turns or tokens of this day.
        """
        try:
            return await self._store.perform(partial(submit_turn, submission))
        except QueueFullError as error:
            refused = error
        raise await self._store.perform(partial(promise_room, refused, submission.tenant))

    async def admit(self, make_put: MakePut | None = None, offer: Offer = NO_OFFER) -> Admission:
        """Admit as many turns as there is room for.

        Args:
            make_put: puts the jobs in the same transaction; otherwise the caller puts them.
            offer: which of them the caller begins itself.
        """
        return await self._store.perform(partial(admit_turns, make_put, offer))

    async def begin(self, entry_id: int, worker: str) -> InboxEntry | None:
        """Give an admitted entry to a worker; None if it is not admitted, or another one has it."""
        return await self._store.perform(partial(begin_entry, entry_id, worker))

    async def end(
        self,
        ended: Sequence[EndedEntry],
        worker: str,
        make_put: MakePut | None = None,
        offer: Offer = NO_OFFER,
    ) -> Admission:
        """Save the outcomes of entries that a worker has, and admit turns in their place, as `admit`.

        Nothing is saved of an entry that the worker does not have any more.
        """
        make = partial(end_entries, ended, worker, make_put=make_put, offer=offer)
        return await self._store.perform(make)

    async def isolate(self, entry_id: int, worker: str) -> InboxEntry | None:
        """Note that a worker drives an entry alone; returns it, or None if the worker does not have it."""
        return await self._store.perform(partial(isolate_entry, entry_id, worker))

    async def park(self, entry_id: int, worker: str, turn: int, why: str) -> bool:
        """Say that an entry is parked as soon as its turn is closed; returns whether the worker has it."""
        return await self._store.perform(partial(park_entry, entry_id, worker, turn, why))

    async def hand_back(self, entry_id: int, worker: str) -> Sequence[Job]:
        """Let another worker have an entry; returns its job, to be put, if the worker had it."""
        return await self._store.perform(partial(hand_back_entry, entry_id, worker))

    async def cancel(self, entry_id: int, by: str = "") -> EntryState | None:
        """Cancel a turn; returns its state from now on, or None if there is no such entry."""
        return await self._store.perform(partial(cancel_entry, entry_id, by))

    async def drop(self, entry_id: int) -> bool:
        """Take a turn out of the queue that has not begun, has failed or is parked; returns whether it was."""
        return await self._store.perform(partial(drop_entry, entry_id))

    async def retry(self, entry_id: int) -> bool:
        """Queue a turn again that failed, is parked or was dropped; returns whether it was."""
        return await self._store.perform(partial(retry_entry, entry_id))

    async def wake(self, entry_id: int) -> bool:
        """Let a turn that waits go on; returns whether it did wait."""
        return await self._store.perform(partial(wake_entry, entry_id))

    async def _select(self, text: str, values: Mapping[str, object]) -> Sequence[Row]:
        return await self._store.perform(partial(_read_rows, text, values))

    async def find(self, entry_id: int) -> InboxEntry | None:
        """Return an entry."""
        return await self._store.perform(partial(find_entry, entry_id))

    async def find_request(self, tenant: str, request: str) -> InboxEntry | None:
        """Return the entry of a tenant with a request."""
        values = {"tenant": tenant, "request": request}
        rows = await self._select(sql.FIND_BY_REQUEST, values)
        return to_entry(rows[0]) if rows else None

    async def find_requests(self, tenant: str, first: str, last: str) -> Sequence[str]:
        """Return the requests of a tenant from one to another, in the order of the database."""
        values = {"tenant": tenant, "first": first, "last": last, "most": MOST_REQUESTS}
        return [str(row[0]) for row in await self._select(sql.FIND_REQUESTS, values)]

    async def find_active(self, tenant: str, session: str) -> InboxEntry | None:
        """Return the entry of a session that is ready, admitted or waiting."""
        values = {"tenant": tenant, "name": digest_name(session)}
        rows = await self._select(sql.FIND_ACTIVE, values)
        return to_entry(rows[0]) if rows else None

    async def list_entries(
        self,
        *,
        tenant: str | None = None,
        session: str | None = None,
        agent: str | None = None,
        states: Collection[EntryState] = (),
        before: int | None = None,
        limit: int = 100,
    ) -> Sequence[InboxEntry]:
        """Return entries without their bodies, the latest first.

        Args:
            tenant: of this tenant only.
            session: of this session only; with a tenant.
            agent: of this agent only.
            states: in one of these states only.
            before: with a smaller number than this only, for the next page.
            limit: at most so many.
        """
        names = [f"s{number}" for number, _ in enumerate(states)]
        parts = ["true"]
        parts += ["tenant = :tenant"] if tenant is not None else []
        parts += ["session_name = :name"] if session is not None else []
        parts += ["agent = :agent"] if agent is not None else []
        parts += ["id < :before"] if before is not None else []
        parts += [f"state IN ({', '.join(f':{name}' for name in names)})"] if names else []
        values: dict[str, object] = {
            "tenant": tenant,
            "name": digest_name(session or ""),
            "agent": agent,
            "before": before,
            "limit": limit,
            "none": b"",
            **dict(zip(names, (state.value for state in states), strict=True)),
        }
        text = (
            f"SELECT {sql.COLUMNS}, :none FROM holdfast_inbox WHERE {' AND '.join(parts)}"  # noqa: S608  # REASON: conditions of this function
            " ORDER BY id DESC LIMIT :limit"
        )
        used = {name: value for name, value in values.items() if f":{name}" in text}
        return [to_entry(row) for row in await self._select(text, used)]

    async def count_entries(self) -> Sequence[QueueDepth]:
        """Return how many entries each tenant has in each state but DONE and DROPPED."""
        rows = await self._select(sql.DEPTHS, {})
        return [
            QueueDepth(
                str(tenant), EntryState(str(state)), to_int(count), to_float(now) - to_float(oldest)
            )
            for tenant, state, count, oldest, now in rows
        ]

    async def read_limits(self) -> dict[str, QueueLimits]:
        """Return the limits by scope."""
        return to_limits(await self._select(sql.ALL_LIMITS, {}))

    async def set_limits(self, scope: str, limits: QueueLimits) -> None:
        """Set the limits of a scope: "all", "tenant", "tenant:NAME" or "agent:NAME".

        Raises:
            ConfigurationError: it is no scope.
        """
        await self._store.perform(partial(_set_limits, check_scope(scope), limits))

    async def change_limits(self, scope: str, changes: Mapping[str, int | None]) -> QueueLimits:
        """Change some limits of a scope and leave the others, also those that somebody changes now.

        Args:
            scope: as for `set_limits`.
            changes: the new values of fields of `QueueLimits`.

        Returns:
            All limits of the scope.

        Raises:
            ConfigurationError: it is no scope, or a limit is not a whole number from 0.
        """
        return await self._store.perform(partial(_change_limits, check_scope(scope), changes))

    async def read_usage(self, tenant: str) -> tuple[int, int]:
        """Return how many turns and tokens of this day were counted for a tenant."""
        return await self._store.perform(partial(_read_usage, tenant))

    async def add_tokens(self, tenant: str, tokens: int, at: float = NEVER) -> TokenUse:
        """Count tokens of this day, if the tenant has a quota of them.

        Args:
            tenant: the tenant.
            tokens: how many.
            at: when they were used, in seconds since the epoch: those from before the counting began
                are not added, since the journal has them.
        """
        return await self._store.perform(partial(add_tokens, tenant, tokens, at))

    async def count_tokens_again(self, tenant: str) -> None:
        """Let the journal report the use of a tenant on this day again, if it has a quota."""
        await self._store.perform(partial(count_again, tenant))

    async def set_earlier_tokens(self, tenant: str, since: float, tokens: int) -> None:
        """Save the tokens of a day that were used before they were counted, unless that was done.

        Args:
            tenant: the tenant.
            since: `TokenUse.uncounted_before`.
            tokens: how many.
        """
        values = {"tenant": tenant, "day": name_day(since), "tokens": tokens}
        await self._store.perform(partial(_change, sql.SET_EARLIER_TOKENS, values))

    async def note_worker(self, worker: WorkerInfo) -> dict[int, str]:
        """Save a heartbeat; return which entries of the worker somebody wants cancelled, and who."""
        return await self._store.perform(partial(_note_worker, worker))

    async def find_cancelled(self, worker: str) -> dict[int, str]:
        """Return which entries of a worker somebody wants cancelled, and who."""
        rows = await self._select(sql.CANCELLED_OF, {"worker": worker})
        return {to_int(entry): str(by) for entry, by in rows}

    async def list_held(self, worker: str) -> Sequence[int]:
        """Return the numbers of the entries that a worker has."""
        return [to_int(entry) for (entry,) in await self._select(sql.HELD_BY, {"worker": worker})]

    async def remove_worker(self, worker: str) -> None:
        """Forget a worker that has stopped."""
        await self._store.perform(partial(_change, sql.FORGET_WORKER, {"id": worker}))

    async def list_workers(self) -> Sequence[WorkerEntry]:
        """Return the workers of the last hour."""
        return [
            WorkerEntry(
                info=to_worker(info),
                seen_at=to_float(seen),
                is_alive=bool(is_alive),
                driving=to_int(driving),
            )
            for info, seen, is_alive, driving in await self._select(sql.WORKERS, {})
        ]

    async def promote_due(self) -> bool:
        """Queue the turns that are due, and wake those that waited long enough; returns whether there is more."""
        return await self._store.perform(promote_due)

    async def find_stalled(self) -> Sequence[StalledEntry]:
        """Return the admitted entries that no worker has that is alive."""
        return await self._store.perform(find_stalled)

    async def put_again(self, entries: Collection[StalledEntry]) -> Sequence[Job]:
        """Take stalled entries from workers that died; returns the jobs to put."""
        return await self._store.perform(partial(put_again, entries))

    async def prune(self, seconds: float) -> int:
        """Delete some entries that were over before so many seconds; returns how many."""
        return await self._store.perform(partial(prune_entries, seconds))

    @contextmanager
    def watch(self, *, of_ends: bool = True) -> Iterator[InboxChanges]:
        """Watch the inbox for one task of the running event loop.

        Args:
            of_ends: also when a turn has ended or waits, which leaves nothing to admit.
        """
        changes = InboxChanges()
        end_watching = self._store.watch(changes.note, of_ends=of_ends)
        try:
            yield changes
        finally:
            end_watching()

    def close(self) -> None:
        """Close the connections of the inbox; the journal stays open."""
        self._store.close()


def _read_rows(text: str, values: Mapping[str, object]) -> Transaction[Sequence[Row]]:
    return (yield Statement(text, values))


def _change(text: str, values: Mapping[str, object]) -> Transaction[None]:
    yield Statement(text, values)
    yield sql.NOTIFY


def _change_limits(scope: str, changes: Mapping[str, int | None]) -> Transaction[QueueLimits]:
    yield sql.LOCK
    before = to_limits((yield Statement(sql.ALL_LIMITS))).get(scope, NO_LIMITS)
    limits = replace(before, **changes)
    yield from _set_limits(scope, limits)
    return limits


def _set_limits(scope: str, limits: QueueLimits) -> Transaction[None]:
    yield sql.LOCK
    yield Statement(
        sql.SET_LIMITS, {"scope": scope, "limits": msgspec.json.encode(limits).decode()}
    )
    yield Statement(sql.RESUME_STOPPED, {"error": QUOTA_REACHED})
    yield sql.NOTIFY


def _note_worker(worker: WorkerInfo) -> Transaction[dict[int, str]]:
    info = msgspec.json.encode(worker).decode()
    yield Statement(
        sql.HEARTBEAT, {"id": worker.id, "info": info, "seconds": worker.seconds_to_live}
    )
    rows = yield Statement(sql.CANCELLED_OF, {"worker": worker.id})
    return {to_int(entry): str(by) for entry, by in rows}


def _read_usage(tenant: str) -> Transaction[tuple[int, int]]:
    now = to_float((yield sql.NOW)[0][0])
    rows = yield Statement(sql.USAGE, {"tenant": tenant, "day": name_day(now)})
    return (to_int(rows[0][0]), to_int(rows[0][1])) if rows else (0, 0)
