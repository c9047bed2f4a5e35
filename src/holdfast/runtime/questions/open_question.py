"""An open question, and the receipt for an answer.

The first outcome wins, from any thread. If the asker is suspended before that, the question stays
open while its run is in progress. This module must not interpret answers.
"""

from __future__ import annotations

import asyncio
import threading
from typing import Literal, TypeAlias

from msgspec import Struct

from holdfast.core.argument_checks import check_value
from holdfast.core.errors import AnswerTypeError, UnansweredReason
from holdfast.core.questions import Answer, AnyAnswer, AnyQuestion, Question
from holdfast.runtime.plan import AgentPlan


class Receipt(Struct, frozen=True):
    """Whether an answer was accepted, and otherwise the reason.

    `reason` is empty for an accepted answer. Otherwise it is "unknown" (there is no such question),
    "mismatch" (the answer belongs to another question with the same key, such as that of another run,
    or of an earlier session of the same name), "answered" (it has an answer already) or "late" (nobody
    waits for an answer any more, or the answer has expired). The event `QuestionAnswered` shows that
    the answer was saved.

    >>> bool(Receipt("late"))
    False
    """

    reason: Literal["", "unknown", "mismatch", "answered", "late"] = ""

    def __bool__(self) -> bool:
        return not self.reason


class Suspended(BaseException):
    """Suspends the tool or hook that asked; it runs again when there is an answer.

    It derives from BaseException, so that a tool that catches every Exception does not catch it.

    Args:
        keys: the keys of the questions.
    """

    def __init__(self, keys: frozenset[str]) -> None:
        super().__init__(f"waits for an answer to {', '.join(sorted(keys))}")
        self.keys = keys


def address_answer(to: AnyAnswer | AnyQuestion, value: object) -> AnyAnswer:
    """Return the answer with the key and the binding of its question.

    Args:
        to: an `Answer`, which has them already; or the question.
        value: the answer, when `to` is a question.

    Raises:
        ConfigurationError: `to` is neither. A key alone does not name the approved arguments.
    """
    check_value("to", to, Answer | Question)
    if isinstance(to, Answer):
        return to
    return Answer(to.key, value, to.binding)


QuestionOutcome: TypeAlias = Answer[object] | UnansweredReason | AnswerTypeError
SettledOutcome: TypeAlias = QuestionOutcome | Literal["closed"]
"""The outcome of a question. "closed" means that its run is no longer in progress here; the saved
run can still accept an answer."""
Party: TypeAlias = Literal["handler", "reader"]


class OpenQuestion:
    """One open question. `settle` may be called from any thread; the first call wins.

    Args:
        question: the question, with its key and its binding.
        plan: the agent that asks.
        parties: who may answer; when none is left, `leave_unanswered` is called.
        suspends: whether an unanswered question stays open; otherwise it ends with "nobody".
    """

    __slots__ = (
        "_event",
        "_lock",
        "_loop",
        "_parties",
        "_settled",
        "outcome",
        "plan",
        "question",
        "suspends",
    )

    def __init__(
        self,
        question: AnyQuestion,
        plan: AgentPlan,
        parties: frozenset[Party] = frozenset(),
        *,
        suspends: bool = False,
    ) -> None:
        self.question = question
        self.plan = plan
        self.suspends = suspends
        self.outcome: SettledOutcome | None = None
        self._parties = set(parties)
        self._loop = asyncio.get_running_loop()
        self._event = asyncio.Event()
        self._settled = asyncio.Event()
        self._lock = threading.Lock()

    def settle(self, outcome: SettledOutcome) -> bool:
        """Set the outcome; returns whether it was the first one."""
        with self._lock:
            if self.outcome is not None or self._loop.is_closed():
                return False
            self.outcome = outcome
            self._loop.call_soon_threadsafe(self._wake_waiters)
        return True

    def _wake_waiters(self) -> None:
        self._event.set()
        self._settled.set()

    def remove_party(self, party: Party) -> None:
        """Note that this party has no answer; must be called on the event loop of the run."""
        self._parties.discard(party)
        if not self._parties:
            self.leave_unanswered()

    def leave_unanswered(self) -> None:
        """Stop waiting, because nobody will answer while the run waits."""
        if self.suspends:
            self._event.set()
        else:
            self.settle("nobody")

    async def wait(self) -> SettledOutcome | None:
        """Wait for the outcome; None when the asker is to be suspended."""
        await self._event.wait()
        return self.outcome

    async def wait_settled(self) -> SettledOutcome | None:
        """Wait for the outcome, even after the asker was suspended."""
        await self._settled.wait()
        return self.outcome
