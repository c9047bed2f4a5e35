"""Saves a question as events of its run: the question, its outcome, and an extended limit.

This module must not wait for an answer.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

import msgspec

from holdfast.core.acts import Act
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
from holdfast.core.question_log import (
    ASKED,
    compute_binding,
    require_known_kind,
    restore_question,
)
from holdfast.core.questions import (
    Answer,
    AnyAnswer,
    AnyQuestion,
    ContinuationQuestion,
    Continued,
    Timeout,
    plain_form,
)
from holdfast.core.session_state import Phase
from holdfast.journal.port import Journal
from holdfast.resilience.system_clock import new_nonce
from holdfast.runtime.plan import AgentPlan
from holdfast.runtime.questions.open_question import QuestionOutcome, Receipt
from holdfast.runtime.questions.question_checks import PendingQuestion
from holdfast.runtime.turn_state.channel import Channel
from holdfast.runtime.turn_state.effect_table import EffectTable
from holdfast.runtime.turn_state.leaving_open import Shutdown, TurnRecovery


class AskingLog(Protocol):
    """The log that saves the events of a turn that asks."""

    error: BaseException | None

    async def commit(self, event: Event, *, act: Act | None = None) -> None:
        """Save an event and the act that writes it, and apply it."""
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
    """The parts of a turn that its questions need."""

    machine: SessionMachine
    plan: AgentPlan
    deadline: float | None
    effects: EffectTable
    run_id: str
    loop: asyncio.AbstractEventLoop
    recovery: TurnRecovery | None
    shutdown: Shutdown | None

    @property
    def context(self) -> AskingContext:
        """The context in which the turn runs."""
        ...

    @property
    def log(self) -> AskingLog:
        """The log that saves its events."""
        ...


def prepare_question(
    run: AskingTurn, question: AnyQuestion, event: QuestionAsked, timeout: Timeout
) -> PendingQuestion:
    """Return the question with its key and its binding, and its complete event.

    Args:
        run: the turn that asks.
        question: the question.
        event: a saved event, or a new one. A new one gets its time, its expiry and its nonce here,
            and `wait` and `before_effect` are set already.
        timeout: how long an answer may take.
    """
    suspends = event.wait == "suspend"
    if event.key.removesuffix(ASKED) not in run.machine.questions.questions:
        at = run.plan.clock.now()
        until = at + timeout if suspends and isinstance(timeout, int | float) else None
        event = msgspec.structs.replace(event, at=at, until=until, nonce=new_nonce())
    key, binding = event.key.removesuffix(ASKED), compute_binding(event, run.run_id)
    bound = msgspec.structs.replace(question, key=key, binding=binding)
    return PendingQuestion(bound, event, timeout, suspends)


async def record_question(run: AskingTurn, pending: PendingQuestion) -> None:
    """Save the question if it is new."""
    if pending.question.key not in run.machine.questions.questions:
        await run.log.commit(pending.event)


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
        await run.log.commit(answer_event(outcome, at, deferred=later), act=outcome.act)
    else:
        why = "failed" if isinstance(outcome, AnswerTypeError) else outcome
        await run.log.commit(QuestionUnanswered(key, at, why, later))


def answer_event(answer: AnyAnswer, at: float, *, deferred: bool) -> QuestionAnswered:
    """Return the event that saves an answer."""
    return QuestionAnswered(
        key=answer.key,
        at=at,
        answer=plain_form(answer.value),
        deferred=deferred,
        by=answer.by,
        expires_at=answer.expires_at,
    )


async def extend_limit(run: AskingTurn, question: AnyQuestion, answer: object) -> None:
    """Extend the limit, once, if the answer lets the turn continue."""
    machine = run.machine
    if not isinstance(question, ContinuationQuestion) or not isinstance(answer, Continued):
        return
    if machine.phase is Phase.MODEL and machine.is_over_limit():
        key = extended_key(machine.turn, machine.iteration)
        more = answer.iterations or question.extension
        await run.log.commit(LimitExtended(key, run.plan.clock.now(), more))


def find_open_question(machine: SessionMachine, key: str) -> QuestionAsked | None:
    """Return the question with this key while it waits for an answer."""
    return machine.questions.find_open(key)


def is_open(machine: SessionMachine, key: str) -> bool:
    """Whether the question with this key waits for an answer."""
    return find_open_question(machine, key) is not None


def find_answerable(
    machine: SessionMachine, run_id: str, key: str, now: float
) -> AnyQuestion | Receipt:
    """Return the question if it accepts an answer now, otherwise a receipt with the reason.

    Args:
        machine: the run.
        run_id: the id of the run.
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
    return require_known_kind(restore_question(asked, run_id))


def receipt_for(machine: SessionMachine, key: str) -> Receipt:
    """Return the receipt for an answer to a question that is not open."""
    kept = machine.questions.outcomes.get(key)
    if kept is not None:
        return Receipt("answered" if kept.why is None else "late")
    return Receipt("late" if key in machine.questions.questions else "unknown")
