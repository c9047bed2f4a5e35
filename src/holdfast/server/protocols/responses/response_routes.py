"""The routes of Responses: create, read, stream from a number, cancel and delete; and conversations."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence

from starlette.requests import Request
from starlette.responses import Response

from holdfast.core.turn_options import copy_metadata
from holdfast.event_log.live.reading import TURN_ENDED
from holdfast.event_log.positions import Position
from holdfast.event_log.stream_items import EndItem
from holdfast.event_log.text_fold import TextFold
from holdfast.hosting.tenant_service import TenantService, new_act
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
    ConversationChange,
    ItemsQuery,
    NewConversation,
    ResponseQuery,
    ResponseRequest,
)
from holdfast.server.protocols.responses.response_input import FIELDS, read_input
from holdfast.server.protocols.responses.response_object import RESPONSE, Json, make_input_items
from holdfast.server.protocols.responses.response_targets import (
    ResponseCall,
    ResponseTarget,
    choose_target,
)
from holdfast.server.protocols.segments import SegmentFold
from holdfast.server.protocols.turn_reading import SavedTurn, TurnReading

ReadCall = Call[ResponseQuery, NoBody]
PlainCall = Call[NoQuery, NoBody]

CONVERSATION = "conversation"
"""The act by which a conversation is named, and its metadata changed."""

_MOST_ACTS = 1_000  # on one session, of which the latest that names a conversation counts
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
    is_new = request.previous_response_id is None and request.conversation is None
    given = read_input(request.input, is_new=is_new)
    held = None if given.has_answers else await hold_turn(call)
    may_repeat = given.has_answers or read_key(call.request) is not None
    comes_back = bool(request.background)
    reading = TurnReading(call.tenant, held, may_repeat=may_repeat, comes_back=comes_back)
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


async def list_input_items(call: Call[ItemsQuery, NoBody]) -> Response:
    """List the items of the request that a response answers."""
    name = read_segment_name(RESPONSE, call.names["response"])
    saved = await TurnReading(call.tenant).require_segment(name, "response_id")
    assert name is not None  # noqa: S101  # REASON: require_segment raises for it
    return _respond_items(make_input_items(name, saved.segmented), call.query)


async def create_conversation(call: Call[NoQuery, NewConversation]) -> Response:
    """Name a conversation. It begins with its first response."""
    if call.body.items:
        raise refuse("items", "are not taken; send them with the first response")
    session, metadata = f"conv_{new_run_id()}", copy_metadata(call.body.metadata or {})
    act = new_act(CONVERSATION, session, by=call.principal.name, metadata=metadata)
    await call.tenant.journal.save_act(act)
    return respond(_describe_conversation(session, act.at, metadata))


async def read_conversation(call: PlainCall) -> Response:
    """Read what is known of a conversation besides its items."""
    return respond(await _require_conversation(call.tenant, call.names["conversation"]))


async def change_conversation(call: Call[NoQuery, ConversationChange]) -> Response:
    """Change the metadata of a conversation."""
    session = call.names["conversation"]
    found = await _require_conversation(call.tenant, session)
    metadata = copy_metadata(call.body.metadata)
    act = new_act(CONVERSATION, session, by=call.principal.name, metadata=metadata)
    await call.tenant.journal.save_act(act)
    return respond({**found, "metadata": metadata})


async def delete_conversation(call: PlainCall) -> Response:
    """Delete a conversation with all its responses."""
    session = call.names["conversation"]
    await _require_conversation(call.tenant, session)
    act = call.make_act("delete", session)
    if await call.tenant.reader.find_last_turn(session) is not None:
        await call.tenant.sessions.with_act(act).delete(session)
        call.tenant.watch.wake(session)
    else:  # only its name and its metadata are there, in acts
        await call.tenant.journal.delete(session, act=act)
    return respond({"id": session, "object": "conversation.deleted", "deleted": True})


async def list_conversation_items(call: Call[ItemsQuery, NoBody]) -> Response:
    """List the items of a conversation."""
    session = call.names["conversation"]
    await _require_conversation(call.tenant, session)
    return _respond_items(await _read_items(call.tenant, session), call.query)


async def read_conversation_item(call: PlainCall) -> Response:
    """Read one item of a conversation."""
    session = call.names["conversation"]
    await _require_conversation(call.tenant, session)
    for item in await _read_items(call.tenant, session):
        if item["id"] == call.names["item"]:
            return respond(item)
    raise _refuse_unknown("item", "item_id")


async def refuse_items(_call: PlainCall) -> Response:
    """Refuse to add items to a conversation without a response."""
    detail = "items are added by a response alone"
    fix = "Send them as the input of the next response, with this conversation"
    raise ProblemError(make_problem(404, "not_served", detail, fix=fix))


async def _require_conversation(tenant: TenantService, session: str) -> dict[str, object]:
    """Return a conversation that was named or has begun. Raises ProblemError with 404."""
    acts = await tenant.journal.list_acts(session, _MOST_ACTS)
    named = [act for act in acts if act.act == CONVERSATION]
    details = named[-1].read_details() if named else {}
    entries = await tenant.journal.find_runs(session, session)
    if not entries and not named:
        raise _refuse_unknown("conversation", "conversation_id")
    at = min([*(one.opened_at for one in entries), *(act.at for act in named)])
    metadata = details.get("metadata")
    return _describe_conversation(session, at, metadata if isinstance(metadata, dict) else {})


def _describe_conversation(
    session: str, at: float, metadata: Mapping[str, object]
) -> dict[str, object]:
    kind = {"object": "conversation", "created_at": int(at)}
    return {"id": session, **kind, "metadata": dict(metadata)}


def _refuse_unknown(what: str, field: str) -> ProblemError:
    return ProblemError(make_problem(404, "not_found", f"There is no such {what}.", field=field))


async def _read_items(tenant: TenantService, session: str) -> list[Json]:
    """Return the items of a conversation, the oldest first: of each turn the input, and what was answered."""
    items: list[Json] = []
    for turn, saved in await TurnReading(tenant).list_turns(session):
        for number in range(len(saved.segmented.segments)):
            name = SegmentName(session, turn, number)
            items += make_input_items(name, saved.segmented)
            items += _read_output(name, saved)
    return items


def _read_output(name: SegmentName, saved: SavedTurn) -> list[Json]:
    """Return the items of a response as the journal has them."""
    hold = "accepted" if saved.hold == "no" else saved.hold
    fold, texts = SegmentFold(name.segment, hold, saved.segmented.void), TextFold(Position())
    projection = ResponseProjection(name)
    # A turn that waits has no event that ends its segment.
    streamed = (item for event in saved.events for item in texts.feed(event))
    for item in (*streamed, EndItem("", "turn_ended")):
        for told in fold.feed(item):
            for _ in projection.feed(told):
                pass
    return projection.output


def _respond_items(items: Sequence[Json], query: ItemsQuery) -> Response:
    """Return a page of items."""
    ordered = list(items) if query.order == "asc" else list(reversed(items))
    if query.after:
        places = [at for at, item in enumerate(ordered) if item["id"] == query.after]
        if not places:
            raise refuse("after", "is not the id of an item of this list")
        ordered = ordered[places[0] + 1 :]
    page = ordered[: query.limit]
    ids = [item["id"] for item in page]
    return respond(
        {
            "object": "list",
            "data": page,
            "first_id": ids[0] if ids else None,
            "last_id": ids[-1] if ids else None,
            "has_more": len(ordered) > len(page),
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
    Operation(
        name="list_input_items",
        method="GET",
        path="/responses/{response}/input_items",
        text="List the input of a response.",
        scope="read",
        takes=READS,
        handle=list_input_items,
        query=ItemsQuery,
        body=NoBody,
    ),
    Operation(
        name="read_conversation",
        method="GET",
        path="/conversations/{conversation}",
        text="Read a conversation.",
        scope="read",
        takes=READS,
        handle=read_conversation,
        query=NoQuery,
        body=NoBody,
    ),
    Operation(
        name="change_conversation",
        method="POST",
        path="/conversations/{conversation}",
        text="Change the metadata of a conversation.",
        scope="run",
        takes=READS,
        handle=change_conversation,
        query=NoQuery,
        body=ConversationChange,
        carries="json",
        once="answer",
    ),
    Operation(
        name="delete_conversation",
        method="DELETE",
        path="/conversations/{conversation}",
        text="Delete a conversation.",
        scope="run",
        takes=READS,
        handle=delete_conversation,
        query=NoQuery,
        body=NoBody,
    ),
    Operation(
        name="list_conversation_items",
        method="GET",
        path="/conversations/{conversation}/items",
        text="List the items of a conversation.",
        scope="read",
        takes=READS,
        handle=list_conversation_items,
        query=ItemsQuery,
        body=NoBody,
    ),
    Operation(
        name="read_conversation_item",
        method="GET",
        path="/conversations/{conversation}/items/{item}",
        text="Read an item of a conversation.",
        scope="read",
        takes=READS,
        handle=read_conversation_item,
        query=NoQuery,
        body=NoBody,
    ),
    Operation(
        name="add_conversation_items",
        method="POST",
        path="/conversations/{conversation}/items",
        text="Is not served.",
        scope="run",
        takes=READS,
        handle=refuse_items,
        query=NoQuery,
        body=NoBody,
    ),
)
"""The operations of Responses."""
