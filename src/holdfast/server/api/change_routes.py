"""The route of changes, which programs that show lists follow, so that they need not ask again and again.

A stream names changes from its beginning on, and repeats nothing: after each connection a reader reads
its list first. The rows of changed sessions are read once for all readers. This module must never wait
for a reader.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing, suppress
from typing import TypeAlias
from weakref import WeakKeyDictionary

from msgspec import UNSET, Struct
from starlette.responses import Response
from starlette.types import Send

from holdfast.core.errors import HoldfastError
from holdfast.event_log.live.change_feed import Changes
from holdfast.hosting.tenant_service import TenantService
from holdfast.journal.encoding import to_json
from holdfast.journal.inbox.entries import InboxEntry
from holdfast.journal.inbox.queue_limits import LimitTable
from holdfast.server.access.callers import take_stream
from holdfast.server.api.event_stream import COMMENT, SECONDS_BETWEEN_COMMENTS, LiveResponse
from holdfast.server.api.operations import (
    EVENT_STREAM,
    AnyOperation,
    Call,
    Operation,
    OperationAnswer,
)
from holdfast.server.api.queued_sessions import find_new, list_unfinished, mark_queued, pick_next
from holdfast.server.api.request_bodies import ChangesQuery, NoBody
from holdfast.server.api.session_pages import find_rows
from holdfast.server.api.session_reading import summarize_session
from holdfast.server.api.views import (
    ChangeEvent,
    ChangeItem,
    ChangesEnd,
    DeletedSession,
    EndpointsChanged,
    ListChanged,
    QueueChanged,
    SessionsChanged,
    SessionSummary,
)
from holdfast.server.problem_body import ProblemBody

_shared: WeakKeyDictionary[TenantService, SharedChanges] = WeakKeyDictionary()


async def read_changes(call: Call[ChangesQuery, NoBody]) -> Response:
    """Stream the changes from now on."""
    take_stream(call.request)
    seconds = None if call.query.seconds is UNSET else call.query.seconds
    pieces = follow_changes(
        call.tenant,
        sees_endpoints=call.principal.may("admin"),
        idle=SECONDS_BETWEEN_COMMENTS,
        seconds=seconds,
    )
    return ChangeStreamResponse(pieces)


class ChangeStreamResponse(LiveResponse):
    """A stream of changes.

    Args:
        pieces: the events and comments, encoded.
    """

    def __init__(self, pieces: AsyncGenerator[bytes]) -> None:
        super().__init__()
        self._pieces = pieces

    def make_last_event(self, _problem: ProblemBody) -> bytes:
        """Return the event that says that the caller may read no more."""
        return encode_change(ChangesEnd("access_ended"))

    async def stream_response(self, send: Send) -> None:
        """Send the events as they come."""
        async with aclosing(self._pieces) as pieces:
            first = await anext(pieces)  # whoever has the head gets all changes
            await self.begin(send)
            await send({"type": "http.response.body", "body": first, "more_body": True})
            async for piece in pieces:
                await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b""})


async def follow_changes(
    tenant: TenantService, *, sees_endpoints: bool, idle: float, seconds: float | None
) -> AsyncGenerator[bytes]:
    """Yield the changes from now on, as server-sent events, and comments in between.

    Args:
        tenant: the tenant.
        sees_endpoints: whether the reader may see the states of endpoints.
        idle: yield a comment after this many seconds without an event.
        seconds: end the stream after so many seconds; None if it ends with the process.
    """
    feed, monotonic = tenant.watch.feed, asyncio.get_running_loop().time
    end = None if seconds is None else monotonic() + seconds
    shared = _shared.setdefault(tenant, SharedChanges())
    is_first = not feed.has_readers
    reader = feed.subscribe()
    try:
        if is_first:
            with suppress(HoldfastError):  # then a change of the queue is not known as one
                shared.queue = await read_queue(tenant)
        queue = shared.queue
        yield COMMENT  # from here on nothing is missed
        while not feed.is_closed:
            left = idle if end is None else min(idle, end - monotonic())
            changes = await reader.take(left) if left > 0 else None
            if changes is not None:
                events, queue = await shared.read(tenant, changes, queue)
                yield join_events(events, sees_endpoints=sees_endpoints)
            elif end is not None and monotonic() >= end:
                yield encode_change(ChangesEnd("time_over"))
                return
            elif not feed.is_closed:
                yield COMMENT
        yield encode_change(ChangesEnd("shutting_down"))
    finally:
        reader.leave()


class QueueState(Struct, frozen=True):
    """The queue of a tenant, as a reader knows it.

    Args:
        entries: the turns that are not over, by their ids.
        limits: the limits of the tenant and of all tenants.
    """

    entries: Mapping[int, InboxEntry]
    limits: object = None


async def read_queue(tenant: TenantService) -> QueueState:
    """Read the queue of a tenant. Raises JournalError."""
    if tenant.queue is None:
        return _NO_QUEUE
    entries = {entry.id: entry for entry in await list_unfinished(tenant)}
    table = LimitTable(await tenant.queue.inbox.read_limits())
    return QueueState(entries, (table.of_tenant(tenant.tenant), table.of_all))


_NO_QUEUE = QueueState({})

Events: TypeAlias = Mapping[str, bytes]
"""The encoded events of some changes, by their types."""


def join_events(events: Events, *, sees_endpoints: bool) -> bytes:
    """Return the events for a reader; a comment if there are none."""
    shown = (one for name, one in events.items() if sees_endpoints or name != "endpoints")
    return b"".join(shown) or COMMENT


class SharedChanges:
    """Reads the changes of a tenant, once for the readers that took the same changes and know the same queue."""

    def __init__(self) -> None:
        self._read_for: tuple[Changes, QueueState] | None = None
        self._reading: asyncio.Task[tuple[Events, QueueState]] | None = None
        self.queue = _NO_QUEUE
        """The queue that was read last. A reader that is slow may know an earlier one."""

    async def read(
        self, tenant: TenantService, changes: Changes, queue: QueueState
    ) -> tuple[Events, QueueState]:
        """Return the events of changes, and the queue that their reader knows from now on.

        Args:
            tenant: the tenant.
            changes: the changes that the reader took.
            queue: the queue that it knows.
        """
        known = self._read_for
        if self._reading is None or known is None or known[0] != changes or known[1] is not queue:
            self._read_for = changes, queue
            self._reading = asyncio.create_task(self._read(tenant, changes, queue))
        # A reader that leaves ends the reading for nobody else.
        return await asyncio.shield(self._reading)

    async def _read(
        self, tenant: TenantService, changes: Changes, queue: QueueState
    ) -> tuple[Events, QueueState]:
        now = queue
        try:
            if "inbox" in changes.topics:
                now = self.queue = await read_queue(tenant)
            items = [item async for item in _find_items(tenant, changes, queue, now)]
        except HoldfastError:  # the list says why, when it is read
            items = [ListChanged(), QueueChanged()]
        return {name_kind(item): encode_change(item) for item in items}, now


async def _find_items(
    tenant: TenantService, changes: Changes, before: QueueState, now: QueueState
) -> AsyncGenerator[ChangeItem]:
    differing = _find_differing(before.entries, now.entries)
    names = changes.sessions | differing
    if "queue" in changes.topics or differing or before.limits != now.limits:
        yield QueueChanged()
    if not changes.is_complete:
        yield ListChanged()
    elif names:
        yield await _read_sessions(tenant, sorted(names), pick_next(now.entries.values()))
    if "endpoints" in changes.topics:
        yield EndpointsChanged()


def _find_differing(before: Mapping[int, InboxEntry], now: Mapping[int, InboxEntry]) -> set[str]:
    """Return the sessions whose turns in the queue are not those that were there before."""
    if before is now:
        return set()
    either = {**before, **now}
    return {entry.session for name, entry in either.items() if before.get(name) != now.get(name)}


async def _read_sessions(
    tenant: TenantService, names: Sequence[str], queued: Mapping[str, InboxEntry]
) -> SessionsChanged:
    rows = await find_rows(tenant, names)
    found: list[SessionSummary] = []
    deleted: list[DeletedSession] = []
    for name in names:
        entry, row = queued.get(name), rows.get(name)
        if row is not None:
            found.append(mark_queued(summarize_session(tenant, row), entry))
        elif entry is not None and (new := await find_new(tenant, name)) is not None:
            found.append(new)
        else:
            deleted.append(DeletedSession(name))
    return SessionsChanged(tuple(found), tuple(deleted))


def encode_change(item: ChangeEvent) -> bytes:
    """Return a change as a server-sent event. It has no id: a stream is not continued."""
    return b"event: %s\ndata: %s\n\n" % (name_kind(item).encode(), to_json(item))


def name_kind(item: ChangeEvent) -> str:
    """Return the type of a change."""
    return str(item.__struct_config__.tag)


OPERATIONS: tuple[AnyOperation, ...] = (
    Operation(
        name="read_changes",
        method="GET",
        path="/changes",
        text=(
            "Follow the changes of the sessions and the queue of the tenant, from now on, as server-sent "
            "events. Nothing is repeated: after a lost connection, connect and then read the lists again."
        ),
        scope="read",
        takes=("requests", "streams"),
        handle=read_changes,
        query=ChangesQuery,
        body=NoBody,
        answers={
            200: (OperationAnswer(ChangeEvent, "The changes, as they happen.", EVENT_STREAM),)
        },
    ),
)
"""The operations on changes."""
