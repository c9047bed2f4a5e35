"""The breaker as a strategy, and the circuit that it shares: one state to watch and to work by hand.

Observing and controlling are apart from deciding, which is `breaker`'s. A subscriber is called
outside the lock, in the thread whose call changed the state; it must never block.

Nearly all calls of nearly all circuits succeed while the circuit is closed. Those are counted beside
the state, and put into it before anything looks at it, so that they cost no new state each.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from threading import Lock
from typing import Literal

from msgspec import Struct

from holdfast.core.errors import ErrorCategory, ErrorInfo, Landed, ProviderError
from holdfast.core.notices import BreakerChanged
from holdfast.resilience.breaker import (
    BreakerOptions,
    Closed,
    HalfOpen,
    Held,
    Open,
    State,
    Ticket,
    Verdict,
    admit,
    judge,
    record,
    slice_at,
    with_more_well,
)
from holdfast.resilience.pipeline import (
    Act,
    Call,
    Done,
    Failed,
    Outcome,
    P,
    T,
    not_sent,
    settings_of,
)

_log = logging.getLogger("holdfast")

StateName = Literal["closed", "open", "half_open", "isolated"]
Subscriber = Callable[[BreakerChanged], None]


class BreakerOpenError(ProviderError):
    """The circuit breaker let the call not through; nothing was sent."""

    default_category = ErrorCategory.TRANSIENT

    def __init__(self, target: str, later: float | None) -> None:
        when = f"for another {later:.3g} s" if later is not None else "until somebody resets it"
        message = f"{target}: not called, its circuit breaker is open {when}"
        info = ErrorInfo(
            category=ErrorCategory.TRANSIENT,
            safe=message,
            landed=Landed.NO,
            retry_after=later,
            code="breaker_open",
        )
        super().__init__(message, info=info)


class Snapshot(Struct, frozen=True):
    """What can be seen of a circuit at one moment.

    Args:
        target: what it protects.
        state: "closed", "open", "half_open" or "isolated".
        well: calls that succeeded in the window.
        unwell: calls that failed in the window.
        streak: failures since the last success.
        until: when an open circuit may be probed, on the monotonic clock.
        probes: probes that are out.
    """

    target: str
    state: StateName
    well: int = 0
    unwell: int = 0
    streak: int = 0
    until: float | None = None
    probes: int = 0


class Circuit:
    """One breaker's state, for all runs, threads and event loops of the process.

    Args:
        target: names what it protects: provider, model and endpoint.
        options: the settings.

    >>> circuit = Circuit("openai:gpt-5.2")
    >>> circuit.isolate()
    >>> circuit.snapshot().state
    'isolated'
    >>> circuit.reset()
    >>> circuit.snapshot().state
    'closed'
    """

    __slots__ = (
        "_lock",
        "_slice",
        "_state",
        "_subscribers",
        "_ticket",
        "_uncounted",
        "options",
        "target",
    )

    def __init__(self, target: str, options: BreakerOptions | None = None) -> None:
        self.target = target
        self.options = options or BreakerOptions()
        self._state: State = Closed()
        self._ticket = Ticket(0)
        self._slice: int | None = None
        self._uncounted = 0
        self._lock = Lock()
        self._subscribers: tuple[Subscriber, ...] = ()

    def admit(self, now: float) -> tuple[Ticket | Held, BreakerChanged | None]:
        """Whether a call may go, and the change that this made."""
        with self._lock:
            before = self._state
            if type(before) is Closed:
                if self._ticket.epoch != before.epoch:
                    self._ticket = Ticket(before.epoch)
                return self._ticket, None
            self._state, answer = admit(self.options, before, now)
            after = self._state
        return answer, self._changed(before, after)

    def went_well(self, ticket: Ticket, now: float) -> bool:
        """Count a success where that changes nothing but a number; False: `record` must do it."""
        with self._lock:
            state = self._state
            if ticket.epoch != state.epoch or type(state) is not Closed or state.streak:
                return False
            if self.options.mode == "consecutive":
                return True
            if self._slice is None or slice_at(self.options, now) != self._slice:
                return False
            self._uncounted += 1
            return True

    def record(
        self, ticket: Ticket, verdict: Verdict, *, now: float, retry_after: float | None = None
    ) -> BreakerChanged | None:
        """Count one result, and give the change that this made."""
        with self._lock:
            before = self._counted()
            self._state = after = record(
                self.options, before, ticket, verdict, now=now, retry_after=retry_after
            )
            window = after.window if type(after) is Closed else ()
            self._slice = window[-1].slice if window else None
        return None if type(before) is type(after) else self._changed(before, after)

    def isolate(self) -> None:
        """Let nothing through until `reset`."""
        self._set(lambda before: Open(before.epoch + 1, 0.0, 0.0, isolated=True))

    def reset(self) -> None:
        """Close, and forget what was counted."""
        self._set(lambda before: Closed(before.epoch + 1))

    def snapshot(self) -> Snapshot:
        """The state, as counted so far."""
        with self._lock:
            state = self._counted()
        if isinstance(state, Closed):
            well = sum(tally.well for tally in state.window)
            unwell = sum(tally.unwell for tally in state.window)
            return Snapshot(self.target, "closed", well, unwell, state.streak)
        if isinstance(state, HalfOpen):
            return Snapshot(self.target, "half_open", probes=state.out)
        until = None if state.isolated else state.until
        return Snapshot(self.target, _named(state), until=until)

    def subscribe(self, subscriber: Subscriber) -> Callable[[], None]:
        """Call `subscriber` at each change of state; the answer ends that."""
        with self._lock:
            self._subscribers = (*self._subscribers, subscriber)

        def unsubscribe() -> None:
            with self._lock:
                self._subscribers = tuple(s for s in self._subscribers if s is not subscriber)

        return unsubscribe

    def _set(self, make: Callable[[State], State]) -> None:
        with self._lock:
            before = self._counted()
            self._state = after = make(before)
            self._slice = None
        self._changed(before, after)

    def _counted(self) -> State:
        """The state with every success in it; the lock is held."""
        if self._uncounted and type(self._state) is Closed:
            self._state = with_more_well(self._state, self._uncounted)
        self._uncounted = 0
        return self._state

    def _changed(self, before: State, after: State) -> BreakerChanged | None:
        old, new = _named(before), _named(after)
        if old == new:
            return None
        lasts = after.lasts if isinstance(after, Open) and not after.isolated else None
        change = BreakerChanged(self.target, old, new, lasts)
        _log.warning("circuit breaker of %s: %s, was %s", self.target, new, old)
        for subscriber in self._subscribers:
            try:
                subscriber(change)
            except Exception:  # noqa: BLE001  # REASON: who looks on must not break a call
                _log.exception("a subscriber of the circuit breaker raised")
        return change


def _named(state: State) -> StateName:
    if isinstance(state, Closed):
        return "closed"
    if isinstance(state, HalfOpen):
        return "half_open"
    return "isolated" if state.isolated else "open"


class Breaker(Struct, frozen=True):
    """The strategy: holds calls back while the circuit is open, and tells it how the others went."""

    circuit: Circuit

    @property
    def name(self) -> str:
        """`breaker`"""
        return "breaker"

    def describe(self) -> Mapping[str, object]:
        """The target and the settings."""
        return {"target": self.circuit.target, **settings_of(self.circuit.options)}

    def wrap(self, act: Act[P, T]) -> Act[P, T]:
        """The act, behind the breaker."""
        circuit = self.circuit

        async def with_breaker(call: Call[P]) -> Outcome[T]:
            clock = call.env.clock
            answer, change = circuit.admit(clock.monotonic())
            if change is not None:
                call.env.tell(change)
            if isinstance(answer, Held):
                return not_sent(BreakerOpenError(circuit.target, answer.later))
            try:
                outcome = await act(call)
            except BaseException:
                # Cancelled, or a bug: no word about the endpoint, but a probe must give its place back.
                circuit.record(answer, "ignored", now=clock.monotonic())
                raise
            if type(outcome) is Done and circuit.went_well(answer, clock.monotonic()):
                return outcome
            retry_after = outcome.info.retry_after if isinstance(outcome, Failed) else None
            change = circuit.record(
                answer, judge(outcome), now=clock.monotonic(), retry_after=retry_after
            )
            if change is not None:
                call.env.tell(change)
            return outcome

        return with_breaker
