"""Decides the effect of a Responses request: a new session, the next turn, a fork, or answers for a wait."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import msgspec
from msgspec import Struct

from holdfast.core.client_tools import ClientToolQuestion
from holdfast.core.events import QuestionAsked, TurnClosed
from holdfast.core.question_log import ASKED
from holdfast.core.questions import (
    Approved,
    ContinuationQuestion,
    Continued,
    Denied,
    PermissionQuestion,
)
from holdfast.hosting.tenant_service import new_act
from holdfast.journal.journal_errors import RequestExistsError
from holdfast.resilience.system_clock import new_run_id
from holdfast.runtime.arguments.run_keywords import RunKeywords
from holdfast.runtime.turn_state.turn_input import BEGINNINGS
from holdfast.server.access.callers import require, take_bytes, take_further_turn, take_turn
from holdfast.server.api.idempotency import read_key
from holdfast.server.api.operations import Call
from holdfast.server.api.request_bodies import NoQuery
from holdfast.server.api.request_reading import read_on_disconnect
from holdfast.server.problem_responses import ProblemError, make_problem
from holdfast.server.protocols.client_results import GivenAnswers, give_answers, require_agent
from holdfast.server.protocols.content_parts import refuse
from holdfast.server.protocols.continuation import find_segment, note_history, was_sent
from holdfast.server.protocols.openai_shapes import (
    REQUEST_KEY,
    SegmentName,
    make_call_id,
    read_call_id,
    read_segment_name,
)
from holdfast.server.protocols.protocol_names import make_name
from holdfast.server.protocols.request_arguments import (
    JSON_OBJECT,
    check_output,
    digest_body,
)
from holdfast.server.protocols.responses.response_bodies import (
    ApprovalItem,
    ConversationId,
    ResponseRequest,
)
from holdfast.server.protocols.responses.response_input import (
    ResponseInput,
    make_client_tools,
    make_output,
    make_settings,
)
from holdfast.server.protocols.responses.response_object import APPROVAL, RESPONSE
from holdfast.server.protocols.turn_reading import SavedTurn, TurnReading, check_same_request

ResponseCall: TypeAlias = Call[NoQuery, ResponseRequest]

_ASKS_FOR_APPROVAL = (PermissionQuestion.__name__, ContinuationQuestion.__name__)


class ResponseTarget(Struct, frozen=True):
    """The segment that answers a request, and its turn.

    Args:
        name: the segment.
        saved: its turn.
        differs: whether the run goes on with a history that is not that of the request.
    """

    name: SegmentName
    saved: SavedTurn
    differs: bool = False


class Beginning(Struct, frozen=True):
    """Where a new turn begins.

    Args:
        session: its session.
        agent: the agent of the session so far; "" for a new session.
        previous: the id of the response before it.
        is_conversation: whether the caller named the session.
    """

    session: str
    agent: str = ""
    previous: str | None = None
    is_conversation: bool = False


async def choose_target(
    call: ResponseCall, reading: TurnReading, given: ResponseInput
) -> ResponseTarget:
    """Start or continue a turn; return the segment that answers the request. Raises ProblemError."""
    request = call.body
    if request.previous_response_id is not None and request.conversation is not None:
        raise refuse("conversation", "cannot be given together with previous_response_id")
    key, held = _name_turn(call, reading), reading.held
    if key is not None and (held is None or held.is_joined):  # otherwise the name is a new one
        known = await call.tenant.find_request(key)
        if known is not None:
            name = SegmentName(known.session, known.number)
            saved = await reading.require_segment(name, "Idempotency-Key")
            check_same_request(saved, digest_body(await call.request.body()))
            return ResponseTarget(name, saved)
    if request.previous_response_id is not None:
        return await _continue_previous(call, reading, given, request.previous_response_id)
    if request.conversation is not None:
        return await _continue_conversation(call, reading, given, request.conversation)
    if given.has_answers:
        return await _continue_sent(call, reading, given)
    return await _start(call, reading, given, Beginning(new_run_id()))


def _name_turn(call: ResponseCall, reading: TurnReading) -> str | None:
    """Return the request of the turn that a request begins."""
    if reading.held is not None:
        return reading.held.name
    key = read_key(call.request)
    return f"responses:{key}" if key else None


async def _continue_previous(
    call: ResponseCall, reading: TurnReading, given: ResponseInput, previous: str
) -> ResponseTarget:
    """Continue after a response: its wait, its session, or a fork of that."""
    field = "previous_response_id"
    name = read_segment_name(RESPONSE, previous)
    saved = await reading.require_segment(name, field)
    assert name is not None  # noqa: S101  # REASON: require_segment raises for it
    if given.has_answers:
        return await _answer(call, reading, given, ResponseTarget(name, saved))
    if not isinstance(saved.events[-1], TurnClosed):
        raise _refuse_open(saved, name, field)
    if name.segment != len(saved.segmented.segments) - 1:
        raise refuse(field, "its turn went on with another response; continue that one")
    session = name.session
    if saved.latest != name.turn:
        session = await _fork_once(call, session, name.turn, _name_turn(call, reading))
    agent = saved.segmented.opened.agent
    target = await _start(call, reading, given, Beginning(session, agent, previous))
    if session not in (name.session, target.name.session):  # the same request was sent before
        await call.tenant.sessions.delete(session)
        call.tenant.watch.wake(session)
    return target


async def _fork_once(call: ResponseCall, session: str, turn: int, key: str | None) -> str:
    """Fork a session; for a request with a name once, also if the process dies before it goes on."""
    await take_bytes(call.request, await call.tenant.count_bytes(session))
    to = new_run_id()
    act_id = "" if key is None else f"fork:{key}"
    act = new_act("fork", session, by=call.principal.name, act_id=act_id, to=to)
    try:
        return await call.tenant.sessions.with_act(act).fork(session, turn, to=to)
    except RequestExistsError:
        known = await call.tenant.journal.find_act(act.id)
        if known is None:
            raise
        return str(known.read_details()["to"])


def _refuse_open(saved: SavedTurn, name: SegmentName, field: str) -> ProblemError:
    """Return the refusal of a message for a turn that has not ended."""
    questions = saved.segmented.segments[-1].questions
    if not saved.segmented.open_keys or not questions:
        return ProblemError(
            make_problem(409, "busy", "it is in progress", field=field, retryable=True)
        )
    missing = ", ".join(make_call_id(name.session, asked) for asked in questions)
    return refuse("input", f"no output was found for the calls {missing}", "missing_output")


async def _continue_conversation(
    call: ResponseCall, reading: TurnReading, given: ResponseInput, named: str | ConversationId
) -> ResponseTarget:
    """Continue the session that the caller names, or begin it."""
    session = named if isinstance(named, str) else named.id
    last = await call.tenant.reader.find_last_turn(session)
    if last is None or not last.turn:
        beginning = Beginning(session, is_conversation=True)
        return await _start(call, reading, given, beginning)
    saved = await reading.find_turn(session, last.turn)
    if saved is None:
        raise refuse("conversation", "cannot be continued")
    name = SegmentName(session, last.turn, len(saved.segmented.segments) - 1)
    if given.has_answers:
        return await _answer(call, reading, given, ResponseTarget(name, saved))
    if not isinstance(saved.events[-1], TurnClosed):
        raise _refuse_open(saved, name, "conversation")
    beginning = Beginning(
        session, saved.segmented.opened.agent, name.to_id(RESPONSE), is_conversation=True
    )
    return await _start(call, reading, given, beginning)


async def _continue_sent(
    call: ResponseCall, reading: TurnReading, given: ResponseInput
) -> ResponseTarget:
    """Continue the run whose whole conversation the caller sends, with results at its end.

    The ids of the calls find the run. It goes on with its own history, whatever the request has before.
    """
    found = [read_call_id(one) for one in given.results]
    sessions = {None if named is None else named.session for named in found}
    session = sessions.pop() if sessions else None
    if session is None or sessions or given.approvals:
        raise refuse("input", "the outputs at the end are not of calls of one run", "unknown_call")
    keys = frozenset(named.place for named in found if named is not None)
    turn = min(keys).partition(".")[0].removeprefix("t")
    saved = await reading.find_turn(session, int(turn)) if turn.isdecimal() else None
    number = None if saved is None else find_segment(saved.segmented, keys)
    if saved is None or number is None:
        raise refuse("input", "these are not the outputs that a run waits for", "unknown_call")
    name = SegmentName(session, int(turn), number)
    answered = ResponseInput((), given.results)
    target = await _answer(call, reading, answered, ResponseTarget(name, saved))
    is_known = given.fault is None and was_sent(saved.segmented, session, number, given.messages)
    return msgspec.structs.replace(target, differs=not is_known)


async def _answer(
    call: ResponseCall, reading: TurnReading, given: ResponseInput, asked: ResponseTarget
) -> ResponseTarget:
    """Give the answers of a request to the questions of a segment."""
    if given.fault is not None:
        raise given.fault
    if given.messages:
        raise refuse("input", "has messages besides the outputs; send them after the response")
    number = asked.name.segment
    questions = asked.saved.segmented.segments[number].questions
    # The results of a client's own tools need no right to answer.
    if any(one.kind != ClientToolQuestion.__name__ for one in questions):
        require(call.request, "answer")
    values = _match_answers(asked.name.session, questions, given)
    answers = GivenAnswers(asked.name, values, "input", call.principal.name)
    take_further_turn(call.request, is_driven=call.tenant.runner.is_driven(asked.name.session))
    name, saved = await give_answers(call.tenant, reading, answers)
    return ResponseTarget(name, saved)


def _match_answers(
    session: str, questions: tuple[QuestionAsked, ...], given: ResponseInput
) -> Mapping[str, object]:
    """Return the answers by the keys of the questions. Raises ProblemError unless all fit."""
    results = dict(given.results)
    approvals = {one.approval_request_id: one for one in given.approvals}
    values: dict[str, object] = {}
    missing: list[str] = []
    for asked in questions:
        key, call_id = asked.key.removesuffix(ASKED), make_call_id(session, asked)
        if asked.kind in _ASKS_FOR_APPROVAL:
            approval_id = make_name(APPROVAL, session, key)
            approval = approvals.pop(approval_id, None)
            if approval is None:
                missing.append(approval_id)
            else:
                values[key] = _to_decision(asked, approval)
            continue
        result = results.pop(call_id, None)
        if result is None:
            missing.append(call_id)
        else:
            is_tool = asked.kind == ClientToolQuestion.__name__
            values[key] = result if is_tool else result.text
    if missing:
        detail = f"no output was found for the calls {', '.join(missing)}"
        raise refuse("input", detail, "missing_output")
    if others := [*results, *approvals]:
        detail = f"has outputs for calls that nobody waits for: {', '.join(others)}"
        raise refuse("input", detail, "unknown_call")
    return values


def _to_decision(asked: QuestionAsked, approval: ApprovalItem) -> Approved | Continued | Denied:
    if not approval.approve:
        return Denied(reason=approval.reason) if approval.reason else Denied()
    return Approved() if asked.kind == PermissionQuestion.__name__ else Continued()


async def _start(
    call: ResponseCall, reading: TurnReading, given: ResponseInput, beginning: Beginning
) -> ResponseTarget:
    """Start a turn."""
    request, tenant, messages = call.body, call.tenant, given.messages
    if given.has_answers:
        raise refuse("input", "has outputs for calls that nobody waits for", "unknown_call")
    name = _choose_agent(call, beginning)
    if not messages or messages[-1].role not in BEGINNINGS:
        detail = "must end with a message of the user or the system, or with outputs of calls"
        raise refuse("input", detail)
    if beginning.agent and len(messages) > 1:
        messages = (_join_user_messages(given),)
    output = make_output(request.text)
    check_output(require_agent(tenant, name), output, "text.format")
    body = digest_body(await call.request.body())
    keywords: RunKeywords[Any] = {
        "session": beginning.session,
        "history": messages[:-1],
        "settings": make_settings(request),
        "tools": make_client_tools(request.tools),
        "instructions": request.instructions,
        "metadata": {
            **(request.metadata or {}),
            **read_on_disconnect(call.request),
            REQUEST_KEY: {
                "history": msgspec.to_builtins(note_history(messages)),
                "body": body,
                **_note_request(request, beginning),
            },
        },
        "request": _name_turn(call, reading),
        "by": call.principal.name,
    }
    take_turn(call.request)
    return ResponseTarget(*await reading.start(name, messages[-1], output, **keywords))


def _choose_agent(call: ResponseCall, beginning: Beginning) -> str:
    """Return the name of the agent. Raises ProblemError if there is none, or none is named."""
    names = call.tenant.names
    name = call.body.model or beginning.agent or (names[0] if len(names) == 1 else "")
    if not name:
        raise refuse("model", "is missing", "missing_required_parameter")
    require_agent(call.tenant, name)
    return name


def _join_user_messages(given: ResponseInput) -> Any:
    """Return the messages for a session that has a history as one. Raises ProblemError."""
    if any(message.role != "user" for message in given.messages):
        detail = "may only add messages of the user to a conversation that exists"
        raise refuse("input", detail, "unsupported_value")
    parts = [part for message in given.messages for part in message.parts]
    return msgspec.structs.replace(given.messages[-1], parts=tuple(parts))


def _note_request(request: ResponseRequest, beginning: Beginning) -> dict[str, object]:
    """Return the fields that the response repeats and the turn does not know otherwise."""
    noted: dict[str, object] = {
        "previous_response_id": beginning.previous,
        "conversation": beginning.is_conversation or None,
        "store": request.store,
        "background": request.background or None,
        "json_object": make_output(request.text) is JSON_OBJECT or None,
    }
    return {name: value for name, value in noted.items() if value is not None}
