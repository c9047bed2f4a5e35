"""One question that waits for its end, and the receipt that an answer gets.

The first end wins, whatever thread it comes from. Whoever asked may leave before that, and the
question stays open for as long as its run lives. Nothing here may know what an answer means.
"""

from __future__ import annotations

import asyncio
import threading
from typing import Literal, TypeAlias

from msgspec import Struct

from holdfast.core.errors import AnswerTypeError, UnansweredReason
from holdfast.core.questions import Answer, AnyAnswer, AnyQuestion, Question


class Receipt(Struct, frozen=True):
    """Whether an answer was accepted, and otherwise the reason.

    `reason` says why it was not: there is no such question, it has an answer already, or nobody
    waits any more. Whether the answer was kept is told by the event `QuestionAnswered`.

    >>> bool(Receipt("late"))
    False
    """

    reason: Literal["", "unknown", "answered", "late"] = ""

    def __bool__(self) -> bool:
        return not self.reason


class Suspended(BaseException):
    """Whoever asked leaves, and is run again when there is an answer.

    No `Exception`, so that a tool that catches what goes wrong lets it pass.

    Args:
        keys: of the questions.
    """

    def __init__(self, keys: frozenset[str]) -> None:
        super().__init__(f"waits for an answer to {', '.join(sorted(keys))}")
        self.keys = keys


def address_answer(to: AnyAnswer | AnyQuestion | str, value: object) -> AnyAnswer:
    """The answer with the key of its question.

    Args:
        to: an answer that is addressed already; or the request, or its key.
        value: the answer, when `to` is a request or a key.
    """
    if isinstance(to, Answer):
        return to
    return Answer(to.key if isinstance(to, Question) else to, value)


QuestionOutcome: TypeAlias = Answer[object] | UnansweredReason | AnswerTypeError
SettledOutcome: TypeAlias = QuestionOutcome | Literal["closed"]
"""How a question ended; "closed" when its run came to rest, where an answer is still taken."""
Party: TypeAlias = Literal["handler", "reader"]


class OpenQuestion:
    """One open question. `settle` may be called from any thread; the first call wins.

    Args:
        question: what is asked.
        parties: who may answer; when none is left, `deserted` is done.
        suspends: what that is: to leave the question open, or to end it with "nobody".
    """

    __slots__ = (
        "_event",
        "_lock",
        "_loop",
        "_parties",
        "_settled",
        "outcome",
        "question",
        "suspends",
    )

    def __init__(
        self,
        question: AnyQuestion,
        parties: frozenset[Party] = frozenset(),
        *,
        suspends: bool = False,
    ) -> None:
        self.question = question
        self.suspends = suspends
        self.outcome: SettledOutcome | None = None
        self._parties = set(parties)
        self._loop = asyncio.get_running_loop()
        self._event = asyncio.Event()
        self._settled = asyncio.Event()
        self._lock = threading.Lock()

    def settle(self, outcome: SettledOutcome) -> bool:
        """Whether this outcome is the one that counts."""
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
        """This one has no answer, on the loop of the run; when nobody is left, nobody is waited for."""
        self._parties.discard(party)
        if not self._parties:
            self.leave_unanswered()

    def leave_unanswered(self) -> None:
        """Nobody will answer while the run waits."""
        if self.suspends:
            self._event.set()
        else:
            self.settle("nobody")

    async def wait(self) -> SettledOutcome | None:
        """The outcome that counts; None when it is time to leave."""
        await self._event.wait()
        return self.outcome

    async def wait_settled(self) -> SettledOutcome | None:
        """The outcome that counts, also after everybody left."""
        await self._settled.wait()
        return self.outcome
