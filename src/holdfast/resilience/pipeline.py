"""How strategies compose: each wraps an operation, and outcomes are values.

A strategy takes an operation and returns an operation of the same type. The wrapping happens once,
when the pipeline is made, so a strategy that is absent costs nothing. An operation must never raise
for a failure of the outside world: it returns `Failed`. A cancellation is never an outcome; it is
raised through all strategies.

The order is fixed, outermost first, and a pipeline of another order cannot be made:

    format > metrics > deadline > cache > fallback > retry > hedge > breaker > limiter > timeout > call

Formatting is outermost, because retry cannot classify an error that is already text. Retry is
outside the breaker, so that it can wait until an open breaker may close. The limiter is inside both,
so that a call that waits for its next attempt takes no place in the queue.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Generic, Protocol, TypeAlias, TypeVar

from msgspec import Struct

from holdfast.core.argument_checks import check_fields
from holdfast.core.errors import ConfigurationError, ErrorInfo, HoldfastError, read_error_info
from holdfast.core.events import FailedTarget
from holdfast.core.messages import Reply
from holdfast.core.notices import Notice, RetryScheduled
from holdfast.resilience.clock import Clock, Rng

P = TypeVar("P")
T = TypeVar("T")

ORDER = (
    "format",
    "metrics",
    "deadline",
    "cache",
    "fallback",
    "retry",
    "hedge",
    "breaker",
    "limiter",
    "timeout",
)
"""The names of the strategies, outermost first."""


class Done(Struct, Generic[T], frozen=True):
    """The operation returned a value.

    Args:
        value: the return value.
        attempts: the number of attempts that this took.
        tried: the targets that failed before.
        carry: the values that the failed attempts before left, as the operation recorded them.
        resumes_at: on the monotonic clock, when the other side takes the next call, if it said that
            it takes none before.
    """

    value: T
    attempts: int = 1
    tried: tuple[FailedTarget, ...] = ()
    carry: Carry | None = None
    resumes_at: float | None = None


class Failed(Struct, frozen=True):
    """The operation failed, with an exception and its info.

    Args:
        error: the exception.
        info: the facts that are known about it; they may be more than the exception says.
        attempts: the number of attempts that were made.
        may_repeat: False when the operation may have taken effect and must not be done twice.
        sent: False when the operation was not started (an open breaker, a full queue, a server that
            loads its model); that is not an attempt, and says nothing about the endpoint.
        tried: the targets that failed before this one.
        out_of_time: True when it was given up because its time was over; a caller with more time
            may succeed.
        carry: from the operation, the values that the next attempt can use; from a strategy, those that were carried
            to the attempt that failed.
    """

    error: BaseException
    info: ErrorInfo
    attempts: int = 1
    may_repeat: bool = True
    sent: bool = True
    tried: tuple[FailedTarget, ...] = ()
    out_of_time: bool = False
    carry: Carry | None = None


def failed_outcome(error: HoldfastError) -> Failed:
    """The outcome for an exception of Holdfast."""
    return Failed(error, read_error_info(error))


def unsent_outcome(error: HoldfastError) -> Failed:
    """The outcome of an operation that was rejected before it started."""
    return Failed(error, read_error_info(error), attempts=0, sent=False)


Outcome: TypeAlias = Done[T] | Failed
"""How a call ended: `Done` with its value, or `Failed` with its error."""


class ExecutionContext(Struct, frozen=True):
    """The context that the operations of one run share: the clock, randomness, and the reader of notices.

    `publish` and `ready` are None when nobody listens. `ready` waits until the listener has caught
    up, so that a slow reader slows the socket and does not fill the memory. `is_watched` says whether
    the listener reads deltas as they arrive; None if it always does. `keep_partial` is called
    with the partial reply when an attempt is cancelled, and `note_retry` with each scheduled retry. `scopes`
    are the context managers of observers, which the runtime passes on to attempts. `note_content` is called
    when content arrives of a reply that somebody reads meanwhile.
    """

    clock: Clock
    rng: Rng
    publish: Callable[[Notice], None] | None = None
    ready: Callable[[], Awaitable[None]] | None = None
    keep_partial: Callable[[Reply], None] | None = None
    note_retry: Callable[[RetryScheduled], None] | None = None
    is_watched: Callable[[], bool] | None = None
    scopes: object = None
    note_content: Callable[[], None] | None = None

    def has_live_reader(self) -> bool:
        """Whether somebody reads deltas as they arrive, at this moment."""
        return self.publish is not None and (self.is_watched is None or self.is_watched())

    def emit(self, notice: Notice) -> None:
        """Publish, if somebody listens."""
        if self.publish is not None:
            self.publish(notice)


class CallContext(Struct, Generic[P], frozen=True):
    """One call on its way through a pipeline.

    Args:
        key: the effect's key.
        payload: the input of the innermost operation.
        execution: the clock, randomness and notices.
        deadline: on the monotonic clock; None when the run has no time limit.
        attempt: counted from 1 by the retry strategy, and on across the targets of a fallback.
        carry: the values that earlier attempts of this call left to this one.
        tool: the name of the tool that is called; empty for a model.
    """

    key: str
    payload: P
    execution: ExecutionContext
    deadline: float | None = None
    attempt: int = 1
    carry: Carry | None = None
    tool: str = ""

    def remaining(self) -> float | None:
        """Seconds until the deadline, never below 0; None without one."""
        if self.deadline is None:
            return None
        return max(0.0, self.deadline - self.execution.clock.monotonic())


class Carry(Protocol):
    """The values that the attempts of one call leave to the next one, as one immutable object.

    The operation makes it and reads it. A strategy that makes more than one attempt passes it on,
    and reports the end of an attempt here; it never looks inside.
    """

    def is_attempt_counted(self, outcome: Failed) -> bool:
        """False when the attempt failed only because of its carry; then the next one is no retry."""
        ...

    def after_attempt(self, call: CallContext[P], outcome: Failed) -> Carry:
        """Return the carry for the next attempt of the same target."""
        ...

    def after_target(self, outcome: Failed) -> Carry:
        """Return the carry for the first attempt of the next target."""
        ...

    def give_up(self, call: CallContext[P], outcome: Failed) -> None:
        """No other attempt of this target follows."""
        ...

    def interrupt(self, call: CallContext[P]) -> None:
        """The call was cancelled between two attempts."""
        ...


Operation: TypeAlias = Callable[[CallContext[P]], Awaitable[Outcome[T]]]
"""The function that strategies wrap: an asynchronous one that returns an `Outcome` and does not raise."""


class Strategy(Protocol):
    """Wraps an operation to make it safer."""

    @property
    def name(self) -> str:
        """Its name in `ORDER`; a strategy of your own has another name."""
        ...

    def describe(self) -> Mapping[str, object]:
        """The settings, as plain values."""
        ...

    def wrap(self, operation: Operation[P, T]) -> Operation[P, T]:
        """The operation with this strategy around it."""
        ...


class Pipeline(Struct, frozen=True):
    """Strategies in order, the first one outermost.

    Raises:
        ConfigurationError: two strategies stand in the wrong order, or one stands twice.
    """

    strategies: tuple[Strategy, ...] = ()

    def __post_init__(self) -> None:
        outer = ""
        check_fields(self, "pipeline.")
        for strategy in self.strategies:
            name = strategy.name
            if name not in ORDER:
                continue
            if outer and ORDER.index(name) <= ORDER.index(outer):
                raise ConfigurationError(
                    "pipeline",
                    f"{name!r} must not stand inside {outer!r}",
                    fix=f"The order is {' > '.join(ORDER)}; Pipeline.of() sorts for you",
                )
            outer = name

    @classmethod
    def of(cls, *strategies: Strategy | None) -> Pipeline:
        """A pipeline of these strategies in the fixed order; None stands for one that is off.

        A strategy with a name of its own stays inside the one that it was given after.
        """
        placed: list[tuple[int, Strategy]] = []
        place = -1
        for strategy in strategies:
            if strategy is not None:
                name = getattr(strategy, "name", "")  # the constructor refuses anything else
                place = ORDER.index(name) if name in ORDER else place
                placed.append((place, strategy))
        placed.sort(key=lambda pair: pair[0])
        return cls(tuple(strategy for _, strategy in placed))

    def wrap_operation(self, operation: Operation[P, T]) -> Operation[P, T]:
        """Compose once: `first(second(...(operation)))`."""
        for strategy in reversed(self.strategies):
            operation = strategy.wrap(operation)
            if strategy.name not in ORDER:
                operation = _check_outcomes(strategy.name, operation)
        return operation

    def describe(self) -> tuple[tuple[str, Mapping[str, object]], ...]:
        """The names and settings, outermost first."""
        return tuple((strategy.name, strategy.describe()) for strategy in self.strategies)


def _check_outcomes(name: str, operation: Operation[P, T]) -> Operation[P, T]:
    """The operation of a strategy from outside, with a check that it returns an outcome."""

    async def call_and_check(call: CallContext[P]) -> Outcome[T]:
        outcome: object = await operation(call)
        if isinstance(outcome, Done | Failed):
            return outcome
        raise ConfigurationError(
            f"pipeline.{name}",
            f"gave {outcome!r:.80}, which is not an outcome",
            fix="Return Done(value), Failed(error, info), or the outcome of the inner operation",
        )

    return call_and_check


def settings_of(options: Struct) -> Mapping[str, object]:
    """The fields of an options record as plain values, without callables."""
    return {
        field: value
        for field in options.__struct_fields__
        if not callable(value := getattr(options, field))
    }
