"""The routes of the queue: how much waits, each entry, and the workers that drive them.

A tenant sees its own entries only. This module must never drive a turn.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Literal, NoReturn

from msgspec import UNSET, UnsetType
from starlette.responses import Response

from holdfast.journal.inbox.entries import EntryState, InboxEntry
from holdfast.journal.inbox.inbox import Inbox
from holdfast.journal.inbox.opening_inbox import open_inbox
from holdfast.journal.inbox.queue_limits import LimitTable, tenant_scope
from holdfast.journal.inbox.worker_entries import WorkerEntry
from holdfast.server.access.budgets import READS, Takes
from holdfast.server.access.callers import take_further_turn
from holdfast.server.api.operations import (
    AnyOperation,
    Call,
    Operation,
    OperationAnswer,
    make_command,
    respond,
)
from holdfast.server.api.queue_views import (
    DepthView,
    EntryPage,
    EntryView,
    LimitsView,
    QueueView,
    WorkerList,
    WorkerView,
)
from holdfast.server.api.request_bodies import EntriesQuery, NoBody, NoQuery
from holdfast.server.problem_responses import ProblemError, make_problem

_MOST_DRIVEN = 1000


def inbox_of(call: Call[NoQuery, NoBody] | Call[EntriesQuery, NoBody]) -> Inbox:
    """Return the inbox of the service. Raises ConfigurationError if its journal has none."""
    return open_inbox(call.service.journal)


def view_entry(entry: InboxEntry) -> EntryView:
    """Return the view of an entry, without its message."""
    return EntryView(
        entry=entry.id,
        agent=entry.agent,
        session=entry.session,
        request=entry.request,
        state=entry.state,
        priority=entry.priority,
        due_at=entry.due_at,
        created_at=entry.created_at,
        changed_at=entry.changed_at,
        deliveries=entry.deliveries,
        worker=entry.worker,
        turn=entry.turn,
        error=entry.error,
        by=entry.made_by,
        cancelled_by=entry.cancelled_by,
        deaths=entry.deaths + entry.deaths_alone,
    )


async def read_queue(call: Call[NoQuery, NoBody]) -> Response:
    """Report how much of the tenant waits and runs, and its limits."""
    return respond(await _view_queue(call))


async def _view_queue(call: Call[NoQuery, NoBody]) -> QueueView:
    inbox, tenant = inbox_of(call), call.tenant.tenant
    depths = [depth for depth in await inbox.count_entries() if depth.tenant == tenant]
    limits = LimitTable(await inbox.read_limits())
    own, everything = limits.of_tenant(tenant), limits.of_all
    turns, tokens = await inbox.read_usage(tenant)
    counted = {depth.state: depth.count for depth in depths}
    workers = [one for one in await inbox.list_workers() if one.is_alive and _serves(one, tenant)]
    return QueueView(
        depths=tuple(DepthView(one.state, one.count, one.oldest_seconds) for one in depths),
        running=counted.get(EntryState.ADMITTED, 0),
        queued=sum(count for state, count in counted.items() if state.is_queued),
        turns_today=turns,
        tokens_today=tokens,
        limits=LimitsView(
            running=own.running,
            queued=own.queued,
            turns_per_day=own.turns_per_day,
            tokens_per_day=own.tokens_per_day,
            is_paused=own.is_paused or everything.is_paused,
            is_draining=own.is_draining or everything.is_draining,
        ),
        workers=len(workers),
    )


def _serves(worker: WorkerEntry, tenant: str) -> bool:
    return not worker.info.tenants or tenant in worker.info.tenants


async def list_entries(call: Call[EntriesQuery, NoBody]) -> Response:
    """List entries of the tenant, the latest first."""
    query = call.query
    found = await inbox_of(call).list_entries(
        tenant=call.tenant.tenant,
        session=None if query.session is UNSET else query.session,
        agent=None if query.agent is UNSET else query.agent,
        states=() if query.state is UNSET else (query.state,),
        before=None if query.before is UNSET else query.before,
        limit=query.limit + 1,
    )
    shown = found[: query.limit]
    after: int | UnsetType = shown[-1].id if len(found) > query.limit else UNSET
    return respond(EntryPage(tuple(view_entry(entry) for entry in shown), after))


async def read_entry(call: Call[NoQuery, NoBody]) -> Response:
    """Read an entry of the tenant."""
    return respond(view_entry(await _find_entry(call)))


async def _find_entry(call: Call[NoQuery, NoBody]) -> InboxEntry:
    """Return the entry in the path. Raises ProblemError if the tenant has none with this number."""
    text = call.names["entry"]
    if text.isascii() and text.isdecimal() and len(text) < 16:
        entry = await inbox_of(call).find(int(text))
        if entry is not None and entry.tenant == call.tenant.tenant:
            return entry
    detail, fix = "there is no such entry", "See GET /queue/entries"
    raise ProblemError(make_problem(404, "unknown", detail, field="entry", fix=fix))


async def retry_entry(call: Call[NoQuery, NoBody]) -> Response:
    """Queue a turn again that failed, is parked or was dropped."""
    entry = await _find_entry(call)
    take_further_turn(call.request)
    if not await inbox_of(call).retry(entry.id):
        _refuse_state(entry, "can only be retried when it has failed, is parked or was dropped")
    return await _answer_entry(call)


async def drop_entry(call: Call[NoQuery, NoBody]) -> Response:
    """Take a turn out that has not begun, that failed or is parked."""
    entry = await _find_entry(call)
    if not await inbox_of(call).drop(entry.id):
        _refuse_state(
            entry, "can only be dropped before it begins, or when it has failed or is parked"
        )
    return await _answer_entry(call)


async def cancel_entry(call: Call[NoQuery, NoBody]) -> Response:
    """Cancel a turn, wherever it is driven; one that has not begun is dropped."""
    entry = await _find_entry(call)
    await inbox_of(call).cancel(entry.id, call.principal.name)
    return await _answer_entry(call)


async def _answer_entry(call: Call[NoQuery, NoBody]) -> Response:
    entry = await _find_entry(call)
    call.tenant.watch.wake(entry.session)
    call.tenant.watch.feed.note_topic("queue")
    return respond(view_entry(entry), 202)


def _refuse_state(entry: InboxEntry, rule: str) -> NoReturn:
    detail = f"the entry is {entry.state.value}; it {rule}"
    raise ProblemError(make_problem(409, "state", detail, field="entry"))


async def pause_queue(call: Call[NoQuery, NoBody]) -> Response:
    """Begin no more turns of the tenant."""
    return await _set_flags(call, is_paused=True)


async def drain_queue(call: Call[NoQuery, NoBody]) -> Response:
    """Accept no more turns of the tenant."""
    return await _set_flags(call, is_draining=True)


async def resume_queue(call: Call[NoQuery, NoBody]) -> Response:
    """Begin and accept turns of the tenant again."""
    return await _set_flags(call, is_paused=False, is_draining=False)


async def _set_flags(call: Call[NoQuery, NoBody], **flags: bool) -> Response:
    await inbox_of(call).change_limits(tenant_scope(call.tenant.tenant), flags)
    call.tenant.watch.feed.note_topic("queue")
    return respond(await _view_queue(call))


async def list_workers(call: Call[NoQuery, NoBody]) -> Response:
    """List the workers of the last hour that drive turns of the tenant."""
    inbox, tenant = inbox_of(call), call.tenant.tenant
    driven: dict[str, list[EntryView]] = {}
    for entry in await inbox.list_entries(
        tenant=tenant, states=(EntryState.ADMITTED,), limit=_MOST_DRIVEN
    ):
        driven.setdefault(entry.worker, []).append(view_entry(entry))
    views = [
        _view_worker(worker, tuple(driven.get(worker.info.id, ())))
        for worker in await inbox.list_workers()
        if _serves(worker, tenant)
    ]
    return respond(views)


def _view_worker(worker: WorkerEntry, entries: tuple[EntryView, ...]) -> WorkerView:
    info = worker.info
    return WorkerView(
        worker=info.id,
        host=info.host,
        process=info.process,
        agents=info.agents,
        serves_all=not info.tenants,
        slots=info.slots,
        driving=worker.driving,
        engine=info.engine,
        started_at=info.started_at,
        seen_at=worker.seen_at,
        is_alive=worker.is_alive,
        is_stopping=info.is_stopping,
        entries=entries,
    )


def _make_entry_change(
    name: str,
    text: str,
    handle: Callable[[Call[NoQuery, NoBody]], Awaitable[Response]],
    takes: Takes = READS,
) -> AnyOperation:
    path = f"/queue/entries/{{entry}}/{name}"
    answers = {202: (OperationAnswer(EntryView, "The entry, as it is now."),)}
    command = make_command(f"{name}_entry", path, text, handle, answers, refusals=(404, 409))
    return replace(command, takes=takes)


def _make_queue_change(
    name: Literal["pause", "drain", "resume"],
    text: str,
    handle: Callable[[Call[NoQuery, NoBody]], Awaitable[Response]],
) -> AnyOperation:
    answers = {200: (OperationAnswer(QueueView, "The queue, as it is now."),)}
    command = make_command(f"{name}_queue", f"/queue/{name}", text, handle, answers)
    return replace(command, scope="admin")


OPERATIONS: tuple[AnyOperation, ...] = (
    Operation(
        name="read_queue",
        method="GET",
        path="/queue",
        text="Read how many turns of the tenant are queued and run, how long they wait, and their limits.",
        scope="read",
        takes=READS,
        handle=read_queue,
        query=NoQuery,
        body=NoBody,
        answers={200: (OperationAnswer(QueueView, "The queue."),)},
    ),
    Operation(
        name="list_entries",
        method="GET",
        path="/queue/entries",
        text="List submitted turns, the latest first: queued, in progress, done, failed.",
        scope="read",
        takes=READS,
        handle=list_entries,
        query=EntriesQuery,
        body=NoBody,
        answers={200: (OperationAnswer(EntryPage, "The entries."),)},
    ),
    Operation(
        name="read_entry",
        method="GET",
        path="/queue/entries/{entry}",
        text="Read a submitted turn: its state, its number once it has begun, and who drives it.",
        scope="read",
        takes=READS,
        handle=read_entry,
        query=NoQuery,
        body=NoBody,
        answers={200: (OperationAnswer(EntryView, "The entry."),)},
        refusals=(404,),
    ),
    _make_entry_change(
        "retry",
        "Queue a turn again that failed, is parked or was dropped.",
        retry_entry,
        takes=("requests", "turns"),
    ),
    _make_entry_change(
        "drop", "Take a turn out that has not begun, that failed or is parked.", drop_entry
    ),
    _make_entry_change(
        "cancel",
        "Cancel a submitted turn, wherever it is driven; one that has not begun is dropped.",
        cancel_entry,
    ),
    _make_queue_change(
        "pause", "Begin no more turns of the tenant; those in progress go on.", pause_queue
    ),
    _make_queue_change(
        "drain", "Accept no more turns of the tenant; queued ones are done.", drain_queue
    ),
    _make_queue_change("resume", "Begin and accept turns of the tenant again.", resume_queue),
    Operation(
        name="list_workers",
        method="GET",
        path="/workers",
        text="List the workers of the last hour, with heartbeats and the turns of the tenant that they drive.",
        scope="admin",
        takes=READS,
        handle=list_workers,
        query=NoQuery,
        body=NoBody,
        answers={200: (OperationAnswer(WorkerList, "The workers."),)},
    ),
)
"""The operations on the queue."""
