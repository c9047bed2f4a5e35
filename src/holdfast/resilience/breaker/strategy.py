"""The circuit breaker as a strategy, and the shared object that holds its state.

One `CircuitBreaker` serves all threads and event loops of a process; it can be observed, isolated and
reset. `decision` says when it opens and closes. A subscriber is called outside the lock, in the
thread whose call changed the state; it must never block. No lock may be held during an await.

Nearly all calls succeed while the breaker is closed. Their number is counted beside the state and
added to it before the state is read, so that a success does not create a new state.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from threading import Lock
from typing import Literal

from msgspec import Struct

from holdfast.core.detached_errors import detach_for_log
from holdfast.core.errors import ErrorCategory, ErrorInfo, Landed, ProviderError
from holdfast.core.notices import BreakerChanged
from holdfast.resilience.breaker.decision import (
    BreakerState,
    ClosedState,
    HalfOpenState,
    Health,
    OpenState,
    RejectedCall,
    Ticket,
    add_successes,
    admit_call,
    assess_health,
    record_result,
    slice_at,
)
from holdfast.resilience.breaker.options import BreakerOptions
from holdfast.resilience.pipeline import (
    CallContext,
    Done,
    Failed,
    Operation,
    Outcome,
    P,
    T,
    settings_of,
    unsent_outcome,
)

_log = logging.getLogger("holdfast")

StateName = Literal["closed", "open", "half_open", "isolated"]
Subscriber = Callable[[BreakerChanged], None]


class BreakerOpenError(ProviderError):
    """The circuit breaker rejected the call; nothing was sent."""

    default_category = ErrorCategory.TRANSIENT

    def __init__(self, target: str, retry_after: float | None) -> None:
        when = (
            f"for another {retry_after:.3g} s"
            if retry_after is not None
            else "until somebody resets it"
        )
        message = f"{target}: not called, its circuit breaker is open {when}"
        info = ErrorInfo(
            category=ErrorCategory.TRANSIENT,
            safe=message,
            landed=Landed.NO,
            retry_after=retry_after,
            code="breaker_open",
        )
        super().__init__(message, info=info)


class BreakerSnapshot(Struct, frozen=True):
    """The visible state of a circuit breaker at one moment.

    Args:
        target: the name of the protected endpoint.
        state: "closed", "open", "half_open" or "isolated".
        successes: calls that succeeded in the window.
        failures: calls that failed in the window.
        streak: failures since the last success.
        until: when the first probe may be sent, on the monotonic clock.
        probes: probes that are under way.
    """

    target: str
    state: StateName
    successes: int = 0
    failures: int = 0
    streak: int = 0
    until: float | None = None
    probes: int = 0


class CircuitBreaker:
    """The circuit breaker of an endpoint, shared by all runs, threads and event loops.

    Args:
        target: the name of the protected endpoint, with its provider and model.
        options: the settings.

    >>> breaker = CircuitBreaker("openai:gpt-5.2")
    >>> breaker.isolate()
    >>> breaker.snapshot().state
    'isolated'
    >>> breaker.reset()
    >>> breaker.snapshot().state
    'closed'
    """

    __slots__ = (
        "_lock",
        "_slice",
        "_state",
        "_subscribers",
        "_ticket",
        "_uncounted_successes",
        "options",
        "target",
    )

    def __init__(self, target: str, options: BreakerOptions | None = None) -> None:
        self.target = target
        self.options = options or BreakerOptions()
        self._state: BreakerState = ClosedState()
        self._ticket = Ticket(0)
        self._slice: int | None = None
        self._uncounted_successes = 0
        self._lock = Lock()
        self._subscribers: tuple[Subscriber, ...] = ()

    def try_admit(self) -> Ticket | None:
        """A ticket if the breaker is closed; otherwise None, and then call `admit`."""
        with self._lock:
            state = self._state
            if type(state) is not ClosedState:
                return None
            if self._ticket.epoch != state.epoch:
                self._ticket = Ticket(state.epoch)
            return self._ticket

    def admit(self, now: float) -> tuple[Ticket | RejectedCall, BreakerChanged | None]:
        """Whether a call is admitted, and the change of state that this caused."""
        with self._lock:
            before = self._state
            self._state, answer = admit_call(self.options, before, now)
            after = self._state
        return answer, self._publish_change(before, after)

    def count_success(self, ticket: Ticket, now: float) -> bool:
        """Count a success if that changes only a number; False means that `record_outcome` must do it."""
        with self._lock:
            state = self._state
            if ticket.epoch != state.epoch or type(state) is not ClosedState or state.streak:
                return False
            if self.options.mode == "consecutive":
                return True
            if self._slice is None or slice_at(self.options, now) != self._slice:
                return False
            self._uncounted_successes += 1
            return True

    def record_outcome(
        self, ticket: Ticket, health: Health, *, now: float, retry_after: float | None = None
    ) -> BreakerChanged | None:
        """Count one result, and return the change of state that this caused."""
        with self._lock:
            before = self._state_with_counts()
            self._state = after = record_result(
                self.options, before, ticket, health, now=now, retry_after=retry_after
            )
            window = after.window if type(after) is ClosedState else ()
            self._slice = window[-1].slice if window else None
        return None if type(before) is type(after) else self._publish_change(before, after)

    def isolate(self) -> None:
        """Reject every call until `reset`."""
        self._set_state(lambda before: OpenState(before.epoch + 1, 0.0, 0.0, isolated=True))

    def reset(self) -> None:
        """Close, and set the counts to zero."""
        self._set_state(lambda before: ClosedState(before.epoch + 1))

    def snapshot(self) -> BreakerSnapshot:
        """The state with all counts up to now."""
        with self._lock:
            state = self._state_with_counts()
        if isinstance(state, ClosedState):
            well = sum(tally.successes for tally in state.window)
            unwell = sum(tally.failures for tally in state.window)
            return BreakerSnapshot(self.target, "closed", well, unwell, state.streak)
        if isinstance(state, HalfOpenState):
            return BreakerSnapshot(self.target, "half_open", probes=state.in_flight)
        until = None if state.isolated else state.until
        return BreakerSnapshot(self.target, _state_name(state), until=until)

    def subscribe(self, subscriber: Subscriber) -> Callable[[], None]:
        """Call `subscriber` at each change of state; the returned function ends that."""
        with self._lock:
            self._subscribers = (*self._subscribers, subscriber)

        def unsubscribe() -> None:
            with self._lock:
                self._subscribers = tuple(s for s in self._subscribers if s is not subscriber)

        return unsubscribe

    def _set_state(self, make: Callable[[BreakerState], BreakerState]) -> None:
        with self._lock:
            before = self._state_with_counts()
            self._state = after = make(before)
            self._slice = None
        self._publish_change(before, after)

    def _state_with_counts(self) -> BreakerState:
        """The state with every success in it. The caller holds the lock."""
        if self._uncounted_successes and type(self._state) is ClosedState:
            self._state = add_successes(self._state, self._uncounted_successes)
        self._uncounted_successes = 0
        return self._state

    def _publish_change(self, before: BreakerState, after: BreakerState) -> BreakerChanged | None:
        old, new = _state_name(before), _state_name(after)
        if old == new:
            return None
        lasts = after.duration if isinstance(after, OpenState) and not after.isolated else None
        change = BreakerChanged(self.target, old, new, lasts)
        _log.warning("circuit breaker of %s: %s, was %s", self.target, new, old)
        for subscriber in self._subscribers:
            try:
                subscriber(change)
            except Exception as error:  # noqa: BLE001  # REASON: a subscriber must not break a call
                shown = detach_for_log(error)
                _log.error("a subscriber of the circuit breaker raised", exc_info=shown)
        return change


def _state_name(state: BreakerState) -> StateName:
    if isinstance(state, ClosedState):
        return "closed"
    if isinstance(state, HalfOpenState):
        return "half_open"
    return "isolated" if state.isolated else "open"


class BreakerStrategy(Struct, frozen=True):
    """The strategy: rejects calls while the breaker is open, and reports the results of the others."""

    breaker: CircuitBreaker

    @property
    def name(self) -> str:
        """`breaker`"""
        return "breaker"

    def describe(self) -> Mapping[str, object]:
        """The target and the settings."""
        return {"target": self.breaker.target, **settings_of(self.breaker.options)}

    def wrap(self, operation: Operation[P, T]) -> Operation[P, T]:
        """The operation, behind the breaker."""
        breaker = self.breaker

        async def with_breaker(call: CallContext[P]) -> Outcome[T]:
            clock = call.execution.clock
            ticket = breaker.try_admit()
            if ticket is None:
                answer, change = breaker.admit(clock.monotonic())
                if change is not None:
                    call.execution.emit(change)
                if isinstance(answer, RejectedCall):
                    return unsent_outcome(BreakerOpenError(breaker.target, answer.retry_after))
                ticket = answer
            try:
                outcome = await operation(call)
            except BaseException:
                # Cancelled, or a bug: it says nothing about the endpoint, but a probe must give its place back.
                breaker.record_outcome(ticket, "ignored", now=clock.monotonic())
                raise
            if type(outcome) is Done and breaker.count_success(ticket, clock.monotonic()):
                return outcome
            retry_after = outcome.info.retry_after if isinstance(outcome, Failed) else None
            change = breaker.record_outcome(
                ticket, assess_health(outcome), now=clock.monotonic(), retry_after=retry_after
            )
            if change is not None:
                call.execution.emit(change)
            return outcome

        return with_breaker
