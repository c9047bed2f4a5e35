"""Puts a turn of an agent into the inbox of its journal, and reads its result, whoever drives it.

Every argument is checked before anything is saved. This module must never drive a turn or take a lease.
"""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any, TypeVar, cast

from msgspec import Struct
from msgspec.structs import replace

from holdfast.core.argument_checks import check_value
from holdfast.core.constraints import between
from holdfast.core.turn_options import NO_OPTIONS
from holdfast.journal.inbox.entries import Submission
from holdfast.journal.inbox.opening_inbox import open_inbox
from holdfast.journal.journal_names import check_name, check_text
from holdfast.journal.memory import MemoryJournal
from holdfast.journal.port import Journal
from holdfast.resilience.system_clock import new_run_id
from holdfast.runtime.active_turn import TurnContext
from holdfast.runtime.arguments.run_keywords import (
    SUBMIT_NAMES,
    RunKeywords,
    SubmitKeywords,
    check_names,
)
from holdfast.runtime.around_turn import find_last_try, finish_turn, replay_turn
from holdfast.runtime.engine import Engine, copy_on_journal
from holdfast.runtime.queued_runs.queued_run import QueuedRun
from holdfast.runtime.queued_runs.queued_turn import digest_submission, encode_turn
from holdfast.runtime.result import Result
from holdfast.runtime.turn_state.turn_input import ContinuedTurn, Prompt, TurnInput
from holdfast.telemetry.observers import find_current_trace

T = TypeVar("T")
_PRIORITY = Annotated[int, between(-1000, 1000)]
_TIME = Annotated[float, between(0, 1e11)] | None


async def submit_turn(engine: Engine[T], prompt: Prompt, keywords: SubmitKeywords) -> QueuedRun[T]:
    """Put a turn into the inbox; see `Agent.submit`.

    Args:
        engine: the engine of the agent.
        prompt: the message.
        keywords: the other arguments.
    """
    check_names("Agent.submit", keywords, SUBMIT_NAMES)
    given: dict[str, Any] = dict(keywords)
    order = _read_order(given)
    tenant, output = given.pop("tenant", None), given.pop("output", None)
    journal = engine.require_journal("submit the turn to")
    if tenant is not None:
        journal = journal.for_tenant(check_name("tenant", tenant))
    turn = engine.make_turn(prompt, output, cast("RunKeywords[Any]", given))
    turn = _add_trace(turn, engine)
    submission = _make_submission(engine.plan.name, journal.tenant, turn, order)
    inbox = open_inbox(journal)
    entry = await inbox.submit(submission)
    return QueuedRun(entry, inbox, journal, partial(_read_result, engine, journal))


async def submit_named_turn(
    agent: str, journal: Journal, turn: TurnInput, *, priority: int = 0, not_before: float = 0.0
) -> QueuedRun[Any]:
    """Put a turn into the inbox for an agent that only its workers have.

    The run has no result, since only the agent knows the type of its output; the journal has its text.

    Args:
        agent: the name of the agent.
        journal: the journal of the tenant.
        turn: the arguments of the turn.
        priority: as for `Agent.submit`.
        not_before: as for `Agent.submit`; 0 for now.

    Raises:
        ConfigurationError: an argument is wrong.
        InboxError: as for `Agent.submit`.
    """
    by = "" if turn.options is None else turn.options.by
    order = _read_order({"priority": priority, "not_before": not_before, "by": by})
    submission = _make_submission(check_name("agent", agent), journal.tenant, turn, order)
    inbox = open_inbox(journal)
    return QueuedRun(await inbox.submit(submission), inbox, journal, _read_nothing)


def _add_trace(turn: TurnInput, engine: Engine[T]) -> TurnInput:
    """Return a turn with the trace of the code that submits it, if the caller passed none."""
    options = turn.options or NO_OPTIONS
    trace = "" if options.trace else find_current_trace(engine.plan.observers)
    return replace(turn, options=replace(options, trace=trace)) if trace else turn


class _QueueOrder(Struct, frozen=True):
    """When a turn is to begin, and who wants it."""

    priority: int
    not_before: float
    by: str


def _read_order(given: dict[str, Any]) -> _QueueOrder:
    """Take the keywords that no engine needs out of the keywords. Raises ConfigurationError."""
    priority, not_before = given.pop("priority", 0), given.pop("not_before", None)
    check_value("priority", priority, _PRIORITY)
    check_value("not_before", not_before, _TIME)
    return _QueueOrder(priority, not_before or 0.0, given.get("by", ""))


def _make_submission(agent: str, tenant: str, turn: TurnInput, order: _QueueOrder) -> Submission:
    return Submission(
        tenant=tenant,
        agent=agent,
        session=turn.session or new_run_id(),
        request=turn.request or new_run_id(),
        body=encode_turn(turn),
        digest=digest_submission(agent, turn),
        priority=order.priority,
        not_before=order.not_before,
        made_by=check_text(order.by, "by"),
    )


async def _read_nothing(_request: str) -> None:
    """Return no result."""


async def _read_result(engine: Engine[T], journal: Journal, request: str) -> Result[T] | None:
    return await read_result(copy_on_journal(engine, journal), request)


async def read_result(engine: Engine[T], request: str) -> Result[T] | None:
    """Return the result of the turn with a request; None if the journal has no such turn.

    A turn in progress has the result that it has now.

    Args:
        engine: the engine of the agent on the journal of the turn.
        request: the request.

    Raises:
        HoldfastError: the turn did not complete; `.result` has its messages, usage and status.
    """
    known = await engine.require_journal("read the result from").find_request(request)
    if known is None:
        return None
    run_id, key = known
    records = await engine.session_pool.journal.read(run_id)
    past = engine.session_pool.make_session(MemoryJournal())
    past.machine = replay_turn(records, find_last_try(records, key))
    this, context = ContinuedTurn(run_id=run_id), TurnContext(session=run_id)
    return finish_turn(await engine.restore_run(this, past, context))
