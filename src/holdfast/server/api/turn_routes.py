"""The routes of turns: start, read, wait, stream."""

from __future__ import annotations

from urllib.parse import quote

from starlette.responses import Response

from holdfast.event_log.live.reading import TURN_RESTS, ReadingEnd
from holdfast.event_log.positions import Position
from holdfast.event_log.stream_items import StreamItem
from holdfast.server.access.callers import take_stream, take_turn
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
from holdfast.server.api.session_reading import read_turn
from holdfast.server.api.views import TurnView
from holdfast.server.problem_responses import ProblemError, make_problem


async def start_turn(call: Call[NoQuery, NewTurn]) -> Response:
    """Start a turn, and answer with what is asked for: at once, after a wait, or with its stream."""
    tenant, body = call.tenant, call.body
    keywords = make_keywords(tenant.agent(body.agent), body, call.service.allow_models)
    take_turn(call.request)
    if call.accepts(EVENT_STREAM):
        take_stream(call.request)
    keywords["by"] = call.principal.name
    keywords["request"] = call.request.headers.get("Idempotency-Key")
    message, output = await make_prompt(call, body.message), make_output(body)
    accepted = await tenant.start(body.agent, message, output, **keywords)
    session, number = accepted.session, accepted.number
    headers = {"Location": locate_turn(call, session, number)}
    if call.accepts(EVENT_STREAM):
        begin, end, idle = Position(accepted.sequence), ReadingEnd(number), SECONDS_BETWEEN_COMMENTS
        batches = tenant.reader.follow_batches(session, begin, end, idle)
        return EventStreamResponse(batches, headers)
    if body.wait:
        await tenant.reader.wait_for_rest(session, number, body.wait)
    turn = await read_turn(tenant, session, number)
    return respond(turn, 200 if turn.status in TURN_RESTS else 202, headers)


async def read_one_turn(call: Call[TurnQuery, NoBody]) -> Response:
    """Read a turn, after a wait for its end if one is asked for."""
    number = parse_number(call.names["turn"])
    await call.tenant.last_turn(call.session)
    if call.query.wait:
        await call.tenant.reader.wait_for_rest(call.session, number, call.query.wait)
    return respond(await read_turn(call.tenant, call.session, number))


def locate_turn(call: Call[NoQuery, NewTurn], session: str, number: int) -> str:
    """Return the path of a turn."""
    root = quote(str(call.request.scope.get("root_path", "")))
    return f"{root}/sessions/{quote(session, safe='')}/turns/{number}"


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
        handle=start_turn,
        query=NoQuery,
        body=NewTurn,
        carries="json",
        answers={
            200: (
                OperationAnswer(TurnView, "The turn, which has ended or waits for an answer."),
                _STREAM,
            ),
            202: (OperationAnswer(TurnView, "The turn, which is in progress."),),
        },
        refusals=(404, 409),
        once="turn",
    ),
    Operation(
        name="read_turn",
        method="GET",
        path="/sessions/{session}/turns/{turn}",
        text="Read a turn: status, text, output, usage, error, questions.",
        scope="read",
        handle=read_one_turn,
        query=TurnQuery,
        body=NoBody,
        answers={200: (OperationAnswer(TurnView, "The turn."),)},
        refusals=(404,),
    ),
)
"""What can be done with turns."""
