"""The questions of a turn and their answers, as a fold over events, and questions restored from events.

Only a class that this process has imported can name the type that an answer must have. A question of any
other kind is restored as `UnknownQuestion`; the type of its answer is never guessed. The log must never
hold a waiter or a handler. Those belong to one process, and this state is rebuilt from the journal in
another.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from hashlib import blake2b

import msgspec
from msgspec import Struct

from holdfast.core.errors import ConfigurationError, IllegalEventError, UnansweredReason
from holdfast.core.events import QuestionAnswered, QuestionAsked, QuestionUnanswered
from holdfast.core.questions import AnyQuestion, Question

ASK = ".ask."
ASKED = ".asked"
_encode = msgspec.json.Encoder(order="deterministic").encode


class QuestionOutcome(Struct, frozen=True):
    """How a question ended: the answer as JSON values, or `why` there is none.

    `by` is who gave the answer. After `expires_at`, in seconds since the epoch, it does not count.
    """

    answer: object = None
    why: UnansweredReason | None = None
    by: str = ""
    expires_at: float | None = None

    def why_unanswered(self, now: float) -> UnansweredReason | None:
        """Return why there is no answer at this time; None when there is one."""
        if self.expires_at is not None and now >= self.expires_at:
            return "expired"
        return self.why


def ask_key(scope: str, number: int) -> str:
    """`t1.i0.tool.2.ask.0`: the first question of that tool."""
    return f"{scope}{ASK}{number}"


def asked_key(key: str) -> str:
    """`t1.i0.tool.2.ask.0.asked`"""
    return key + ASKED


def asker_key(key: str) -> str:
    """The key of the effect that asks.

    >>> asker_key("t1.i0.tool.2.ask.0")
    't1.i0.tool.2'
    """
    return key.partition(ASK)[0]


class QuestionLog(Struct, eq=False):
    """The questions of one turn.

    An *asker* is the effect that asks, by its key. `waited_seconds` is the time in which a question
    was open, or was answered and the run had not resumed; times that overlap count once. `due_askers`
    are the askers that did not wait for their answer any more, with whether they may run again.
    `resume_count` counts how often such answers were used.
    """

    questions: dict[str, QuestionAsked] = {}
    outcomes: dict[str, QuestionOutcome] = {}
    waited_seconds: float = 0.0
    due_askers: dict[str, bool] = {}
    resume_count: int = 0
    _open_keys: dict[str, None] = {}
    _passed_on: dict[str, str] = {}
    _since: float = 0.0

    @property
    def open_questions(self) -> tuple[QuestionAsked, ...]:
        """The questions without an answer, in the order in which they were asked."""
        return tuple([self.questions[key] for key in self._open_keys])

    def find_open(self, key: str) -> QuestionAsked | None:
        """Return the question with this key while it waits for an answer."""
        return self.questions[key] if key in self._open_keys else None

    @property
    def is_waiting(self) -> bool:
        """Whether the run is suspended for an answer, or has an answer that it has not used yet."""
        return bool(self.due_askers) or any(
            asked.wait == "suspend" for asked in self.open_questions
        )

    @property
    def rerunnable_askers(self) -> frozenset[str]:
        """The askers that stopped at a question before they did anything that must not be repeated."""
        standing = {
            asker_key(asked.key)
            for asked in self.open_questions
            if asked.before_effect or asked.wait == "suspend"
        }
        return frozenset(standing.union(scope for scope, again in self.due_askers.items() if again))

    @property
    def unstarted_askers(self) -> frozenset[str]:
        """The effects that have not begun because a hook before them waits for an answer."""
        return frozenset(
            asker_key(asked.key) for asked in self.open_questions if asked.before_effect
        )

    def check_event(
        self,
        event: QuestionAsked | QuestionAnswered | QuestionUnanswered,
        scopes: tuple[str, ...],
    ) -> None:
        """Raise IllegalEventError unless the event asks a new question, or ends an open one.

        Args:
            event: the event.
            scopes: the keys of all that is in progress and may ask.
        """
        scope = event.key.partition(ASK)[0]
        if scope not in scopes:
            raise IllegalEventError(f"{event.key}: {scope!r} is not in progress, so it cannot ask")
        if isinstance(event, QuestionAsked):
            key = event.key.removesuffix(ASKED)
            fits, wanted = key != event.key and key not in self.questions, "new"
        else:
            fits, wanted = event.key in self._open_keys, "open"
        if not fits:
            kind = type(event).__name__
            raise IllegalEventError(f"{kind} {event.key}: the question is not {wanted}")

    def add_question(self, event: QuestionAsked) -> None:
        """Add a question."""
        key = event.key.removesuffix(ASKED)
        if not self.is_paused:
            self._since = event.at
        self.questions[key] = event
        if event.origin:
            self._passed_on[event.origin] = key
        self._open_keys[key] = None

    def close_question(self, event: QuestionAnswered | QuestionUnanswered) -> None:
        """Record the end of a question."""
        scope = asker_key(event.key)
        if event.deferred:
            self.due_askers[scope] = self._may_rerun(scope)
        if isinstance(event, QuestionAnswered):
            self.outcomes[event.key] = QuestionOutcome(
                event.answer, by=event.by, expires_at=event.expires_at
            )
        else:
            self.outcomes[event.key] = QuestionOutcome(why=event.why)
        self._remove_waiting(event.at, {event.key}, set())

    def find_passed_on(self, binding: str) -> QuestionOutcome | None:
        """Return the outcome of the question that passes on the question with this binding."""
        return self.outcomes.get(self._passed_on.get(binding, ""))

    def waiting_seconds(self, at: float) -> float:
        """The seconds up to `at` in which the turn waited for answers."""
        if self._open_keys or self.due_askers:
            return self.waited_seconds + max(0.0, at - self._since)
        return self.waited_seconds

    def resume_due(self, at: float) -> None:
        """The due askers run again. From now on they may have taken effect."""
        self.resume_count += 1
        self._remove_waiting(at, set(), set(self.due_askers))

    def close_asker(self, scope: str, at: float) -> None:
        """The effect `scope` has ended, and with it its open questions."""
        if self._open_keys or self.due_askers:
            self._remove_waiting(
                at, {key for key in self._open_keys if asker_key(key) == scope}, {scope}
            )

    def close_all(self, at: float) -> None:
        """Nothing that may have asked is in progress any more."""
        if self._open_keys or self.due_askers:
            self._remove_waiting(at, set(self._open_keys), set(self.due_askers))

    def _may_rerun(self, scope: str) -> bool:
        """Whether the asker is one of `rerunnable_askers`; found without going through all of them."""
        return self.due_askers.get(scope, False) or any(
            asker_key(asked.key) == scope and (asked.before_effect or asked.wait == "suspend")
            for asked in map(self.questions.__getitem__, self._open_keys)
        )

    @property
    def is_paused(self) -> bool:
        """Whether the time of the turn does not count, as it waits for an answer."""
        return bool(self._open_keys or self.due_askers)

    def _remove_waiting(self, at: float, closed: set[str], done: set[str]) -> None:
        was_paused = self.is_paused
        for key in closed:
            self._open_keys.pop(key, None)
        for scope in done:
            self.due_askers.pop(scope, None)
        if was_paused and not self.is_paused:
            self.waited_seconds += max(0.0, at - self._since)


class UnknownQuestion(Question[object], frozen=True, kw_only=True):
    """A question whose class this process does not know.

    Args:
        kind: the name of its class.
        content: its fields.
    """

    kind: str
    content: Mapping[str, object] = {}


def compute_binding(event: QuestionAsked, run_id: str) -> str:
    """Return a digest of the run, the question and its content.

    The nonce distinguishes questions that are otherwise equal, such as those of two sessions that had
    the same name one after the other.

    Args:
        event: the saved question.
        run_id: the run that asks it.
    """
    parts = (run_id, event.nonce, event.key, event.kind, event.question, event.origin)
    return blake2b(_encode(parts), digest_size=16).hexdigest()


def restore_question(event: QuestionAsked, run_id: str) -> AnyQuestion:
    """Return the question of a saved event, with its key and its binding.

    Args:
        event: the saved question.
        run_id: the run that asks it.

    >>> event = QuestionAsked("t1.i0.tool.0.ask.0.asked", 0.0, "Permit", {"tool": "pay"})
    >>> restore_question(event, "ada").content
    {'tool': 'pay'}
    """
    key, binding = event.key.removesuffix(ASKED), compute_binding(event, run_id)
    plain = event.question if isinstance(event.question, dict) else {}
    # In a notebook two classes may have one name; the newer definition counts.
    for kind in reversed(list(_subclasses_of(Question))):
        if kind.__name__ != event.kind:
            continue
        try:
            return msgspec.convert({**plain, "key": key, "binding": binding}, kind, str_keys=True)
        except (msgspec.ValidationError, ConfigurationError):
            continue
    return UnknownQuestion(key=key, binding=binding, kind=event.kind, content=plain)


def require_known_kind(question: AnyQuestion) -> AnyQuestion:
    """Return the question if this process knows its class. Raises ConfigurationError otherwise."""
    if isinstance(question, UnknownQuestion):
        raise ConfigurationError(
            "answer",
            f"belongs to a {question.kind}, which this process does not know",
            fix="Import the module that defines it",
        )
    return question


def _subclasses_of(parent: type[AnyQuestion]) -> Iterator[type[AnyQuestion]]:
    for kind in parent.__subclasses__():
        yield kind
        yield from _subclasses_of(kind)
