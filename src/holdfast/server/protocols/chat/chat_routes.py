"""The routes of Chat Completions: start or continue a run, and list the agents as models."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

import msgspec
from msgspec import Struct
from starlette.responses import Response

from holdfast.core.client_tools import ClientToolResult
from holdfast.resilience.system_clock import new_run_id
from holdfast.runtime.arguments.run_keywords import RunKeywords
from holdfast.runtime.turn_state.turn_input import BEGINNINGS
from holdfast.server.access.budgets import READS, STARTS
from holdfast.server.access.callers import (
    set_last_event,
    take_further_turn,
    take_stream,
    take_turn,
)
from holdfast.server.api.idempotency import read_key
from holdfast.server.api.operations import AnyOperation, Call, Operation, respond
from holdfast.server.api.request_bodies import NoBody, NoQuery
from holdfast.server.api.request_reading import read_on_disconnect
from holdfast.server.problem_body import ProblemBody
from holdfast.server.problem_responses import ProblemError
from holdfast.server.protocols.chat.chat_bodies import ChatMessage, ChatRequest, ToolMessage
from holdfast.server.protocols.chat.chat_input import (
    FIELDS,
    make_client_tools,
    make_output,
    make_settings,
    read_text,
    to_messages,
)
from holdfast.server.protocols.chat.projection import ChatFailure, ChatProjection, find_failure
from holdfast.server.protocols.client_results import GivenAnswers, give_answers, require_agent
from holdfast.server.protocols.content_parts import refuse
from holdfast.server.protocols.continuation import find_segment, note_history, was_sent
from holdfast.server.protocols.openai_http import (
    DONE,
    HeldResponse,
    SilentEndError,
    add_notes,
    encode_event,
    hold_turn,
    leaving,
    refuse_cut,
    releasing,
    stream_events,
    to_openai_error,
)
from holdfast.server.protocols.openai_shapes import DELETED, REQUEST_KEY, SegmentName, read_call_id
from holdfast.server.protocols.request_arguments import (
    check_output,
    digest_body,
    named_as,
)
from holdfast.server.protocols.segments import SegmentCut
from holdfast.server.protocols.turn_reading import SavedTurn, TurnReading

_FIELDS = {
    "JsonSchema.schema": "response_format.json_schema.schema",
    "history": "messages",
    "prompt": "messages",
}
"""How the request names the arguments of a run."""

_STATUSES = {"rate_limit_exceeded": 429, DELETED: 410}
"""The statuses of failures; that of all others is 500."""

ChatCall = Call[NoQuery, ChatRequest]


class ChatTarget(Struct, frozen=True):
    """The segment that answers a request, and its turn.

    Args:
        name: the segment.
        saved: its turn.
        differs: whether the run goes on with a history that is not that of the request.
    """

    name: SegmentName
    saved: SavedTurn
    differs: bool = False


async def complete_chat(call: ChatCall) -> Response:
    """Answer with a run of its own, or with the continuation of the run that waits for results."""
    request = call.body
    strict = call.tenant.strict_fields
    dropped = FIELDS.check(request, await call.request.body(), strict=strict)
    take_stream(call.request)
    # Results of calls that are not ours are the end of a history that began elsewhere.
    has_results = any(
        read_call_id(one.tool_call_id) is not None for one in _list_last_results(request.messages)
    )
    held = None if has_results else await hold_turn(call)
    may_repeat = has_results or read_key(call.request) is not None
    reading = TurnReading(call.tenant, held, may_repeat=may_repeat, comes_back=False)
    with releasing(held):
        with named_as(_FIELDS):
            act = _continue_run if has_results else _start_run
            target = await act(call, reading)
        response = await _respond(call, reading, target)
    add_notes(response, dropped, differs=target.differs)
    return response if held is None else HeldResponse(response, held, lambda: reading.has_ended)


async def _respond(call: ChatCall, reading: TurnReading, target: ChatTarget) -> Response:
    request = call.body
    options = request.stream_options
    projection = ChatProjection(
        target.name, has_usage=bool(options is not None and options.include_usage)
    )
    if request.stream:
        set_last_event(call.request, _make_last_event)
        return stream_events(_stream(reading, target, projection))
    async with leaving(call, target.saved.segmented.opened):
        return await _complete(reading, target, projection)


async def _start_run(call: ChatCall, reading: TurnReading) -> ChatTarget:
    request, tenant, held = call.body, call.tenant, reading.held
    messages = to_messages(request.messages)
    agent = require_agent(tenant, request.model)
    if messages[-1].role not in BEGINNINGS:
        detail = "must end with a message of the user or the system, or with results of tools"
        raise refuse("messages", detail)
    output = make_output(request.response_format)
    check_output(agent, output, "response_format")
    body = digest_body(await call.request.body())
    noted = {"history": msgspec.to_builtins(note_history(messages)), "body": body}
    key = read_key(call.request)
    request_name = f"chat:{key}" if key else None
    keywords: RunKeywords[Any] = {
        "session": new_run_id(),
        "history": messages[:-1],
        "settings": make_settings(request),
        "tools": make_client_tools(request.tools),
        "metadata": {
            **(request.metadata or {}),
            **read_on_disconnect(call.request),
            REQUEST_KEY: noted,
        },
        "request": request_name if held is None else held.name,
        "by": call.principal.name,
    }
    if held is None or not held.is_joined:
        take_turn(call.request)
    return ChatTarget(*await reading.start(request.model, messages[-1], output, **keywords))


async def _continue_run(call: ChatCall, reading: TurnReading) -> ChatTarget:
    """Give the results at the end of a request to the run that waits for them.

    The ids of the calls find the run. It goes on with its own history, whatever the request has before.
    """
    results = list(_list_last_results(call.body.messages))
    name, values = _read_results(results)
    saved = await reading.find_turn(name.session, name.turn)
    number = None if saved is None else find_segment(saved.segmented, frozenset(values))
    if saved is None or number is None:
        raise _refuse_results("these are not the results that a run waits for")
    if saved.segmented.opened.agent != call.body.model:
        raise refuse("model", f"the run that waits is of {saved.segmented.opened.agent!r}")
    asked = SegmentName(name.session, name.turn, number)
    given = GivenAnswers(asked, values, "messages", call.principal.name)
    take_further_turn(call.request, is_driven=call.tenant.runner.is_driven(name.session))
    following, after = await give_answers(call.tenant, reading, given)
    return ChatTarget(following, after, _differs(saved, asked, call.body.messages))


def _list_last_results(messages: Sequence[ChatMessage]) -> Iterator[ToolMessage]:
    """Yield the results at the end of a request, the last one first."""
    for message in reversed(messages):
        if not isinstance(message, ToolMessage):
            return
        yield message


def _differs(saved: SavedTurn, asked: SegmentName, messages: Sequence[ChatMessage]) -> bool:
    """Whether the messages before the results are not those that the run has."""
    try:
        *before, _ = to_messages(messages)
    except ProblemError:
        return True  # they were trimmed, for instance
    return not was_sent(saved.segmented, asked.session, asked.segment, before)


def _read_results(results: list[ToolMessage]) -> tuple[SegmentName, dict[str, ClientToolResult]]:
    """Return the turn that asked for results, and the results by the keys of the questions."""
    found = [(read_call_id(one.tool_call_id), one) for one in results]
    sessions = {None if named is None else named.session for named, _ in found}
    session = sessions.pop()
    if session is None or sessions:
        raise refuse("messages", "a tool_call_id is not known, or of another run", "unknown_call")
    values = {
        named.place: ClientToolResult(read_text(one.content))
        for named, one in found
        if named is not None
    }
    if len(values) < len(results):
        raise refuse("messages", "has two results of one call")
    turns = {key.partition(".")[0].removeprefix("t") for key in values}
    turn = turns.pop()
    if turns or not turn.isdecimal():
        raise refuse("messages", "the results are of several turns", "unknown_call")
    return SegmentName(session, int(turn)), values


def _refuse_results(detail: str) -> ProblemError:
    return refuse("messages", detail, "unknown_call")


async def _stream(
    reading: TurnReading, target: ChatTarget, projection: ChatProjection
) -> AsyncIterator[bytes]:
    async for event in reading.follow(target.name, target.saved):
        for told in projection.feed(event):
            if isinstance(told, ChatFailure):
                yield encode_event(told.to_json())
                return
            yield encode_event(told)
    if not projection.finish:
        raise SilentEndError(target.name)
    yield DONE


def _make_last_event(problem: ProblemBody) -> bytes:
    return encode_event(to_openai_error(msgspec.to_builtins(problem)))


async def _complete(
    reading: TurnReading, target: ChatTarget, projection: ChatProjection
) -> Response:
    async for event in reading.follow(target.name, target.saved, is_streamed=False):
        failure = find_failure(projection.feed(event))
        if failure is not None and type(event) is SegmentCut and failure.code != DELETED:
            break
        if failure is not None:
            status = _STATUSES.get(failure.code, 500)
            return respond(failure.to_json(), status, {"x-should-retry": "false"})
    if not projection.finish:
        detail = "The service stops. The run goes on, and can be read."
        raise refuse_cut(detail, may_repeat=reading.may_repeat)
    return respond(projection.build_completion())


async def list_models(call: Call[NoQuery, NoBody]) -> Response:
    """List the agents as models."""
    return respond({"object": "list", "data": [_to_model(name) for name in call.tenant.names]})


async def read_model(call: Call[NoQuery, NoBody]) -> Response:
    """Read one agent as a model."""
    require_agent(call.tenant, call.names["model"])
    return respond(_to_model(call.names["model"]))


def _to_model(name: str) -> dict[str, object]:
    return {"id": name, "object": "model", "created": 0, "owned_by": "holdfast"}


OPERATIONS: tuple[AnyOperation, ...] = (
    Operation(
        name="complete_chat",
        method="POST",
        path="/chat/completions",
        text="Complete a chat with an agent.",
        scope="run",
        takes=STARTS,
        handle=complete_chat,
        query=NoQuery,
        body=ChatRequest,
        carries="json",
        once="turn",
    ),
    Operation(
        name="list_models",
        method="GET",
        path="/models",
        text="List the agents as models.",
        scope="read",
        takes=READS,
        handle=list_models,
        query=NoQuery,
        body=NoBody,
    ),
    Operation(
        name="read_model",
        method="GET",
        path="/models/{model}",
        text="Read one agent as a model.",
        scope="read",
        takes=READS,
        handle=read_model,
        query=NoQuery,
        body=NoBody,
    ),
)
"""The operations of Chat Completions."""
