"""The routes of turns: start, read, wait, stream."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AbstractContextManager, aclosing, nullcontext
from time import monotonic
from urllib.parse import quote

from msgspec.structs import replace
from starlette.responses import Response

from holdfast.event_log.item_encoding import encode_item
from holdfast.event_log.live.live_run import Entry
from holdfast.event_log.live.reading import TURN_ENDED, TURN_RESTS, ReadingEnd
from holdfast.event_log.positions import START, Position
from holdfast.event_log.stream_items import NoticeItem, StatusItem, StreamItem
from holdfast.hosting.tenant_service import TenantService
from holdfast.hosting.turns.turn_runner import AcceptedTurn
from holdfast.journal.inbox.entries import EntryState, InboxEntry
from holdfast.journal.inbox.inbox_errors import QueuedTurnError
from holdfast.server.access.budgets import STARTS
from holdfast.server.access.callers import take_stream, take_turn, waiting
from holdfast.server.api.body_arguments import make_keywords, make_output, make_prompt
from holdfast.server.api.event_stream import SECONDS_BETWEEN_COMMENTS, EventStreamResponse
from holdfast.server.api.operations import (
    EVENT_STREAM,
    AnyOperation,
    Call,
    Operation,
    OperationAnswer,
    respond,
)
from holdfast.server.api.request_bodies import NewTurn, NoBody, NoQuery, TurnQuery
from holdfast.server.api.request_reading import (
    ON_BUSY_HEADER,
    ON_DISCONNECT_HEADER,
    read_wishes,
)
from holdfast.server.api.session_reading import read_turn
from holdfast.server.api.views import TurnView
from holdfast.server.problem_responses import ProblemError, make_problem

SECONDS_TO_BEGIN = 2.0
"""Seconds to wait for the begin of a turn that is next, before the answer is that it is queued."""


async def start_turn(call: Call[NoQuery, NewTurn]) -> Response:
    """Start a turn, and answer as the request wants: at once, after a wait, or with its stream."""
    tenant, body = call.tenant, call.body
    keywords = make_keywords(tenant.agent(body.agent), body, call.service.allow_models)
    if wish := read_wishes(call.request):
        keywords["metadata"] = {**(keywords.get("metadata") or {}), **wish}
    take_turn(call.request)
    if call.accepts(EVENT_STREAM) or body.wait:
        take_stream(call.request)
    keywords["by"] = call.principal.name
    keywords["request"] = call.request.headers.get("Idempotency-Key")
    message, output = await make_prompt(call, body.message), make_output(body)
    saved = await tenant.submit(body.agent, message, output, **keywords)
    if isinstance(saved, InboxEntry):
        return await answer_queued(call, saved)
    return await _answer_begun(call, saved, body.wait)


async def answer_queued(call: Call[NoQuery, NewTurn], entry: InboxEntry) -> Response:
    """Answer with a turn of the queue: as it is once it has begun, or as it is in the queue."""
    is_next = await _is_next(call.tenant, entry)
    seconds = max(call.body.wait, SECONDS_TO_BEGIN if is_next else 0.01)
    waited = monotonic()
    with waiting(call.request), _holding(call, entry.session):
        begun = await call.tenant.wait_for_begin(entry, seconds)
    if begun is not None:
        return await _answer_begun(
            call, begun, max(0.0, seconds - (monotonic() - waited)), entry.id
        )
    headers = {"Location": _locate_entry(call, entry)}
    if call.accepts(EVENT_STREAM):
        headers["Content-Location"] = _locate_session(call, entry.session) + "/events"
        return EventStreamResponse(follow_queued(call.tenant, entry), headers)
    view = TurnView(
        session=entry.session,
        turn=0,
        agent=entry.agent,
        status="queued",
        request=entry.request,
        by=entry.made_by,
        entry=entry.id,
    )
    return respond(view, 202, headers)


def _holding(call: Call[NoQuery, NewTurn], session: str) -> AbstractContextManager[None]:
    """Let a process that stops serve a request to its end that waits for its turn."""
    is_held = call.body.wait and not call.accepts(EVENT_STREAM)
    return call.tenant.watch.holding(session) if is_held else nullcontext()


async def _is_next(tenant: TenantService, entry: InboxEntry) -> bool:
    """Whether a turn begins as soon as there is room: no earlier one of its session is in progress."""
    if entry.state is EntryState.BLOCKED:  # perhaps by a turn that has just ended
        last = await tenant.reader.find_last_turn(entry.session)
        return last is not None and last.status in TURN_ENDED
    return entry.state in (EntryState.READY, EntryState.ADMITTED)


async def _answer_begun(
    call: Call[NoQuery, NewTurn], begun: AcceptedTurn, seconds: float, entry: int = 0
) -> Response:
    """Answer with a turn that has begun, after a wait for its end."""
    tenant, session, number = call.tenant, begun.session, begun.number
    headers = {"Location": locate_turn(call, session, number)}
    if call.accepts(EVENT_STREAM):
        begin, end, idle = Position(begun.sequence), ReadingEnd(number), SECONDS_BETWEEN_COMMENTS
        batches = tenant.reader.follow_batches(session, begin, end, idle)
        return EventStreamResponse(batches, headers)
    if call.body.wait and seconds:
        with waiting(call.request), _holding(call, session):
            await tenant.reader.wait_for_rest(session, number, seconds)
    turn = replace(await read_turn(tenant, session, number), entry=entry)
    return respond(turn, 200 if turn.status in TURN_RESTS else 202, headers)


async def follow_queued(tenant: TenantService, entry: InboxEntry) -> AsyncGenerator[list[Entry]]:
    """Yield that a turn is queued, and once it has begun its items until it ends.

    If it never begins, a notice has its outcome and the reason.
    """
    told = StatusItem("0", 0, "queued")
    yield [Entry(told, START, encode_item(told))]
    try:
        while (begun := await tenant.wait_for_begin(entry, SECONDS_BETWEEN_COMMENTS)) is None:
            yield []
    except QueuedTurnError as error:
        fields: dict[str, object] = {"entry": entry.id, "state": error.state, "error": error.why}
        over = NoticeItem("queued_turn_over", fields)
        yield [Entry(over, START, encode_item(over))]
        return
    begin, end, idle = Position(begun.sequence), ReadingEnd(begun.number), SECONDS_BETWEEN_COMMENTS
    batches = tenant.reader.follow_batches(begun.session, begin, end, idle)
    async with aclosing(batches):
        async for batch in batches:
            yield batch


async def read_one_turn(call: Call[TurnQuery, NoBody]) -> Response:
    """Read a turn, after a wait for its end if one is asked for."""
    number = parse_number(call.names["turn"])
    await call.tenant.last_turn(call.session)
    if call.query.wait:
        take_stream(call.request)
        with waiting(call.request):
            await call.tenant.reader.wait_for_rest(call.session, number, call.query.wait)
    return respond(await read_turn(call.tenant, call.session, number))


def locate_turn(call: Call[NoQuery, NewTurn], session: str, number: int) -> str:
    """Return the path of a turn."""
    return f"{_locate_session(call, session)}/turns/{number}"


def _locate_session(call: Call[NoQuery, NewTurn], session: str) -> str:
    root = quote(str(call.request.scope.get("root_path", "")))
    return f"{root}/sessions/{quote(session, safe='')}"


def _locate_entry(call: Call[NoQuery, NewTurn], entry: InboxEntry) -> str:
    root = quote(str(call.request.scope.get("root_path", "")))
    return f"{root}/queue/entries/{entry.id}"


def parse_number(text: str) -> int:
    """Return the number of a turn in a path. Raises ProblemError."""
    if text.isascii() and text.isdecimal() and len(text) < 16 and text == str(int(text)):
        return int(text)
    detail = "is not the number of a turn"
    raise ProblemError(make_problem(404, "unknown", detail, field="turn", fix="Pass 1, 2, ..."))


_STREAM = OperationAnswer(StreamItem, "The event log of the turn, until it ends.", EVENT_STREAM)

OPERATIONS: tuple[AnyOperation, ...] = (
    Operation(
        name="start_turn",
        method="POST",
        path="/turns",
        text=(
            "Start a turn. It goes on when the connection ends. With `Accept: text/event-stream` the "
            "answer is its stream."
        ),
        scope="run",
        takes=STARTS,
        handle=start_turn,
        query=NoQuery,
        body=NewTurn,
        carries="json",
        answers={
            200: (
                OperationAnswer(TurnView, "The turn, which has ended or waits for an answer."),
                _STREAM,
            ),
            202: (
                OperationAnswer(
                    TurnView,
                    "The turn, which is in progress, or queued: `entry` is its number there.",
                ),
            ),
        },
        refusals=(404, 409),
        headers=(ON_DISCONNECT_HEADER, ON_BUSY_HEADER),
        once="turn",
    ),
    Operation(
        name="read_turn",
        method="GET",
        path="/sessions/{session}/turns/{turn}",
        text="Read a turn: status, text, output, usage, error, questions.",
        scope="read",
        takes=("requests", "streams"),
        handle=read_one_turn,
        query=TurnQuery,
        body=NoBody,
        answers={200: (OperationAnswer(TurnView, "The turn."),)},
        refusals=(404,),
    ),
)
"""The operations on turns."""
