"""The routes of the event log."""

from __future__ import annotations

from starlette.responses import Response

from holdfast.event_log.live.last_turn import LastTurn
from holdfast.event_log.live.reading import ReadingEnd
from holdfast.event_log.positions import START, Position, parse_position
from holdfast.event_log.stream_items import StreamItem
from holdfast.hosting.tenant_service import TenantService, unknown_session
from holdfast.server.access.callers import take_stream
from holdfast.server.api.event_stream import SECONDS_BETWEEN_COMMENTS, EventStreamResponse
from holdfast.server.api.operations import (
    EVENT_STREAM,
    JSON,
    AnyOperation,
    Call,
    Operation,
    OperationAnswer,
    OperationHeader,
    respond,
)
from holdfast.server.api.request_bodies import POSITION_PATTERN, EventsQuery, NoBody
from holdfast.server.api.session_reading import NO_TURN, session_exists
from holdfast.server.api.views import EventsView
from holdfast.server.problem_responses import ProblemError, make_problem


async def read_events(call: Call[EventsQuery, NoBody]) -> Response:
    """Stream the event log from a position, or return the saved part of it."""
    tenant, session = call.tenant, call.session
    last = await tenant.reader.find_last_turn(session) or NO_TURN
    if last is NO_TURN and not await _will_exist(tenant, session):
        raise unknown_session(session)
    position = _read_position(call, last)
    if _wants_json(call):
        entries = [entry async for entry in tenant.reader.read_saved(session, position)]
        end = entries[-1].position if entries else position
        return respond(EventsView(tuple(entry.item for entry in entries), str(end)))
    take_stream(call.request)
    end_of_turn = ReadingEnd(last.turn) if call.query.until == "turn_end" else None
    idle = SECONDS_BETWEEN_COMMENTS
    batches = tenant.reader.follow_batches(session, position, end_of_turn, idle)
    return EventStreamResponse(batches)


async def _will_exist(tenant: TenantService, session: str) -> bool:
    """Whether there is a session without turns, or one whose first turn is queued."""
    if await session_exists(tenant, session):
        return True
    return tenant.queue is not None and await tenant.queue.find_unbegun(session) is not None


def _read_position(call: Call[EventsQuery, NoBody], last: LastTurn) -> Position:
    """Return the position of the reader. Raises ConfigurationError and ProblemError."""
    sent = call.request.headers.get("Last-Event-ID")
    if sent:
        position = parse_position(sent, "Last-Event-ID")
    else:
        position = parse_position(call.query.after) if call.query.after else START
    if position.sequence > last.records:
        detail = "is behind the end of the session"
        fix = "The session was deleted and made again, or the position is of another one: leave it out"
        raise ProblemError(make_problem(422, "position", detail, field="after", fix=fix))
    return position


def _wants_json(call: Call[EventsQuery, NoBody]) -> bool:
    return call.accepts(JSON) and not call.accepts(EVENT_STREAM)


OPERATIONS: tuple[AnyOperation, ...] = (
    Operation(
        name="read_events",
        method="GET",
        path="/sessions/{session}/events",
        text=(
            "Follow the event log of a session from a position: as server-sent events; or with "
            "`Accept: application/json` the items that are saved, without waiting."
        ),
        scope="read",
        takes=("requests", "streams"),
        handle=read_events,
        query=EventsQuery,
        body=NoBody,
        answers={
            200: (
                OperationAnswer(StreamItem, "The event log, as it grows.", EVENT_STREAM),
                OperationAnswer(EventsView, "The items that are saved."),
            )
        },
        refusals=(404,),
        headers=(
            OperationHeader(
                "Last-Event-ID",
                "The position of the reader; it counts before `after`.",
                {"type": "string", "pattern": f"^$|{POSITION_PATTERN}"},
            ),
        ),
    ),
)
"""The operations on the event log."""
