"""Puts a turn of an agent into the inbox of its journal.

Every argument is checked before anything is saved. This module must never drive a turn.
"""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any, TypeVar, cast

from holdfast.core.argument_checks import check_value
from holdfast.core.constraints import between
from holdfast.journal.inbox.entries import Submission
from holdfast.journal.inbox.opening_inbox import open_inbox
from holdfast.journal.journal_names import check_name
from holdfast.journal.port import Journal
from holdfast.resilience.system_clock import new_run_id
from holdfast.runtime.arguments.run_keywords import (
    SUBMIT_NAMES,
    RunKeywords,
    SubmitKeywords,
    check_names,
)
from holdfast.runtime.engine import Engine
from holdfast.runtime.engine_copies import copy_on_journal
from holdfast.runtime.queued_runs.past_results import read_result
from holdfast.runtime.queued_runs.queued_run import QueuedRun
from holdfast.runtime.queued_runs.queued_turn import digest_submission, encode_turn
from holdfast.runtime.result import Result
from holdfast.runtime.turn_state.turn_input import Prompt

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
    priority, not_before = given.pop("priority", 0), given.pop("not_before", None)
    check_value("priority", priority, _PRIORITY)
    check_value("not_before", not_before, _TIME)
    tenant, output = given.pop("tenant", None), given.pop("output", None)
    journal = engine.require_journal("submit the turn to")
    if tenant is not None:
        journal = journal.for_tenant(check_name("tenant", tenant))
    turn = engine.make_turn(prompt, output, cast("RunKeywords[Any]", given))
    body = encode_turn(turn)
    submission = Submission(
        tenant=journal.tenant,
        agent=engine.plan.name,
        session=turn.session or new_run_id(),
        request=turn.request or new_run_id(),
        body=body,
        digest=digest_submission(engine.plan.name, turn.session, body),
        priority=priority,
        not_before=not_before or 0.0,
        made_by=given.get("by", ""),
    )
    inbox = open_inbox(journal)
    entry = await inbox.submit(submission)
    return QueuedRun(entry, inbox, journal, partial(_read_result, engine, journal))


async def _read_result(engine: Engine[T], journal: Journal, request: str) -> Result[T] | None:
    return await read_result(copy_on_journal(engine, journal), request)
