"""The routes of acts: cancel, resume, abandon, rewind, fork, compact."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from msgspec import UNSET
from starlette.responses import Response

from holdfast.core.acts import Act
from holdfast.core.errors import ConfigurationError
from holdfast.event_log.live.reading import TURN_ENDED
from holdfast.event_log.stream_items import SessionState
from holdfast.hosting.tenant_service import unknown_session
from holdfast.hosting.turns.turn_runner import AcceptedTurn
from holdfast.server.access.budgets import READS, STARTS, WRITES, Takes
from holdfast.server.access.callers import (
    take_bytes,
    take_further_turn,
    take_stream,
    take_turn,
)
from holdfast.server.api.body_arguments import make_prompt
from holdfast.server.api.operations import AnyOperation, Call, Operation, OperationAnswer, respond
from holdfast.server.api.request_bodies import Compact, Fork, ForkEdit, NoBody, NoQuery, Rewind
from holdfast.server.api.session_reading import check_idle, session_exists
from holdfast.server.api.turn_routes import SECONDS_TO_BEGIN
from holdfast.server.api.views import ActList, ActView, ChangeView, ForkView, TurnState
from holdfast.sessions.names import check_session_name, new_name


async def cancel_turn(call: Call[NoQuery, NoBody]) -> Response:
    """Cancel the last turn of a session."""
    last = await call.tenant.reader.find_last_turn(call.session)
    if last is None or last.status in TURN_ENDED:
        # The turn may not have begun, so that the journal has nothing of it.
        queue = call.tenant.queue
        entry = None if queue is None else await queue.find_unbegun(call.session)
        if entry is not None:
            turn = 0 if last is None else last.turn
            act = call.make_act("cancel", turn=turn, entry=entry.id)
            return await _save_act(call, act, _finish_cancel)
    if last is None:
        await call.tenant.runner.wait_accepted(call.session)  # its first record is being saved
    return await _save_turn_act(call, "cancel", _finish_cancel)


async def _finish_cancel(call: Call[NoQuery, NoBody], act: Act) -> Response:
    """Cancel the turn of the act, unless it has ended."""
    details, queue = act.read_details(), call.tenant.queue
    if "entry" not in details:
        await call.tenant.cancel(call.session, by=act.by, turn=details["turn"])
    elif queue is not None:
        is_out = await queue.cancel_entry(call.session, details["entry"], act.by)
        last = await call.tenant.reader.find_last_turn(call.session)
        if is_out or last is None or last.turn == details["turn"]:
            # One that is not out of the queue is about to begin: its worker cancels it.
            status: SessionState = "cancelled" if is_out else "queued"
            return respond(TurnState(call.session, details["turn"], status), 202)
    return await _respond_state(call)


async def resume_turn(call: Call[NoQuery, NoBody]) -> Response:
    """Continue the last turn of a session."""
    await call.tenant.agent_of(call.session)
    take_further_turn(call.request)
    return await _save_turn_act(call, "resume", _finish_resume)


async def _finish_resume(call: Call[NoQuery, NoBody], act: Act) -> Response:
    """Continue the session, unless something has come of the act already."""
    last = await call.tenant.last_turn(call.session)
    if last.records == act.read_details()["records"]:
        await call.tenant.resume(call.session)
    return await _respond_state(call)


async def abandon_turn(call: Call[NoQuery, NoBody]) -> Response:
    """Give up a turn that waits or was interrupted."""
    await check_idle(call.tenant, call.session)
    await call.tenant.agent_of(call.session)
    return await _save_turn_act(call, "abandon", _finish_abandon)


async def _finish_abandon(call: Call[NoQuery, NoBody], act: Act) -> Response:
    """Give the turn of the act up, unless it has ended."""
    last = await call.tenant.last_turn(call.session)
    if last.turn == act.read_details()["turn"] and last.status in ("waiting", "open"):
        await call.tenant.abandon(call.session, by=act.by)
    return await _respond_state(call)


async def _save_turn_act(
    call: Call[NoQuery, NoBody],
    name: str,
    finish: Callable[[Call[NoQuery, NoBody], Act], Awaitable[Response]],
) -> Response:
    """Save an act on the last turn, and then perform it."""
    last = await call.tenant.last_turn(call.session)
    return await _save_act(call, call.make_act(name, turn=last.turn, records=last.records), finish)


async def _save_act(
    call: Call[NoQuery, NoBody],
    act: Act,
    finish: Callable[[Call[NoQuery, NoBody], Act], Awaitable[Response]],
) -> Response:
    """Save an act on a turn, and then perform it.

    Its records are written by the driver of the turn, perhaps in another process, or by the inbox. So
    the act is saved first, and names its turn: a repetition after a crash performs the rest, and
    never touches a later turn.
    """
    await call.tenant.journal.save_act(act)
    return await finish(call, act)


async def _respond_state(call: Call[NoQuery, NoBody]) -> Response:
    last = await call.tenant.last_turn(call.session)
    return respond(TurnState(call.session, last.turn, last.status), 202)


async def rewind_session(call: Call[NoQuery, Rewind]) -> Response:
    """Go back to an earlier turn."""
    await check_idle(call.tenant, call.session)
    act = call.make_act("rewind", to=call.body.to)
    sessions = call.tenant.sessions.with_act(act)
    number = await sessions.rewind(call.session, call.body.to, by=act.by)
    call.tenant.watch.wake(call.session)
    return await _answer_change(call, act.with_details(number=number))


async def compact_session(call: Call[NoQuery, Compact]) -> Response:
    """Replace older turns by a summary."""
    await check_idle(call.tenant, call.session)
    act = call.make_act("compact")
    sessions = (await call.tenant.agent_of(call.session)).sessions.with_act(act)
    summary = None if call.body.summary is UNSET else call.body.summary
    if summary is None:  # the model writes it
        take_further_turn(call.request)
        take_stream(call.request)
    number = await sessions.compact(call.session, keep=call.body.keep, summary=summary, by=act.by)
    call.tenant.watch.wake(call.session)
    return await _answer_change(call, act.with_details(number=number))


async def _answer_change(_call: Call[NoQuery, Any], act: Act) -> Response:
    return respond(ChangeView(act.read_details()["number"]))


async def fork_session(call: Call[NoQuery, Fork]) -> Response:
    """Copy a session, and go on in the copy with another message if one is given."""
    body = call.body
    at = None if body.at is UNSET else body.at
    to = check_session_name(body.to or new_name(), "to")
    if body.edit is UNSET:
        act = call.make_act("fork", to=to)
        await take_bytes(call.request, await call.tenant.count_bytes(call.session))
        await call.tenant.sessions.with_act(act).fork(call.session, at, to=to)
        call.tenant.watch.wake(to)
        return await _answer_fork(call, act)
    if at is not None:
        problem = "cannot be given together with edit, whose turn says where to fork"
        raise ConfigurationError("at", problem, fix="Leave one of them out")
    await _find_agent(call, body.edit)
    await make_prompt(call, body.edit.message)  # a turn that cannot be started is not copied
    take_turn(call.request)
    await take_bytes(call.request, await call.tenant.count_bytes(call.session))
    act = call.make_act("fork", to=to, turn=body.edit.turn)
    await _fork_before(call, act, body.edit.turn, to)
    return await _answer_fork(call, act)


async def _answer_fork(call: Call[NoQuery, Fork], act: Act) -> Response:
    """Name the copy. The turn in it is started, unless it was started before."""
    to, edit = act.read_details()["to"], call.body.edit
    if edit is UNSET:
        return respond(ForkView(to), 201)
    agent, message = await _find_agent(call, edit), await make_prompt(call, edit.message)
    saved = await call.tenant.submit(agent, message, session=to, by=act.by, request=act.id)
    if isinstance(saved, AcceptedTurn):
        return respond(ForkView(to, saved.number), 201)
    begun = await call.tenant.wait_for_begin(saved, SECONDS_TO_BEGIN)
    return respond(ForkView(to, UNSET if begun is None else begun.number), 201)


async def _find_agent(call: Call[NoQuery, Fork], edit: ForkEdit) -> str:
    """Return the name of the agent that goes on, and check it. Raises ConfigurationError."""
    if edit.agent is not UNSET:
        call.tenant.agent(edit.agent)
        return edit.agent
    await call.tenant.agent_of(call.session)
    return (await call.tenant.sessions.info(call.session)).agent


async def _fork_before(call: Call[NoQuery, Fork], act: Act, turn: int, to: str) -> None:
    """Copy the part of a session before a turn. Raises ConfigurationError if it has no such turn."""
    history = await call.tenant.sessions.read(call.session)
    if not any(point.number == turn and point.kind == "turn" for point in history.points):
        raise ConfigurationError("edit.turn", f"is {turn}, which is not a turn of the session")
    if turn > 1:
        await call.tenant.sessions.with_act(act).fork(call.session, turn - 1, to=to)
        call.tenant.watch.wake(to)
    elif await session_exists(call.tenant, to):
        raise ConfigurationError("to", f"the session {to!r} already exists", fix="Choose another")
    else:
        await call.tenant.journal.save_act(act)


async def list_acts(call: Call[NoQuery, NoBody]) -> Response:
    """List the acts on a session, and who did them."""
    if not await session_exists(call.tenant, call.session):
        raise unknown_session(call.session)
    acts = await call.tenant.journal.list_acts(call.session)
    return respond([ActView(one.act, one.by, one.at, one.read_details()) for one in acts])


_STATE = {202: (OperationAnswer(TurnState, "The last turn, as it is now."),)}


def _act(
    name: str, text: str, handle: object, answer_again: object, takes: Takes = READS
) -> AnyOperation:
    """Return an act that carries nothing."""
    return Operation(
        name=name,
        method="POST",
        path=f"/sessions/{{session}}/{name.removesuffix('_turn')}",
        text=text,
        scope="run",
        takes=takes,
        handle=handle,  # type: ignore[arg-type]  # one of the functions above
        answer_again=answer_again,  # type: ignore[arg-type]  # REASON: as above
        query=NoQuery,
        body=NoBody,
        carries="optional",
        once="act",
        answers=_STATE,
        refusals=(404, 409),
    )


OPERATIONS: tuple[AnyOperation, ...] = (
    _act(
        "cancel_turn",
        "Cancel the last turn, wherever it runs; one that nobody drives is closed as cancelled.",
        cancel_turn,
        _finish_cancel,
    ),
    _act(
        "resume_turn",
        "Continue a turn that was interrupted, or try one again that failed.",
        resume_turn,
        _finish_resume,
        takes=("requests", "turns", "bytes"),
    ),
    _act(
        "abandon_turn",
        "Give up a turn that waits for an answer or was interrupted.",
        abandon_turn,
        _finish_abandon,
    ),
    Operation(
        name="rewind_session",
        method="POST",
        path="/sessions/{session}/rewind",
        text="Go back to an earlier turn. Later turns stay in the journal and no longer count.",
        scope="run",
        takes=WRITES,
        handle=rewind_session,
        query=NoQuery,
        body=Rewind,
        carries="json",
        once="act",
        answer_again=_answer_change,
        answers={200: (OperationAnswer(ChangeView, "The number of the change."),)},
        refusals=(404, 409),
    ),
    Operation(
        name="compact_session",
        method="POST",
        path="/sessions/{session}/compact",
        text="Replace older turns by a summary. They stay in the journal.",
        scope="run",
        takes=STARTS,
        handle=compact_session,
        query=NoQuery,
        body=Compact,
        carries="json",
        once="act",
        answer_again=_answer_change,
        answers={200: (OperationAnswer(ChangeView, "The number of the change, or null."),)},
        refusals=(404, 409, 502),
    ),
    Operation(
        name="fork_session",
        method="POST",
        path="/sessions/{session}/fork",
        text="Copy a session. With `edit`, go on in the copy with another message.",
        scope="run",
        takes=("requests", "turns", "bytes"),
        handle=fork_session,
        query=NoQuery,
        body=Fork,
        carries="json",
        once="act",
        answer_again=_answer_fork,
        answers={201: (OperationAnswer(ForkView, "The copy."),)},
        refusals=(404, 409),
    ),
    Operation(
        name="list_acts",
        method="GET",
        path="/sessions/{session}/acts",
        text="List the latest 100 acts on a session, and who did them: cancelled, resumed, changed or answered.",
        scope="read",
        takes=READS,
        handle=list_acts,
        query=NoQuery,
        body=NoBody,
        answers={200: (OperationAnswer(ActList, "The acts, the oldest first."),)},
        refusals=(404,),
    ),
)
"""The acts."""
