"""Reads sessions, turns and questions from the journal of a tenant, for the views of the API.

This module must never change anything, and must never wait.
"""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.core.effects import turn_key
from holdfast.core.errors import ConfigurationError, HoldfastError, SessionBusyError
from holdfast.core.events import Status
from holdfast.core.messages import Usage
from holdfast.core.question_log import ASKED, asked_key, compute_binding
from holdfast.event_log.live.last_turn import LastTurn
from holdfast.event_log.stream_items import SessionState
from holdfast.event_log.text_fold import turn_of_key
from holdfast.event_log.turn_fold import TurnFold
from holdfast.hosting.bound_agents import plan_of
from holdfast.hosting.tenant_service import TenantService, unknown_session
from holdfast.journal.open_questions import ListedQuestion, pick_questions
from holdfast.journal.session_rows import SessionRow, get_state
from holdfast.output.structured_output import Output, compile_output
from holdfast.server.api.views import QuestionView, SessionSummary, TurnView, to_field, to_number
from holdfast.sessions.names import title_run
from holdfast.sessions.overview import find_row

NO_TURN = LastTurn(0, "idle")


def summarize_session(tenant: TenantService, row: SessionRow) -> SessionSummary:
    """Return the summary of a session from the row that the journal has of it."""
    # Before its first reply, a turn has cost nothing that is known.
    cost = None if row.cost is None or not (row.input or row.output) else round(row.cost, 8)
    return SessionSummary(
        session=row.session,
        title=row.title,
        agent=row.agent,
        turns=row.turns,
        messages=row.messages,
        opened_at=row.opened_at,
        changed_at=row.changed_at,
        turn=row.turn,
        turn_status=get_state(row, is_driven=tenant.runner.is_driven(row.session)),
        in_doubt=row.in_doubt,
        questions=row.questions,
        turn_usage=Usage(row.input, row.output, cached_input=row.cached_input),
        turn_cost=to_field(cost),
        position=str(row.records if row.run == row.session else 0),
    )


async def read_summary(tenant: TenantService, session: str) -> SessionSummary:
    """Return the summary of one session. Raises ConfigurationError if it does not exist."""
    row = await find_row(tenant.journal, session)
    if row is None:
        raise unknown_session(session)
    return summarize_session(tenant, row)


async def read_turn(tenant: TenantService, session: str, number: int) -> TurnView:
    """Return one turn. Raises ConfigurationError if it does not exist."""
    last = await tenant.last_turn(session)
    fold, count = await _fold_turn(tenant, session, number)
    opened = fold.opened
    if opened is None:
        raise ConfigurationError("turn", f"there is no turn {number} of {session!r}")
    status: SessionState = "open"
    if fold.closed is not None:  # it may have ended since its session was looked at
        status = fold.closed.status.value
    elif number == last.turn:
        status = last.status
    questions = await read_questions(tenant, session) if status == "waiting" else ()
    options = opened.options
    return TurnView(
        session=session,
        turn=number,
        agent=opened.agent,
        status=status,
        text=fold.text,
        output=_read_output(tenant, fold),
        usage=fold.usage,
        cost=to_field(to_number(fold.costs.cost)),
        iterations=fold.iterations,
        error=fold.error,
        questions=tuple(one for one in questions if one.turn == number),
        metadata=dict(options.metadata) if options is not None else {},
        request=opened.request,
        by=options.by if options is not None else "",
        position=str(count),
        opened_at=opened.at,
        closed_at=fold.closed.at if fold.closed is not None else None,
    )


async def _fold_turn(tenant: TenantService, session: str, number: int) -> tuple[TurnFold, int]:
    """Return the fold of a turn, and how many records its session had then."""
    keys = await tenant.journal.keys(session)
    prefix, first = f"{turn_key(number)}.", turn_key(number)
    wanted = [key for key in keys if key == first or key.startswith(prefix)]
    records = await tenant.journal.read_by_keys(session, wanted) if wanted else ()
    return TurnFold(record.event for record in records), len(keys)


def _read_output(tenant: TenantService, fold: TurnFold) -> Any:
    """Return the output of a completed turn as JSON; None if it is text or cannot be read any more."""
    if fold.opened is None or fold.closed is None or fold.closed.status is not Status.COMPLETED:
        return None
    if not fold.is_checked or fold.reply is None:
        return None
    try:
        options = fold.opened.options
        if options is not None and options.output is not None:
            wanted: Output | None = compile_output(options.output)
        else:
            wanted = plan_of(tenant.agent(fold.opened.agent)).output
        if wanted is None:
            return None
        if fold.function_result is not None:
            return to_json_value(wanted.read_function_value(fold.function_result))
        return to_json_value(wanted.get_value(fold.reply, None))
    except HoldfastError:
        return None  # the type was changed since, or the agent is gone


def to_json_value(value: object) -> Any:
    """Return a value of a user's type as JSON values."""
    from pydantic_core import to_jsonable_python  # only agents with a typed output need it

    return to_jsonable_python(value, serialize_unknown=True)


async def read_questions(tenant: TenantService, session: str) -> tuple[QuestionView, ...]:
    """Return the open questions of a session. Raises ConfigurationError if it does not exist."""
    row = await find_row(tenant.journal, session)
    if row is None:
        raise unknown_session(session)
    if not row.questions:
        return ()
    records = await tenant.journal.read_by_keys(session, list(map(asked_key, row.questions)))
    return tuple(map(view_question, pick_questions(row, row.title, records)))


def view_question(question: ListedQuestion) -> QuestionView:
    """Return the view of an open question."""
    asked = question.event
    shown: object = msgspec.to_builtins(asked.question)
    return QuestionView(
        session=question.run,
        agent=question.agent,
        key=asked.key.removesuffix(ASKED),
        binding=compute_binding(asked, question.run),
        kind=asked.kind,
        question=shown if isinstance(shown, dict) else {},
        asked_at=asked.at,
        until=asked.until,
        title=question.title,
        turn=turn_of_key(asked.key),
    )


async def session_exists(tenant: TenantService, session: str) -> bool:
    """Whether there is a session, also one without turns."""
    title = title_run(session)
    return bool(
        await tenant.journal.find_runs(session, session)
        or await tenant.journal.find_runs(title, title)
    )


async def check_idle(tenant: TenantService, session: str) -> None:
    """Raise SessionBusyError if the last turn of a session is in progress."""
    last = await tenant.reader.find_last_turn(session)
    if last is not None and last.status == "running":
        raise SessionBusyError(session)
