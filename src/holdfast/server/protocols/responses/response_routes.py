"""The routes of Responses: create, read, stream from a number, cancel and delete; and conversations."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator

from starlette.requests import Request
from starlette.responses import Response

from holdfast.event_log.live.reading import TURN_ENDED
from holdfast.resilience.system_clock import new_run_id
from holdfast.server.access.budgets import READS, STARTS
from holdfast.server.access.callers import set_last_event, take_stream
from holdfast.server.api.idempotency import read_key
from holdfast.server.api.operations import AnyOperation, Call, Operation, respond
from holdfast.server.api.request_bodies import NoBody, NoQuery
from holdfast.server.problem_body import ProblemBody
from holdfast.server.problem_responses import ProblemError, make_problem
from holdfast.server.protocols.content_parts import refuse
from holdfast.server.protocols.openai_http import (
    INVALID_KEY,
    HeldResponse,
    SilentEndError,
    add_notes,
    encode_event,
    hold_turn,
    leaving,
    refuse_cut,
    releasing,
    stream_events,
)
from holdfast.server.protocols.openai_shapes import SegmentName, read_segment_name
from holdfast.server.protocols.request_arguments import named_as
from holdfast.server.protocols.responses.projection import ResponseProjection
from holdfast.server.protocols.responses.response_bodies import (
    NewConversation,
    ResponseQuery,
    ResponseRequest,
)
from holdfast.server.protocols.responses.response_input import FIELDS, read_input
from holdfast.server.protocols.responses.response_object import RESPONSE
from holdfast.server.protocols.responses.response_targets import (
    ResponseCall,
    ResponseTarget,
    choose_target,
)
from holdfast.server.protocols.turn_reading import TurnReading

ReadCall = Call[ResponseQuery, NoBody]
PlainCall = Call[NoQuery, NoBody]

_SECONDS_FOR_CANCEL = 10.0
_FIELDS = {
    "JsonSchema.schema": "text.format.schema",
    "history": "input",
    "prompt": "input",
    "session": "conversation",
    "settings.max_tokens": "max_output_tokens",
    "settings.reasoning_effort": "reasoning.effort",
}
"""How the request names the arguments of a turn."""


async def create_response(call: ResponseCall) -> Response:
    """Answer with a turn, or with the continuation of one that waits."""
    request = call.body
    strict = call.tenant.strict_fields
    dropped = FIELDS.check(request, await call.request.body(), strict=strict)
    take_stream(call.request)
    given = read_input(request.input)
    held = None if given.has_answers else await hold_turn(call)
    may_repeat = given.has_answers or read_key(call.request) is not None
    reading = TurnReading(call.tenant, held, may_repeat=may_repeat)
    with releasing(held):
        with named_as(_FIELDS):
            target = await choose_target(call, reading, given)
        response = await _respond(call, reading, target)
    add_notes(response, dropped, differs=target.differs)
    if held is None:
        return response
    # In the background the response as it stands is the whole answer.
    is_at_once = bool(request.background) and not request.stream
    return HeldResponse(response, held, lambda: is_at_once or reading.has_ended)


async def _respond(call: ResponseCall, reading: TurnReading, target: ResponseTarget) -> Response:
    request = call.body
    if request.stream:
        return _respond_stream(call.request, reading, target, None)
    if request.background:
        return await _respond_now(reading, target)
    projection = ResponseProjection(target.name)
    async with leaving(call, target.saved.segmented.opened):
        async for event in reading.follow(target.name, target.saved, is_streamed=False):
            for _ in projection.feed(event):
                pass
    if projection.is_cut or not projection.is_over:
        detail = f"The service stops. The run goes on: read {target.name.to_id(RESPONSE)}."
        raise refuse_cut(detail, may_repeat=reading.may_repeat)
    return respond(projection.response)


async def read_response(call: ReadCall) -> Response:
    """Read a response as it stands, or stream it from its beginning or after a number."""
    reading = TurnReading(call.tenant)
    target = await _require_target(call, reading)
    if call.query.stream:
        take_stream(call.request)
        return _respond_stream(call.request, reading, target, call.query.starting_after)
    if call.query.starting_after is not None:
        raise refuse("starting_after", "needs stream=true")
    return await _respond_now(reading, target)


async def cancel_response(call: PlainCall) -> Response:
    """Cancel the turn of a response, if this response is in progress."""
    reading = TurnReading(call.tenant)
    target = await _require_target(call, reading)
    session = target.name.session
    last = await call.tenant.last_turn(session)
    is_last = target.name.segment == len(target.saved.segmented.segments) - 1
    if last.turn == target.name.turn and is_last and last.status not in TURN_ENDED:
        await call.tenant.cancel(session, by=call.principal.name, turn=last.turn)
        await call.tenant.runner.wait(session, _SECONDS_FOR_CANCEL)
    return await _respond_now(reading, target)


async def delete_response(call: PlainCall) -> Response:
    """Delete a response that is alone in its session."""
    target = await _require_target(call, TurnReading(call.tenant))
    if target.name.turn != 1 or target.saved.latest != 1:
        detail = "it is part of a conversation; delete the session instead"
        raise ProblemError(make_problem(409, "conflict", detail, field="response_id"))
    act = call.make_act("delete", target.name.session)
    await call.tenant.sessions.with_act(act).delete(act.session)
    call.tenant.watch.wake(act.session)
    response_id = target.name.to_id(RESPONSE)
    return respond({"id": response_id, "object": "response", "deleted": True})


async def create_conversation(call: Call[NoQuery, NewConversation]) -> Response:
    """Name a conversation. It begins with its first response."""
    if call.body.items:
        raise refuse("items", "are not taken; send them with the first response")
    return respond(
        {
            "id": f"conv_{new_run_id()}",
            "object": "conversation",
            "created_at": int(time.time()),
            "metadata": call.body.metadata or {},
        }
    )


async def refuse_compaction(_call: PlainCall) -> Response:
    """Refuse to compact the items that a client keeps, and name the route that compacts a session."""
    detail = "items that a client keeps are not compacted here"
    fix = "Compact the session: POST /api/v1/sessions/{session}/compact"
    raise ProblemError(make_problem(404, "not_served", detail, fix=fix))


async def _require_target(call: ReadCall | PlainCall, reading: TurnReading) -> ResponseTarget:
    name: SegmentName | None = read_segment_name(RESPONSE, call.names["response"])
    saved = await reading.require_segment(name, "response_id")
    assert name is not None  # noqa: S101  # REASON: require_segment raises for it
    return ResponseTarget(name, saved)


async def _respond_now(reading: TurnReading, target: ResponseTarget) -> Response:
    """Return the response as the journal has it."""
    projection = ResponseProjection(target.name)
    for event in await reading.read(target.name, target.saved):
        for _ in projection.feed(event):
            pass
    return respond(projection.response)


def _respond_stream(
    request: Request, reading: TurnReading, target: ResponseTarget, after: int | None
) -> Response:
    projection = ResponseProjection(target.name, after)

    def make_last(problem: ProblemBody) -> bytes:
        return encode_event(projection.make_error(INVALID_KEY, problem.detail), is_named=True)

    set_last_event(request, make_last)
    return stream_events(_stream(reading, target, projection))


async def _stream(
    reading: TurnReading, target: ResponseTarget, projection: ResponseProjection
) -> AsyncIterator[bytes]:
    async for event in reading.follow(target.name, target.saved):
        for told in projection.feed(event):
            yield encode_event(told, is_named=True)
        if projection.is_over:
            return
    raise SilentEndError(target.name)


OPERATIONS: tuple[AnyOperation, ...] = (
    Operation(
        name="create_response",
        method="POST",
        path="/responses",
        text="Create a response of an agent.",
        scope="run",
        takes=STARTS,
        handle=create_response,
        query=NoQuery,
        body=ResponseRequest,
        carries="json",
        once="turn",
    ),
    Operation(
        name="read_response",
        method="GET",
        path="/responses/{response}",
        text="Read or stream a response.",
        scope="read",
        takes=("requests", "streams"),
        handle=read_response,
        query=ResponseQuery,
        body=NoBody,
    ),
    Operation(
        name="cancel_response",
        method="POST",
        path="/responses/{response}/cancel",
        text="Cancel a response.",
        scope="run",
        takes=READS,
        handle=cancel_response,
        query=NoQuery,
        body=NoBody,
        once="answer",
    ),
    Operation(
        name="delete_response",
        method="DELETE",
        path="/responses/{response}",
        text="Delete a response.",
        scope="run",
        takes=READS,
        handle=delete_response,
        query=NoQuery,
        body=NoBody,
    ),
    Operation(
        name="compact_response",
        method="POST",
        path="/responses/compact",
        text="Is not served.",
        scope="run",
        takes=READS,
        handle=refuse_compaction,
        query=NoQuery,
        body=NoBody,
    ),
    Operation(
        name="create_conversation",
        method="POST",
        path="/conversations",
        text="Name a conversation.",
        scope="run",
        takes=READS,
        handle=create_conversation,
        query=NoQuery,
        body=NewConversation,
        carries="optional",
        once="answer",
    ),
)
"""The operations of Responses."""
