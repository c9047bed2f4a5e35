"""The route of AG-UI: `POST /agui/{agent}`.

A connection that ends cancels nothing. A client that runs its agent again without a new message sees
the thread as it is, and its next events.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from typing import Final

from msgspec import Struct
from msgspec.structs import replace
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import BaseRoute, Route

from holdfast.core.client_tools import ClientToolQuestion
from holdfast.core.errors import HoldfastError
from holdfast.core.questions import AnyAnswer, AnyQuestion
from holdfast.event_log.live.reading import TURN_ENDED
from holdfast.event_log.text_fold import turn_of_key
from holdfast.hosting.tenant_service import TenantService
from holdfast.journal.encoding import to_json
from holdfast.server.access.budgets import STARTS
from holdfast.server.access.callers import set_last_event
from holdfast.server.access.principals import Scope
from holdfast.server.api.event_stream import HEADERS, keep_alive
from holdfast.server.api.request_reading import read_wishes
from holdfast.server.problem_body import ProblemBody
from holdfast.server.problem_responses import (
    ProblemError,
    respond_problem,
    to_problem,
)
from holdfast.server.protocols.agui.interrupts import read_resume
from holdfast.server.protocols.agui.message_list import MessageList, list_messages
from holdfast.server.protocols.agui.projection import AguiEvent, AguiProjection
from holdfast.server.protocols.agui.run_input import (
    AguiMessageSent,
    Attach,
    GiveAnswers,
    RunAct,
    RunInput,
    read_context,
    read_metadata,
    read_run,
    read_tools,
)
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
    MESSAGE_ID,
    OpenedTurn,
    TurnStart,
    find_message,
    list_turns,
    show_turn,
    start_once,
    user_message_id,
)


class ShownThread(Struct, frozen=True):
    """The content of a run: a turn, and the messages before it.

    Args:
        turn: the turn; None in a thread without one.
        messages: the messages before.
        after: the number of records that the messages stand for; None if the turn is new.
        with_snapshot: whether the client gets the messages.
    """

    turn: OpenedTurn | None
    messages: MessageList
    after: int | None = None
    with_snapshot: bool = False


async def answer(request: Request) -> Response:
    """Answer a request below `/agui`; an error is an event of AG-UI, too."""
    try:
        return await dispatch(request, ROUTES)
    except ProblemError as error:
        return _refuse(error.problem)
    except HoldfastError as error:
        return _refuse(to_problem(error))


def _refuse(problem: ProblemBody) -> Response:
    response = respond_problem(problem)
    headers = {name: value for name, value in response.headers.items() if name == "retry-after"}
    body = to_json(_make_error(problem))
    return Response(body, problem.status, headers, media_type="application/json")


def _make_error(problem: ProblemBody) -> dict[str, object]:
    place = f"{problem.field}: " if isinstance(problem.field, str) else ""
    fix = f" {problem.fix.rstrip('.')}." if isinstance(problem.fix, str) else ""
    message = f"{place}{problem.detail.rstrip('.')}.{fix}"
    return {"type": "RUN_ERROR", "message": message, "code": problem.kind}


async def _run_agent(request: Request, agent: str) -> Response:
    """`POST /{agent}`: send a message, answer interrupts, give results of tools, or look."""
    given = await read_json(request, RunInput)
    act = read_run(given)
    scopes: dict[type, Scope] = {AguiMessageSent: "run", GiveAnswers: "answer", Attach: "read"}
    starts = isinstance(act, AguiMessageSent)
    entered = enter(request, scopes[type(act)], starts=starts, streams=True)
    set_last_event(request, lambda problem: b"data: %s\n\n" % to_json(_make_error(problem)))
    await check_request(request, entered)
    entered.tenant.agent(agent)
    shown = await _act(entered, agent, given, act, read_wishes(request))
    pieces = keep_alive(_encode(_format_run(entered.tenant, given, shown)))
    return StreamingResponse(pieces, media_type="text/event-stream", headers=HEADERS)


async def _act(
    entered: Entered, agent: str, given: RunInput, act: RunAct, wish: Mapping[str, object]
) -> ShownThread:
    if isinstance(act, AguiMessageSent):
        return await _send_message(entered, agent, given, act, wish)
    if isinstance(act, GiveAnswers):
        shown = await _show_thread(entered.tenant, given.thread_id)
        await _give_answers(entered, given.thread_id, act)
        return shown
    return await _show_thread(entered.tenant, given.thread_id)


async def _show_thread(tenant: TenantService, session: str) -> ShownThread:
    """Return the thread as the journal has it, and its last turn."""
    turns = await list_turns(tenant, session)
    records = await tenant.journal.read(session)
    messages = MessageList(session, list_messages(session, records))
    last = turns[-1] if turns and turns[-1].counts else None
    return ShownThread(last, messages, len(records), with_snapshot=True)


async def _send_message(
    entered: Entered,
    agent: str,
    given: RunInput,
    act: AguiMessageSent,
    wish: Mapping[str, object],
) -> ShownThread:
    """Start a turn, or show the one that the message has started."""
    session = given.thread_id
    new = TurnStart(
        agent=agent,
        session=session,
        message=act.message,
        message_id=act.message_id,
        metadata={**read_metadata(given), **wish},
        tools=read_tools(given),
        instructions=read_context(given),
        by=entered.name,
    )
    tenant = entered.tenant
    turns = await list_turns(tenant, session)
    known = find_message(turns, act.message_id)
    if known is not None:
        is_over = (await tenant.last_turn(session)).status in TURN_ENDED
        if known.message == act.message and not (act.regenerates and is_over):
            return await _show_thread(tenant, session)
        new = replace(new, replaces=known.number)
    turn = await start_once(tenant, new)
    told = [one.get("id") for one in given.messages if one.get("role") == "user"]
    end = new.replaces or turn.number
    if told[:-1] == [_id_of(session, one) for one in turns if one.counts and one.number < end]:
        return ShownThread(turn, MessageList(session, given.messages))
    records = (await tenant.journal.read(session))[: turn.sequence]
    messages = [*list_messages(session, records), given.messages[-1]]
    return ShownThread(turn, MessageList(session, messages), with_snapshot=True)


def _id_of(session: str, turn: OpenedTurn) -> str:
    return user_message_id(session, turn.number, {MESSAGE_ID: turn.message_id})


async def _give_answers(entered: Entered, session: str, act: GiveAnswers) -> None:
    """Answer open questions. An answer to one that is answered already changes nothing."""
    tenant = entered.tenant
    questions = await find_questions(tenant, session)
    answers: list[AnyAnswer] = []
    given_up = 0  # the number of the turn
    for entry in act.resume:
        question = find_asked(questions, entry.interrupt_id)
        if question is not None:
            found = read_resume(question, entry, entered.name)
            if found is None:
                given_up = turn_of_key(question.key)
            else:
                answers.append(found)
    answers += _read_results(questions, act, entered.name)
    if given_up:
        await tenant.cancel(session, by=entered.name, turn=given_up)
        return
    for one in answers:
        await tenant.answer(session, one)


def _read_results(questions: dict[str, AnyQuestion], act: GiveAnswers, by: str) -> list[AnyAnswer]:
    answers: list[AnyAnswer] = []
    for call, (text, is_error) in act.results.items():
        question = find_asked(questions, call)
        if isinstance(question, ClientToolQuestion):
            answers.append(question.give(text, is_error=is_error, by=by))
    return answers


async def _format_run(
    tenant: TenantService, given: RunInput, shown: ShownThread
) -> AsyncGenerator[AguiEvent]:
    projection = AguiProjection(given.thread_id, given.run_id, shown.messages)
    told = [str(one.get("id")) for one in given.messages] if shown.with_snapshot else None
    for event in projection.start(told):
        yield event
    if shown.turn is None:
        yield projection.finish_idle()
        return
    items = show_turn(tenant, given.thread_id, shown.turn, shown.after, counts_all=False)
    is_open = True
    async with aclosing(items) as following:
        async for item, _, is_new in following:
            if is_new:
                for event in projection.feed(item):
                    is_open = is_open and event["type"] not in ("RUN_FINISHED", "RUN_ERROR")
                    yield event
    if is_open:  # the turn had ended before
        yield projection.finish_idle()


async def _encode(events: AsyncGenerator[AguiEvent]) -> AsyncIterator[bytes]:
    async with aclosing(events):
        async for event in events:
            yield b"data: %s\n\n" % to_json(event)


ROUTES: Final[RouteTable] = {
    ("POST", "/{agent}"): ProtocolRoute(_run_agent, STARTS),
}
"""The routes below `/agui`."""


def routes() -> Sequence[BaseRoute]:
    """Return the routes below `/agui`."""
    return [Route("/{path:path}", answer, methods=["GET", "POST"])]
