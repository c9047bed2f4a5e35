"""The routes of a chat: `POST /vercel/{agent}/chat`, and those below it.

A connection that ends cancels nothing; `POST .../stop` does.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from typing import Final

from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import BaseRoute, Route

from holdfast.core.client_tools import ClientToolQuestion
from holdfast.core.questions import (
    AnyAnswer,
    AnyQuestion,
    ContinuationQuestion,
    PermissionQuestion,
    restore_answer,
)
from holdfast.event_log.display.display_items import StreamCut
from holdfast.event_log.live.reading import TURN_ENDED
from holdfast.hosting.bound_agents import plan_of
from holdfast.hosting.tenant_service import TenantService, unknown_session
from holdfast.journal.encoding import to_json
from holdfast.server.access.budgets import READS, STARTS
from holdfast.server.access.callers import set_last_event
from holdfast.server.access.principals import Scope
from holdfast.server.api.event_stream import HEADERS, keep_alive
from holdfast.server.api.request_reading import read_wishes
from holdfast.server.problem_body import ProblemBody
from holdfast.server.problem_responses import ProblemError, make_problem
from holdfast.server.protocols.entering import (
    Entered,
    ProtocolRoute,
    RouteTable,
    check_request,
    dispatch,
    enter,
    find_asked,
    find_questions,
    read_json,
)
from holdfast.server.protocols.session_turns import (
    OpenedTurn,
    TurnStart,
    find_message,
    list_turns,
    show_turn,
    start_once,
)
from holdfast.server.protocols.vercel.chat_request import (
    ContinueTurn,
    GivenAnswer,
    VercelMessageSent,
    VercelRequest,
    read_chat,
)
from holdfast.server.protocols.vercel.projection import VercelProjection
from holdfast.server.protocols.vercel.provider_chunks import Chunk
from holdfast.server.protocols.vercel.ui_messages import read_history

_HEADERS = {**HEADERS, "x-vercel-ai-ui-message-stream": "v1"}
_DONE = b"data: [DONE]\n\n"


async def answer(request: Request) -> Response:
    """Answer a request below `/vercel`."""
    return await dispatch(request, ROUTES)


async def post_chat(request: Request, agent: str) -> Response:
    """`POST /{agent}/chat`: send a message, ask for another answer, or answer questions."""
    body = await read_json(request, VercelRequest)
    act = read_chat(body)
    scope: Scope = "run" if isinstance(act, VercelMessageSent) else "answer"
    entered = enter(request, scope, starts=scope == "run", streams=True)
    set_last_event(request, _make_last_event)
    await check_request(request, entered)
    entered.tenant.agent(agent)
    if isinstance(act, VercelMessageSent):
        turn = await _send_message(entered, agent, body, act, read_wishes(request))
        return _stream(entered.tenant, agent, body.id, turn)
    turn = await _find_turn(entered.tenant, body.id, act.turn)
    await _answer(entered, body.id, act)
    after = turn.sequence if act.sequence is None else act.sequence
    return _stream(entered.tenant, agent, body.id, turn, after)


async def get_stream(request: Request, agent: str, session: str) -> Response:
    """`GET /{agent}/chat/{id}/stream`: the turn in progress from its beginning; 204 if there is none.

    With `?ended=replay`, the last turn is sent also if it has ended.
    """
    tenant = enter(request, "read", streams=True).tenant
    set_last_event(request, _make_last_event)
    tenant.agent(agent)
    latest = await tenant.reader.find_last_turn(session)
    wants_ended = request.query_params.get("ended") == "replay"
    if latest is None or not latest.turn or (latest.status in TURN_ENDED and not wants_ended):
        return Response(status_code=204)
    turn = await _find_turn(tenant, session, latest.turn)
    return _stream(tenant, agent, session, turn) if turn.counts else Response(status_code=204)


async def get_chat(request: Request, agent: str, session: str) -> Response:
    """`GET /{agent}/chat/{id}`: the messages of a chat, as `useChat({messages})` takes them."""
    tenant = enter(request, "read").tenant
    static = static_tools(tenant, agent)
    records = await tenant.journal.read(session)
    if not records:
        raise unknown_session(session)
    messages = read_history(session, records, static)
    return Response(to_json({"id": session, "messages": messages}), media_type="application/json")


async def post_stop(request: Request, agent: str, session: str) -> Response:
    """`POST /{agent}/chat/{id}/stop`: cancel the turn in progress."""
    entered = enter(request, "run")
    await check_request(request, entered)
    tenant = entered.tenant
    tenant.agent(agent)
    latest = await tenant.last_turn(session)
    if latest.status not in TURN_ENDED:
        await tenant.cancel(session, by=entered.name, turn=latest.turn)
    return Response(status_code=204)


async def _send_message(
    entered: Entered,
    agent: str,
    body: VercelRequest,
    act: VercelMessageSent,
    wish: Mapping[str, object],
) -> OpenedTurn:
    """Start a turn, or find the one that the message has started."""
    new = TurnStart(
        agent=agent,
        session=body.id,
        message=act.message,
        message_id=act.message_id,
        metadata=wish,
        tools=tuple(body.tools),
        by=entered.name,
    )
    tenant = entered.tenant
    turns = await list_turns(tenant, body.id)
    known = find_message(turns, act.message_id)
    if known is None:
        return await start_once(tenant, new)
    is_last = known is turns[-1]
    if act.regenerates:
        # It is answered again already, or is being answered again by the same wish.
        is_over = (await tenant.last_turn(body.id)).status in TURN_ENDED
        is_done = known.number > act.turn if act.turn else is_last and not is_over
    else:
        is_done = known.message == act.message and (is_last or not act.is_edit)
    return known if is_done else await start_once(tenant, replace(new, replaces=known.number))


async def _find_turn(tenant: TenantService, session: str, number: int) -> OpenedTurn:
    for turn in await list_turns(tenant, session):
        if turn.number == number:
            return turn
    raise unknown_session(session)


async def _answer(entered: Entered, session: str, act: ContinueTurn) -> None:
    """Answer open questions. An answer to one that is answered already changes nothing."""
    questions = await find_questions(entered.tenant, session)
    found = [(find_asked(questions, given.id), given) for given in act.answers]
    answers = [
        _make_answer(asked, given, entered.name) for asked, given in found if asked is not None
    ]
    for one in answers:
        await entered.tenant.answer(session, one)


def _make_answer(question: AnyQuestion, given: GivenAnswer, by: str) -> AnyAnswer:
    if isinstance(question, PermissionQuestion | ContinuationQuestion):
        if given.kind != "approval":
            problem = make_problem(422, "answer_type", "the answer is yes or no", field=given.id)
            raise ProblemError(problem)
        if given.approved:
            return question.approve(by=by)
        return question.deny(given.reason, by=by) if given.reason else question.deny(by=by)
    if isinstance(question, ClientToolQuestion):
        text = given.value if isinstance(given.value, str) else to_json(given.value).decode()
        return question.give(text, is_error=given.kind == "error", by=by)
    return question.answer(restore_answer(question, given.value), by=by)


def static_tools(tenant: TenantService, agent: str) -> frozenset[str]:
    """Return the names of the tools that an agent always has."""
    return frozenset(spec.name for spec in plan_of(tenant.agent(agent)).registry.specs)


def _stream(
    tenant: TenantService, agent: str, session: str, turn: OpenedTurn, after: int | None = None
) -> Response:
    """Return the response that streams a turn.

    Args:
        tenant: the tenant.
        agent: the name of the agent.
        session: the session.
        turn: the turn.
        after: the number of records that the client has seen; None sends the turn from its beginning.
    """
    projection = VercelProjection(session, turn.number, static_tools(tenant, agent))
    chunks = _format_turn(tenant, projection, turn, after)
    pieces = keep_alive(_encode(chunks))
    return StreamingResponse(pieces, media_type="text/event-stream", headers=_HEADERS)


async def _format_turn(
    tenant: TenantService, projection: VercelProjection, turn: OpenedTurn, after: int | None
) -> AsyncGenerator[Chunk]:
    yield projection.start()
    async with aclosing(show_turn(tenant, projection.session, turn, after)) as shown:
        async for item, position, is_new in shown:
            for chunk in projection.feed(item, position):
                if is_new:
                    yield chunk
            if isinstance(item, StreamCut):
                return


async def _encode(chunks: AsyncGenerator[Chunk]) -> AsyncIterator[bytes]:
    async with aclosing(chunks):
        async for chunk in chunks:
            yield b"data: %s\n\n" % to_json(chunk)
    yield _DONE


def _make_last_event(problem: ProblemBody) -> bytes:
    return b"data: %s\n\n" % to_json({"type": "error", "errorText": problem.detail}) + _DONE


ROUTES: Final[RouteTable] = {
    ("POST", "/{agent}/chat"): ProtocolRoute(post_chat, STARTS),
    ("GET", "/{agent}/chat/{session}"): ProtocolRoute(get_chat, READS),
    ("GET", "/{agent}/chat/{session}/stream"): ProtocolRoute(get_stream, ("requests", "streams")),
    ("POST", "/{agent}/chat/{session}/stop"): ProtocolRoute(post_stop, READS),
}
"""The routes below `/vercel`."""


def routes() -> Sequence[BaseRoute]:
    """Return the routes below `/vercel`."""
    return [Route("/{path:path}", answer, methods=["GET", "POST"])]
