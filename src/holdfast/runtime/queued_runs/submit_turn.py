"""Puts a turn of an agent into the inbox of its journal.

Every argument is checked before anything is saved. This module must never drive a turn.
"""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any, TypeVar

from msgspec import Struct

from holdfast.core.argument_checks import check_value
from holdfast.core.constraints import between
from holdfast.journal.inbox.entries import Submission
from holdfast.journal.inbox.opening_inbox import open_inbox
from holdfast.journal.journal_names import check_name
from holdfast.journal.port import Journal
from holdfast.resilience.system_clock import new_run_id
from holdfast.runtime.arguments.run_keywords import SUBMIT_NAMES, SubmitKeywords, check_names
from holdfast.runtime.engine import Engine
from holdfast.runtime.queued_runs.queued_run import QueuedRun
from holdfast.runtime.queued_runs.queued_turn import digest_submission, encode_turn
from holdfast.runtime.result import Result
from holdfast.runtime.turn_state.turn_input import Prompt

T = TypeVar("T")

_PRIORITY = Annotated[int, between(-1000, 1000)]
_TIME = Annotated[float, between(0, 1e11)] | None


class SubmitOptions(Struct, frozen=True):
    """The arguments of `Agent.submit` that `Agent.run` does not have; see there."""

    session: str | None = None
    request: str | None = None
    tenant: str | None = None
    priority: int = 0
    not_before: float | None = None


async def submit_turn(
    engine: Engine[T], prompt: Prompt, keywords: SubmitKeywords, options: SubmitOptions
) -> QueuedRun[T]:
    """Put a turn into the inbox; see `Agent.submit`.

    Args:
        engine: the engine of the agent.
        prompt: the message.
        keywords: the keywords that `Agent.run` has too.
        options: the others.
    """
    check_names("Agent.submit", keywords, SUBMIT_NAMES)
    check_value("priority", options.priority, _PRIORITY)
    check_value("not_before", options.not_before, _TIME)
    journal = engine.require_journal("submit the turn to")
    if options.tenant is not None:
        journal = journal.for_tenant(check_name("tenant", options.tenant))
    given: dict[str, Any] = dict(keywords)
    output = given.pop("output", None)
    names: Any = {**given, "session": options.session, "request": options.request}
    turn = engine.make_turn(prompt, output, names)
    body = encode_turn(turn)
    submission = Submission(
        tenant=journal.tenant,
        agent=engine.plan.name,
        session=options.session or new_run_id(),
        request=options.request or new_run_id(),
        body=body,
        digest=digest_submission(engine.plan.name, options.session, body),
        priority=options.priority,
        not_before=options.not_before or 0.0,
        made_by=given.get("by", ""),
    )
    inbox = open_inbox(journal)
    entry = await inbox.submit(submission)
    return QueuedRun(entry, inbox, journal, partial(_read_result, engine, journal))


async def _read_result(engine: Engine[T], journal: Journal, request: str) -> Result[T] | None:
    return await engine.on_journal(journal).read_result(request)
