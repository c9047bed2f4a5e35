"""The routes of schedules: make, list, pause, resume, run and delete them, and list the outcomes of ticks."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from msgspec import UNSET
from starlette.responses import Response

from holdfast.journal.inbox.entries import EntryState
from holdfast.journal.inbox.opening_inbox import open_schedules
from holdfast.journal.inbox.schedules.schedule import Schedule
from holdfast.journal.inbox.schedules.schedule_store import ScheduleEntry, Schedules
from holdfast.runtime.queued_runs.queued_turn import encode_message_turn
from holdfast.server.access.budgets import READS, Takes
from holdfast.server.access.callers import check_ticks, take_further_turn, take_turn
from holdfast.server.api.idempotency import read_key
from holdfast.server.api.operations import (
    AnyOperation,
    Call,
    Operation,
    OperationAnswer,
    make_command,
    respond,
)
from holdfast.server.api.queue_routes import view_entry
from holdfast.server.api.queue_views import (
    EntryView,
    ScheduleList,
    ScheduleView,
    TickList,
    TickView,
)
from holdfast.server.api.request_bodies import HistoryQuery, NewSchedule, NoBody, NoQuery
from holdfast.server.problem_responses import ProblemError, make_problem

_PATH = "/schedules/{schedule}"


def _schedules_of(call: Call[Any, Any]) -> Schedules:
    return open_schedules(call.service.journal)


def view_schedule(entry: ScheduleEntry) -> ScheduleView:
    """Return the view of a schedule, without its message."""
    schedule = entry.schedule
    return ScheduleView(
        name=schedule.name,
        agent=schedule.agent,
        session=schedule.session,
        cron=schedule.cron,
        every=schedule.every,
        zone=schedule.zone,
        jitter=schedule.jitter,
        overlap=schedule.overlap,
        catch_up=schedule.catch_up,
        next_tick=entry.next_tick,
        priority=schedule.priority,
        is_paused=entry.is_paused,
        by=schedule.made_by,
    )


async def list_schedules(call: Call[NoQuery, NoBody]) -> Response:
    """List the schedules of the tenant."""
    entries = await _schedules_of(call).list_schedules(call.tenant.tenant)
    return respond([view_schedule(entry) for entry in entries])


async def put_schedule(call: Call[NoQuery, NewSchedule]) -> Response:
    """Make a schedule, or replace the one with its name."""
    body = call.body
    call.tenant.agent(body.agent)
    schedule = Schedule(
        name=body.name,
        tenant=call.tenant.tenant,
        agent=body.agent,
        body=encode_message_turn(body.message, by=call.principal.name),
        session="" if body.session is UNSET else body.session,
        cron="" if body.cron is UNSET else body.cron,
        every=0 if body.every is UNSET else body.every,
        zone=body.zone,
        jitter=body.jitter,
        overlap=body.overlap,
        catch_up=body.catch_up,
        priority=body.priority,
        made_by=call.principal.name,
    )
    await _check_ticks(call, schedule)
    take_further_turn(call.request)
    entry = await _schedules_of(call).put(schedule)
    call.tenant.watch.feed.note_topic("queue")
    return respond(view_schedule(entry), 201)


async def _check_ticks(call: Call[NoQuery, NewSchedule], new: Schedule) -> None:
    """Refuse a schedule with which those of the tenant would submit more turns than a key may start."""
    entries = await _schedules_of(call).list_schedules(call.tenant.tenant)
    others = [one.schedule for one in entries if one.schedule.name != new.name]
    check_ticks(call.request, sum(_count_ticks(one) for one in [*others, new]))


def _count_ticks(schedule: Schedule) -> float:
    """Return how many turns a schedule may submit in a minute: a cron expression names minutes."""
    return 60.0 / schedule.every if schedule.every else 1.0


async def pause_schedule(call: Call[NoQuery, NoBody]) -> Response:
    """Let a schedule have no ticks."""
    await _schedules_of(call).pause(call.tenant.tenant, call.names["schedule"])
    call.tenant.watch.feed.note_topic("queue")
    return respond(view_schedule(await _find_schedule(call)))


async def resume_schedule(call: Call[NoQuery, NoBody]) -> Response:
    """Let a schedule have ticks again."""
    take_further_turn(call.request)
    await _schedules_of(call).resume(call.tenant.tenant, call.names["schedule"])
    call.tenant.watch.feed.note_topic("queue")
    return respond(view_schedule(await _find_schedule(call)))


async def run_schedule(call: Call[NoQuery, NoBody]) -> Response:
    """Submit a turn of a schedule at once."""
    await _find_schedule(call)
    take_turn(call.request)
    key = read_key(call.request) or ""
    entry = await _schedules_of(call).trigger(call.tenant.tenant, call.names["schedule"], key)
    if entry is None:
        raise _unknown_schedule()
    return respond(view_entry(entry), 202)


async def delete_schedule(call: Call[NoQuery, NoBody]) -> Response:
    """Delete a schedule and its history."""
    if not await _schedules_of(call).delete(call.tenant.tenant, call.names["schedule"]):
        raise _unknown_schedule()
    call.tenant.watch.feed.note_topic("queue")
    return Response(status_code=204)


async def read_schedule_history(call: Call[HistoryQuery, NoBody]) -> Response:
    """List the outcomes of the latest ticks of a schedule."""
    await _find_schedule(call)
    name = call.names["schedule"]
    records = await _schedules_of(call).read_history(call.tenant.tenant, name, call.query.limit)
    return respond(
        [
            TickView(
                tick=one.tick,
                outcome=one.outcome,
                entry=one.entry,
                missed=one.missed,
                at=one.at,
                state=None if one.state is None else EntryState(one.state),
                error=one.error,
            )
            for one in records
        ]
    )


async def _find_schedule(call: Call[Any, NoBody]) -> ScheduleEntry:
    """Return the schedule in the path. Raises ProblemError if the tenant has none with this name."""
    found = await _schedules_of(call).find(call.tenant.tenant, call.names["schedule"])
    if found is None:
        raise _unknown_schedule()
    return found


def _unknown_schedule() -> ProblemError:
    detail, fix = "there is no such schedule", "See GET /schedules"
    return ProblemError(make_problem(404, "unknown", detail, field="schedule", fix=fix))


def _make_change(
    name: str,
    text: str,
    handle: Callable[[Call[NoQuery, NoBody]], Awaitable[Response]],
    takes: Takes = READS,
) -> AnyOperation:
    answers = {200: (OperationAnswer(ScheduleView, "The schedule, as it is now."),)}
    command = make_command(
        f"{name}_schedule", f"{_PATH}/{name}", text, handle, answers, refusals=(404,)
    )
    return replace(command, takes=takes)


OPERATIONS: tuple[AnyOperation, ...] = (
    Operation(
        name="list_schedules",
        method="GET",
        path="/schedules",
        text="List the schedules of the tenant, by name.",
        scope="read",
        takes=READS,
        handle=list_schedules,
        query=NoQuery,
        body=NoBody,
        answers={200: (OperationAnswer(ScheduleList, "The schedules."),)},
    ),
    Operation(
        name="put_schedule",
        method="POST",
        path="/schedules",
        text="Make a schedule, or replace the one with its name.",
        scope="run",
        takes=("requests", "turns", "bytes"),
        handle=put_schedule,
        query=NoQuery,
        body=NewSchedule,
        carries="json",
        once="answer",
        answers={201: (OperationAnswer(ScheduleView, "The schedule."),)},
        refusals=(404,),
    ),
    Operation(
        name="delete_schedule",
        method="DELETE",
        path=_PATH,
        text="Delete a schedule and its history. Turns that were submitted stay.",
        scope="run",
        takes=READS,
        handle=delete_schedule,
        query=NoQuery,
        body=NoBody,
        answers={204: (OperationAnswer(None, "It is deleted."),)},
        refusals=(404,),
    ),
    _make_change("pause", "Let a schedule submit no turns.", pause_schedule),
    _make_change(
        "resume",
        "Let a schedule submit turns from now on; those of the pause are not made up for.",
        resume_schedule,
        takes=("requests", "turns"),
    ),
    replace(
        make_command(
            "run_schedule",
            f"{_PATH}/run",
            "Submit a turn of a schedule at once, also of one that is paused.",
            run_schedule,
            {202: (OperationAnswer(EntryView, "The turn, in the queue."),)},
            refusals=(404,),
        ),
        takes=("requests", "turns", "bytes"),
    ),
    Operation(
        name="read_schedule_history",
        method="GET",
        path=f"{_PATH}/history",
        text="List the outcomes of the latest ticks of a schedule, the latest first.",
        scope="read",
        takes=READS,
        handle=read_schedule_history,
        query=HistoryQuery,
        body=NoBody,
        answers={200: (OperationAnswer(TickList, "The ticks."),)},
        refusals=(404,),
    ),
)
"""The operations on schedules."""
