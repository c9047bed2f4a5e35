"""What was asked and answered in a turn, as a fold over the events of questions.

It must never hold a waiter or a handler: those live in the process, and this survives it.
"""

from __future__ import annotations

from msgspec import Struct

from holdfast.core.errors import Unanswered
from holdfast.core.events import QuestionAnswered, QuestionAsked, QuestionUnanswered

ASK = ".ask."
ASKED = ".asked"


class Kept(Struct, frozen=True):
    """How a question ended: `why` when nobody answered, otherwise the answer in plain form."""

    answer: object = None
    why: Unanswered | None = None


def ask_key(scope: str, number: int) -> str:
    """`t1.i0.tool.2.ask.0`: the first question of that tool."""
    return f"{scope}{ASK}{number}"


def asked_key(key: str) -> str:
    """`t1.i0.tool.2.ask.0.asked`"""
    return key + ASKED


class QuestionLog:
    """The questions of one turn.

    `waited` is for how many seconds somebody was being asked; questions that overlap count once.
    """

    __slots__ = ("_open", "_since", "asked", "ended", "waited")

    def __init__(self) -> None:
        self.asked: dict[str, QuestionAsked] = {}
        self.ended: dict[str, Kept] = {}
        self.waited = 0.0
        self._open: set[str] = set()
        self._since = 0.0

    @property
    def open(self) -> tuple[QuestionAsked, ...]:
        """What waits for an answer, in the order of asking."""
        return tuple(asked for key, asked in self.asked.items() if key in self._open)

    def permission_is_open(self, scope: str, source: str) -> bool:
        """Whether `source` asked for the permission of the effect `scope`, and has no answer."""
        return any(
            asked.key.partition(ASK)[0] == scope
            and isinstance(asked.request, dict)
            and asked.request.get("source") == source
            for asked in self.open
        )

    def expects(self, event: QuestionAsked | QuestionAnswered | QuestionUnanswered) -> bool:
        """Whether the event is about a question that is new, or open."""
        if isinstance(event, QuestionAsked):
            return event.key.endswith(ASKED) and event.key.removesuffix(ASKED) not in self.asked
        return event.key in self._open

    def ask(self, event: QuestionAsked) -> None:
        """Take a question."""
        key = event.key.removesuffix(ASKED)
        if not self._open:
            self._since = event.at
        self.asked[key] = event
        self._open.add(key)

    def end(self, event: QuestionAnswered | QuestionUnanswered) -> None:
        """Take the end of a question."""
        if isinstance(event, QuestionAnswered):
            self.ended[event.key] = Kept(event.answer)
        else:
            self.ended[event.key] = Kept(why=event.why)
        self._close({event.key}, event.at)

    def leave(self, scope: str, at: float) -> None:
        """The effect `scope` is over: whatever it asked, it waits for no answer any more."""
        if self._open:
            self._close({key for key in self._open if key.partition(ASK)[0] == scope}, at)

    def leave_all(self, at: float) -> None:
        """Nothing that may have asked is under way any more."""
        self._close(self._open.copy(), at)

    def _close(self, keys: set[str], at: float) -> None:
        was_open = bool(self._open)
        self._open -= keys
        if was_open and not self._open:
            self.waited += max(0.0, at - self._since)
