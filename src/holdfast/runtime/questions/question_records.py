"""Saves a question as events of its run: the question, its outcome, and an extended limit.

This module must not wait for an answer.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

from holdfast.core.effects import extended_key
from holdfast.core.errors import AnswerTypeError
from holdfast.core.events import (
    Event,
    LimitExtended,
    QuestionAnswered,
    QuestionAsked,
    QuestionUnanswered,
)
from holdfast.core.machine import SessionMachine
from holdfast.core.question_log import asked_key
from holdfast.core.questions import Answer, AnyQuestion, ContinuationQuestion, Continued, plain_form
from holdfast.core.recorded_questions import require_known_kind, restore_question
from holdfast.core.session_state import Phase
from holdfast.journal.port import Journal
from holdfast.runtime.channel import Channel
from holdfast.runtime.plan import AgentPlan
from holdfast.runtime.questions.open_question import QuestionOutcome, Receipt
from holdfast.runtime.questions.question_checks import PendingQuestion
from holdfast.runtime.turn_state.effect_table import EffectTable
from holdfast.runtime.turn_state.leaving_open import TurnRecovery


class AskingLog(Protocol):
    """The log that saves the events of a turn that asks."""

    error: BaseException | None

    async def commit(self, event: Event) -> None:
        """Save an event and apply it."""
        ...

    async def wait_applied(self) -> None:
        """Wait until every event that is being saved is applied."""
        ...


class AskingContext(Protocol):
    """The context in which a turn that asks runs."""

    @property
    def channel(self) -> Channel | None:
        """The channel on which questions are published."""
        ...

    @property
    def child_journal(self) -> Journal | None:
        """The journal that saves the runs of subagents."""
        ...


class AskingTurn(Protocol):
    """What a question needs of the turn that asks it."""

    machine: SessionMachine
    plan: AgentPlan
    deadline: float | None
    effects: EffectTable
    run_id: str
    loop: asyncio.AbstractEventLoop
    recovery: TurnRecovery | None

    @property
    def context(self) -> AskingContext:
        """The context in which the turn runs."""
        ...

    @property
    def log(self) -> AskingLog:
        """The log that saves its events."""
        ...


async def record_question(run: AskingTurn, pending: PendingQuestion) -> float | None:
    """Save the question if it is new, and return its expiry in seconds since the epoch."""
    key, at = pending.question.key, run.plan.clock.now()
    asked = run.machine.questions.questions.get(key)
    if asked is None:
        asked = QuestionAsked(
            key=asked_key(key),
            at=at,
            kind=type(pending.question).__name__,
            question=pending.plain,
            wait="suspend" if pending.suspends else "hold",
            before_effect=pending.before_effect,
            until=pending.compute_expiry(at),
        )
        await run.log.commit(asked)
    return asked.until


async def record_outcome(
    run: AskingTurn, key: str, outcome: QuestionOutcome, *, later: bool = False
) -> None:
    """Save the outcome of a question.

    Args:
        run: the turn that asked it.
        key: the key of the question.
        outcome: the outcome.
        later: whether the asker was suspended before; a question that is no longer open is then
            ignored.
    """
    if later:
        await run.log.wait_applied()
        if not is_open(run.machine, key):
            return
    at = run.plan.clock.now()
    if isinstance(outcome, Answer):
        await run.log.commit(QuestionAnswered(key, at, plain_form(outcome.value), later))
    else:
        why = "failed" if isinstance(outcome, AnswerTypeError) else outcome
        await run.log.commit(QuestionUnanswered(key, at, why, later))


async def extend_limit(run: AskingTurn, question: AnyQuestion, answer: object) -> None:
    """Extend the limit, once, if the answer lets the turn continue."""
    machine = run.machine
    if not isinstance(question, ContinuationQuestion) or not isinstance(answer, Continued):
        return
    if machine.phase is Phase.MODEL and machine.is_over_limit:
        key = extended_key(machine.turn, machine.iteration)
        more = answer.iterations or question.extension
        await run.log.commit(LimitExtended(key, run.plan.clock.now(), more))


def find_open_question(machine: SessionMachine, key: str) -> QuestionAsked | None:
    """Return the question with this key while it waits for an answer."""
    wanted = asked_key(key)
    return next((asked for asked in machine.questions.open_questions if asked.key == wanted), None)


def is_open(machine: SessionMachine, key: str) -> bool:
    """Whether the question with this key waits for an answer."""
    return find_open_question(machine, key) is not None


def find_answerable(machine: SessionMachine, key: str, now: float) -> AnyQuestion | Receipt:
    """Return the question if it accepts an answer now, otherwise a receipt with the reason.

    Args:
        machine: the run.
        key: the key of the question.
        now: seconds since the epoch.

    Raises:
        ConfigurationError: this process does not know the class of the question.
    """
    asked = find_open_question(machine, key)
    if asked is None:
        return receipt_for(machine, key)
    if asked.until is not None and now >= asked.until:
        return Receipt("late")
    return require_known_kind(restore_question(asked))


def receipt_for(machine: SessionMachine, key: str) -> Receipt:
    """Return the receipt for an answer to a question that is not open."""
    kept = machine.questions.outcomes.get(key)
    if kept is not None:
        return Receipt("answered" if kept.why is None else "late")
    return Receipt("late" if key in machine.questions.questions else "unknown")
