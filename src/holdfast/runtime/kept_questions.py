"""What of a question is kept: that it was asked, how it ended, and what a yes changed.

These are events of the run. Nothing here may wait for an answer.
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
from holdfast.core.kept_request import kept_request, known
from holdfast.core.machine import RunMachine
from holdfast.core.question_log import asked_key
from holdfast.core.requests import Answer, AnyRequest, ContinuationRequest, Continued, plain_form
from holdfast.core.run_state import Phase
from holdfast.journal.port import Journal
from holdfast.runtime.asking import Asking
from holdfast.runtime.leaving_open import TurnRecovery
from holdfast.runtime.notices import Channel
from holdfast.runtime.open_question import Ending, Receipt
from holdfast.runtime.plan import Plan


class AskingTurn(Protocol):
    """What a question needs of the turn that asks it."""

    machine: RunMachine
    plan: Plan
    channel: Channel | None
    deadline: float | None
    acted: set[str]
    run_id: str
    loop: asyncio.AbstractEventLoop
    beside: Journal | None
    unkept: BaseException | None
    recovery: TurnRecovery | None

    async def commit(self, event: Event) -> None:
        """Keep a fact."""
        ...

    async def believed(self) -> None:
        """Wait until nothing is being kept that is not believed yet."""
        ...

    async def until_kept(self) -> None:
        """Wait until nothing of the turn is on its way into the journal."""
        ...


async def keep_asked(run: AskingTurn, asking: Asking) -> float | None:
    """Keep the question, once; from when on an answer is too late, in seconds since the epoch."""
    key, at = asking.request.key, run.plan.clock.now()
    asked = run.machine.questions.asked.get(key)
    if asked is None:
        asked = QuestionAsked(
            asked_key(key),
            at,
            type(asking.request).__name__,
            asking.plain,
            "suspend" if asking.suspends else "hold",
            asking.before,
            asking.until(at),
        )
        await run.commit(asked)
    return asked.until


async def keep_end(run: AskingTurn, key: str, outcome: Ending, *, later: bool = False) -> None:
    """Keep how a question ended.

    Args:
        run: which asked it.
        key: of the question.
        outcome: how it ended.
        later: nobody waits for it any more; a question that is not open by now is left alone.
    """
    if later:
        await run.believed()
        if not is_open(run.machine, key):
            return
    at = run.plan.clock.now()
    if isinstance(outcome, Answer):
        await run.commit(QuestionAnswered(key, at, plain_form(outcome.value), later))
    else:
        why = "failed" if isinstance(outcome, AnswerTypeError) else outcome
        await run.commit(QuestionUnanswered(key, at, why, later))


async def extend(run: AskingTurn, request: AnyRequest, answer: object) -> None:
    """A yes to going on extends the limit, once."""
    machine = run.machine
    if not isinstance(request, ContinuationRequest) or not isinstance(answer, Continued):
        return
    if machine.phase is Phase.MODEL and machine.over_limit:
        key = extended_key(machine.turn, machine.iteration)
        more = answer.iterations or request.extension
        await run.commit(LimitExtended(key, run.plan.clock.now(), more))


def find_open(machine: RunMachine, key: str) -> QuestionAsked | None:
    """The question of this key, while it waits for an answer."""
    wanted = asked_key(key)
    return next((asked for asked in machine.questions.open if asked.key == wanted), None)


def is_open(machine: RunMachine, key: str) -> bool:
    """Whether the question of this key waits for an answer."""
    return find_open(machine, key) is not None


def answerable(machine: RunMachine, key: str, now: float) -> AnyRequest | Receipt:
    """The question that takes an answer now, or why none does.

    Args:
        machine: the run.
        key: of the question.
        now: seconds since the epoch.

    Raises:
        ConfigurationError: this process does not know the class of the question.
    """
    asked = find_open(machine, key)
    if asked is None:
        return receipt_for(machine, key)
    if asked.until is not None and now >= asked.until:
        return Receipt("late")
    return known(kept_request(asked))


def receipt_for(machine: RunMachine, key: str) -> Receipt:
    """What an answer gets for a question that is not open."""
    kept = machine.questions.ended.get(key)
    if kept is not None:
        return Receipt("answered" if kept.why is None else "late")
    return Receipt("late" if key in machine.questions.asked else "unknown")
