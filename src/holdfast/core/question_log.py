"""What was asked and answered in a turn, as a fold over the events of questions.

It must never hold a waiter or a handler: those live in the process, and this survives it.
"""

from __future__ import annotations

from msgspec import Struct

from holdfast.core.errors import UnansweredReason
from holdfast.core.events import QuestionAnswered, QuestionAsked, QuestionUnanswered

ASK = ".ask."
ASKED = ".asked"


class QuestionOutcome(Struct, frozen=True):
    """How a question ended: `why` when nobody answered, otherwise the answer in plain form."""

    answer: object = None
    why: UnansweredReason | None = None


def ask_key(scope: str, number: int) -> str:
    """`t1.i0.tool.2.ask.0`: the first question of that tool."""
    return f"{scope}{ASK}{number}"


def asked_key(key: str) -> str:
    """`t1.i0.tool.2.ask.0.asked`"""
    return key + ASKED


def asker_key(key: str) -> str:
    """Who asks.

    >>> asker_key("t1.i0.tool.2.ask.0")
    't1.i0.tool.2'
    """
    return key.partition(ASK)[0]


class QuestionLog:
    """The questions of one turn.

    `waited_seconds` is for how many seconds somebody was being asked, or had answered a run that was not
    under way; times that overlap count once. `due_askers` are those who asked and were answered while
    they did not wait, with whether they may be run again; `resume_count` counts how often such answers
    were taken up.
    """

    __slots__ = (
        "_open_keys",
        "_since",
        "due_askers",
        "outcomes",
        "questions",
        "resume_count",
        "waited_seconds",
    )

    def __init__(self) -> None:
        self.questions: dict[str, QuestionAsked] = {}
        self.outcomes: dict[str, QuestionOutcome] = {}
        self.waited_seconds = 0.0
        self.due_askers: dict[str, bool] = {}
        self.resume_count = 0
        self._open_keys: set[str] = set()
        self._since = 0.0

    @property
    def open_questions(self) -> tuple[QuestionAsked, ...]:
        """What waits for an answer, in the order of asking."""
        return tuple(asked for key, asked in self.questions.items() if key in self._open_keys)

    @property
    def is_waiting(self) -> bool:
        """Whether the run was left to wait for an answer, or has one that it did not take up."""
        return bool(self.due_askers) or any(
            asked.wait == "suspend" for asked in self.open_questions
        )

    @property
    def rerunnable_askers(self) -> frozenset[str]:
        """Who stands at a question, with nothing done that must not be done again."""
        standing = {
            asker_key(asked.key)
            for asked in self.open_questions
            if asked.before_effect or asked.wait == "suspend"
        }
        return frozenset(standing.union(scope for scope, again in self.due_askers.items() if again))

    @property
    def unstarted_askers(self) -> frozenset[str]:
        """Which effects have not begun, as a hook before them waits for an answer."""
        return frozenset(
            asker_key(asked.key) for asked in self.open_questions if asked.before_effect
        )

    def accepts_event(self, event: QuestionAsked | QuestionAnswered | QuestionUnanswered) -> bool:
        """Whether the event is about a question that is new, or open."""
        if isinstance(event, QuestionAsked):
            return event.key.endswith(ASKED) and event.key.removesuffix(ASKED) not in self.questions
        return event.key in self._open_keys

    def add_question(self, event: QuestionAsked) -> None:
        """Take a question."""
        key = event.key.removesuffix(ASKED)
        if not self._is_paused:
            self._since = event.at
        self.questions[key] = event
        self._open_keys.add(key)

    def close_question(self, event: QuestionAnswered | QuestionUnanswered) -> None:
        """Take the end of a question."""
        scope = asker_key(event.key)
        if event.deferred:
            self.due_askers[scope] = scope in self.rerunnable_askers
        if isinstance(event, QuestionAnswered):
            self.outcomes[event.key] = QuestionOutcome(event.answer)
        else:
            self.outcomes[event.key] = QuestionOutcome(why=event.why)
        self._remove_waiting(event.at, {event.key}, set())

    def waiting_seconds(self, at: float) -> float:
        """Seconds until now that are none of the turn's, as somebody was asked."""
        if self._open_keys or self.due_askers:
            return self.waited_seconds + max(0.0, at - self._since)
        return self.waited_seconds

    def resume_due(self, at: float) -> None:
        """Those who are due are run again; from now on they may have done anything."""
        self.resume_count += 1
        self._remove_waiting(at, set(), set(self.due_askers))

    def close_asker(self, scope: str, at: float) -> None:
        """The effect `scope` is over: whatever it asked, it waits for no answer any more."""
        if self._open_keys or self.due_askers:
            self._remove_waiting(
                at, {key for key in self._open_keys if asker_key(key) == scope}, {scope}
            )

    def close_all(self, at: float) -> None:
        """Nothing that may have asked is under way any more."""
        if self._open_keys or self.due_askers:
            self._remove_waiting(at, self._open_keys.copy(), set(self.due_askers))

    @property
    def _is_paused(self) -> bool:
        return bool(self._open_keys or self.due_askers)

    def _remove_waiting(self, at: float, closed: set[str], done: set[str]) -> None:
        stood = self._is_paused
        self._open_keys -= closed
        for scope in done:
            self.due_askers.pop(scope, None)
        if stood and not self._is_paused:
            self.waited_seconds += max(0.0, at - self._since)
