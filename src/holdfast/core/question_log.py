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


def scope_of(key: str) -> str:
    """Who asks.

    >>> scope_of("t1.i0.tool.2.ask.0")
    't1.i0.tool.2'
    """
    return key.partition(ASK)[0]


class QuestionLog:
    """The questions of one turn.

    `waited` is for how many seconds somebody was being asked, or had answered a run that was not
    under way; times that overlap count once. `due` are those who asked and were answered while
    they did not wait, with whether they may be run again; `resumed` counts how often such answers
    were taken up.
    """

    __slots__ = ("_open", "_since", "asked", "due", "ended", "resumed", "waited")

    def __init__(self) -> None:
        self.asked: dict[str, QuestionAsked] = {}
        self.ended: dict[str, Kept] = {}
        self.waited = 0.0
        self.due: dict[str, bool] = {}
        self.resumed = 0
        self._open: set[str] = set()
        self._since = 0.0

    @property
    def open(self) -> tuple[QuestionAsked, ...]:
        """What waits for an answer, in the order of asking."""
        return tuple(asked for key, asked in self.asked.items() if key in self._open)

    @property
    def waits(self) -> bool:
        """Whether the run was left to wait for an answer, or has one that it did not take up."""
        return bool(self.due) or any(asked.wait == "suspend" for asked in self.open)

    @property
    def rested(self) -> frozenset[str]:
        """Who stands at a question, with nothing done that must not be done again."""
        standing = {
            scope_of(asked.key) for asked in self.open if asked.before or asked.wait == "suspend"
        }
        return frozenset(standing.union(scope for scope, again in self.due.items() if again))

    @property
    def unbegun(self) -> frozenset[str]:
        """Which effects have not begun, as a hook before them waits for an answer."""
        return frozenset(scope_of(asked.key) for asked in self.open if asked.before)

    def expects(self, event: QuestionAsked | QuestionAnswered | QuestionUnanswered) -> bool:
        """Whether the event is about a question that is new, or open."""
        if isinstance(event, QuestionAsked):
            return event.key.endswith(ASKED) and event.key.removesuffix(ASKED) not in self.asked
        return event.key in self._open

    def ask(self, event: QuestionAsked) -> None:
        """Take a question."""
        key = event.key.removesuffix(ASKED)
        if not self._stands_still:
            self._since = event.at
        self.asked[key] = event
        self._open.add(key)

    def end(self, event: QuestionAnswered | QuestionUnanswered) -> None:
        """Take the end of a question."""
        scope = scope_of(event.key)
        if event.later:
            self.due[scope] = scope in self.rested
        if isinstance(event, QuestionAnswered):
            self.ended[event.key] = Kept(event.answer)
        else:
            self.ended[event.key] = Kept(why=event.why)
        self._go_on(event.at, {event.key}, set())

    def stood_still(self, at: float) -> float:
        """Seconds until now that are none of the turn's, as somebody was asked."""
        if self._open or self.due:
            return self.waited + max(0.0, at - self._since)
        return self.waited

    def resume(self, at: float) -> None:
        """Those who are due are run again; from now on they may have done anything."""
        self.resumed += 1
        self._go_on(at, set(), set(self.due))

    def leave(self, scope: str, at: float) -> None:
        """The effect `scope` is over: whatever it asked, it waits for no answer any more."""
        if self._open or self.due:
            self._go_on(at, {key for key in self._open if scope_of(key) == scope}, {scope})

    def leave_all(self, at: float) -> None:
        """Nothing that may have asked is under way any more."""
        if self._open or self.due:
            self._go_on(at, self._open.copy(), set(self.due))

    @property
    def _stands_still(self) -> bool:
        return bool(self._open or self.due)

    def _go_on(self, at: float, closed: set[str], done: set[str]) -> None:
        stood = self._stands_still
        self._open -= closed
        for scope in done:
            self.due.pop(scope, None)
        if stood and not self._stands_still:
            self.waited += max(0.0, at - self._since)
