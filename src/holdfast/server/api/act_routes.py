"""The routes of acts: cancel, resume, abandon, rewind, fork, compact."""

from __future__ import annotations

import msgspec
from msgspec import UNSET
from starlette.responses import Response

from holdfast.core.errors import ConfigurationError
from holdfast.server.access.callers import take_turn
from holdfast.server.api.body_arguments import make_prompt
from holdfast.server.api.operations import AnyOperation, Call, Operation, OperationAnswer, respond
from holdfast.server.api.request_bodies import Compact, Fork, ForkEdit, NoBody, NoQuery, Rewind
from holdfast.server.api.session_reading import check_idle, session_exists
from holdfast.server.api.views import ActList, ActView, ChangeView, ForkView, TurnState
from holdfast.server.service import unknown_session
from holdfast.sessions.names import check_session_name, new_name


async def cancel_turn(call: Call[NoQuery, NoBody]) -> Response:
    """Cancel the last turn of a session."""
    await call.tenant.cancel(call.session, by=call.principal.name)
    await call.note_act("cancel")
    return await _respond_state(call)


async def resume_turn(call: Call[NoQuery, NoBody]) -> Response:
    """Continue the last turn of a session."""
    await call.tenant.resume(call.session)
    await call.note_act("resume")
    return await _respond_state(call)


async def abandon_turn(call: Call[NoQuery, NoBody]) -> Response:
    """Give up a turn that waits or was interrupted."""
    await check_idle(call.tenant, call.session)
    agent = await call.tenant.agent_of(call.session)
    await agent.abandon(call.session, by=call.principal.name)
    call.tenant.watch.wake(call.session)
    await call.note_act("abandon")
    return await _respond_state(call)


async def _respond_state(call: Call[NoQuery, NoBody]) -> Response:
    last = await call.tenant.last_turn(call.session)
    return respond(TurnState(call.session, last.turn, last.status), 202)


async def rewind_session(call: Call[NoQuery, Rewind]) -> Response:
    """Go back to an earlier turn."""
    await check_idle(call.tenant, call.session)
    number = await call.tenant.sessions.rewind(call.session, call.body.to, by=call.principal.name)
    call.tenant.watch.wake(call.session)
    await call.note_act("rewind", to=call.body.to)
    return respond(ChangeView(number))


async def compact_session(call: Call[NoQuery, Compact]) -> Response:
    """Replace older turns by a summary."""
    await check_idle(call.tenant, call.session)
    sessions = (await call.tenant.agent_of(call.session)).sessions
    summary = None if call.body.summary is UNSET else call.body.summary
    number = await sessions.compact(
        call.session, keep=call.body.keep, summary=summary, by=call.principal.name
    )
    call.tenant.watch.wake(call.session)
    await call.note_act("compact", number=number)
    return respond(ChangeView(number))


async def fork_session(call: Call[NoQuery, Fork]) -> Response:
    """Copy a session, and go on in the copy with another message if one is given."""
    body = call.body
    at = None if body.at is UNSET else body.at
    to = check_session_name(body.to or new_name(), "to")
    if body.edit is UNSET:
        await call.tenant.sessions.fork(call.session, at, to=to)
        await call.note_act("fork", to=to)
        return respond(ForkView(to), 201)
    if at is not None:
        problem = "cannot be given together with edit, whose turn says where to fork"
        raise ConfigurationError("at", problem, fix="Leave one of them out")
    agent = await _find_agent(call, body.edit)
    message = await make_prompt(call, body.edit.message)
    take_turn(call.request)
    await _fork_before(call, body.edit.turn, to)
    accepted = await call.tenant.start(agent, message, session=to, by=call.principal.name)
    await call.note_act("fork", to=to, turn=body.edit.turn)
    return respond(ForkView(to, accepted.number), 201)


async def _find_agent(call: Call[NoQuery, Fork], edit: ForkEdit) -> str:
    """Return the name of the agent that goes on, and check it. Raises ConfigurationError."""
    if edit.agent is not UNSET:
        call.tenant.agent(edit.agent)
        return edit.agent
    await call.tenant.agent_of(call.session)
    return (await call.tenant.sessions.info(call.session)).agent


async def _fork_before(call: Call[NoQuery, Fork], turn: int, to: str) -> None:
    """Copy what a session has before a turn. Raises ConfigurationError if it has no such turn."""
    history = await call.tenant.sessions.read(call.session)
    if not any(point.number == turn and point.kind == "turn" for point in history.points):
        raise ConfigurationError("edit.turn", f"is {turn}, which is not a turn of the session")
    if turn > 1:
        await call.tenant.sessions.fork(call.session, turn - 1, to=to)
    elif await session_exists(call.tenant, to):
        raise ConfigurationError("to", f"the session {to!r} already exists", fix="Choose another")


async def list_acts(call: Call[NoQuery, NoBody]) -> Response:
    """List who did what to a session."""
    if not await session_exists(call.tenant, call.session):
        raise unknown_session(call.session)
    acts = await call.store.list_acts(call.principal.tenant, call.session)
    return respond(
        [ActView(one.act, one.by, one.at, msgspec.json.decode(one.details)) for one in acts]
    )


_STATE = {202: (OperationAnswer(TurnState, "The last turn, as it is now."),)}


def _act(name: str, path: str, text: str, handle: object) -> AnyOperation:
    """Return an act that carries nothing."""
    return Operation(
        name=name,
        method="POST",
        path=path,
        text=text,
        scope="run",
        handle=handle,  # type: ignore[arg-type]  # one of the functions above
        query=NoQuery,
        body=NoBody,
        carries="optional",
        once="answer",
        answers=_STATE,
        refusals=(404, 409),
    )


OPERATIONS: tuple[AnyOperation, ...] = (
    _act(
        "cancel_turn",
        "/sessions/{session}/cancel",
        "Cancel the last turn, wherever it runs; one that nobody drives is closed as cancelled.",
        cancel_turn,
    ),
    _act(
        "resume_turn",
        "/sessions/{session}/resume",
        "Continue a turn that was interrupted, or try one again that failed.",
        resume_turn,
    ),
    _act(
        "abandon_turn",
        "/sessions/{session}/abandon",
        "Give up a turn that waits for an answer or was interrupted.",
        abandon_turn,
    ),
    Operation(
        name="rewind_session",
        method="POST",
        path="/sessions/{session}/rewind",
        text="Go back to an earlier turn. Later turns stay in the journal and no longer count.",
        scope="run",
        handle=rewind_session,
        query=NoQuery,
        body=Rewind,
        carries="json",
        once="answer",
        answers={200: (OperationAnswer(ChangeView, "The number of the change."),)},
        refusals=(404, 409),
    ),
    Operation(
        name="compact_session",
        method="POST",
        path="/sessions/{session}/compact",
        text="Replace older turns by a summary. They stay in the journal.",
        scope="run",
        handle=compact_session,
        query=NoQuery,
        body=Compact,
        carries="json",
        once="answer",
        answers={200: (OperationAnswer(ChangeView, "The number of the change, or null."),)},
        refusals=(404, 409, 502),
    ),
    Operation(
        name="fork_session",
        method="POST",
        path="/sessions/{session}/fork",
        text="Copy a session. With `edit`, go on in the copy with another message.",
        scope="run",
        handle=fork_session,
        query=NoQuery,
        body=Fork,
        carries="json",
        once="answer",
        answers={201: (OperationAnswer(ForkView, "The copy."),)},
        refusals=(404, 409),
    ),
    Operation(
        name="list_acts",
        method="GET",
        path="/sessions/{session}/acts",
        text="List who cancelled, resumed, changed or answered what in a session: the latest 100.",
        scope="read",
        handle=list_acts,
        query=NoQuery,
        body=NoBody,
        answers={200: (OperationAnswer(ActList, "The acts, the oldest first."),)},
        refusals=(404,),
    ),
)
"""The acts."""
