"""The decisions of the circuit breaker, as pure functions on an immutable state.

A closed breaker counts results. An open breaker rejects every call until a given time. A half-open
breaker admits a few probes, and their results decide whether it closes. Errors of the caller (a wrong
key, a filter, a prompt that is too long) and cancellations say nothing about the endpoint and are not
counted. `CircuitBreaker` in `strategy` holds the state. This module must never hold any.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec
from msgspec import Struct

from holdfast.core.errors import ErrorCategory
from holdfast.resilience.breaker.options import BreakerOptions
from holdfast.resilience.pipeline import Failed, Outcome, T

Health = Literal["well", "unwell", "ignored"]

_BUCKETS = 10
_UNWELL = frozenset(
    {
        ErrorCategory.UNKNOWN,
        ErrorCategory.TRANSIENT,
        ErrorCategory.TIMEOUT,
        ErrorCategory.SERVER_ERROR,
        ErrorCategory.RATE_LIMIT_RETRYABLE,
        ErrorCategory.INVALID_RESPONSE,
    }
)


class Tally(Struct, frozen=True):
    """The calls of one slice of the window."""

    slice: int
    successes: int = 0
    failures: int = 0


class ClosedState(Struct, frozen=True):
    """Every call is admitted, and its result is counted."""

    epoch: int = 0
    window: tuple[Tally, ...] = ()
    streak: int = 0


class OpenState(Struct, frozen=True):
    """No call is admitted until after `until`; while `isolated` is set, none at all."""

    epoch: int
    until: float
    duration: float
    isolated: bool = False


class HalfOpenState(Struct, frozen=True):
    """Some probes are admitted; `since` is when the first one was."""

    epoch: int
    since: float
    in_flight: int = 0
    successes: int = 0


BreakerState: TypeAlias = ClosedState | OpenState | HalfOpenState


class Ticket(Struct, frozen=True):
    """A call was admitted in this epoch; its result counts only in the same epoch."""

    epoch: int


class RejectedCall(Struct, frozen=True):
    """A call was rejected; it may be tried after so many seconds, None means after a manual reset."""

    retry_after: float | None


def assess_health(outcome: Outcome[T]) -> Health:
    """The health of the endpoint that an outcome shows."""
    if not isinstance(outcome, Failed):
        return "well"
    return "unwell" if outcome.sent and outcome.info.category in _UNWELL else "ignored"


def admit_call(
    options: BreakerOptions, state: BreakerState, now: float
) -> tuple[BreakerState, Ticket | RejectedCall]:
    """Whether a call is admitted now, and the state after that.

    Args:
        options: the settings.
        state: the state before.
        now: the monotonic clock, in seconds. When it jumps back, an open breaker waits at most its
            full time again; when it jumps forward, the next call is a probe.

    >>> admit_call(BreakerOptions(), OpenState(3, until=60.0, duration=60.0), 59.0)[1]
    RejectedCall(retry_after=1.001)
    >>> admit_call(BreakerOptions(), OpenState(3, until=60.0, duration=60.0), 60.5)
    (HalfOpenState(epoch=4, since=60.5, in_flight=1, successes=0), Ticket(epoch=4))
    """
    if isinstance(state, ClosedState):
        return state, Ticket(state.epoch)
    if isinstance(state, OpenState):
        if state.isolated:
            return state, RejectedCall(None)
        if state.until - now > state.duration:
            state = msgspec.structs.replace(state, until=now + state.duration)
        if now <= state.until:
            return state, RejectedCall(state.until - now + 0.001)
        state = HalfOpenState(state.epoch + 1, now)
    if state.in_flight >= options.probes:
        waited = now - state.since
        if 0 <= waited <= options.open_seconds:
            return state, RejectedCall(min(1.0, options.open_seconds))
        # A probe that takes so long is lost; its late result must not count.
        state = HalfOpenState(state.epoch + 1, now)
    state = msgspec.structs.replace(state, in_flight=state.in_flight + 1)
    return state, Ticket(state.epoch)


def record_result(
    options: BreakerOptions,
    state: BreakerState,
    ticket: Ticket,
    health: Health,
    *,
    now: float,
    retry_after: float | None = None,
) -> BreakerState:
    """The state after an admitted call has ended.

    Args:
        options: the settings.
        state: the state before.
        ticket: the return value of `admit_call`; a result from another epoch is not counted.
        health: the health of the endpoint that the result shows.
        now: the monotonic clock, in seconds.
        retry_after: the wait that the provider asked for, in seconds.
    """
    if ticket.epoch != state.epoch or isinstance(state, OpenState):
        return state
    if isinstance(state, HalfOpenState):
        if health == "unwell":
            return _open_breaker(options, state.epoch, now, retry_after)
        passed = state.successes + (health == "well")
        if passed >= options.successes:
            return ClosedState(state.epoch + 1)
        return HalfOpenState(state.epoch, state.since, max(0, state.in_flight - 1), passed)
    if health == "ignored":
        return state
    state = _count_result(options, state, health == "well", now)
    if health == "unwell" and _has_too_many_failures(options, state):
        return _open_breaker(options, state.epoch, now, retry_after)
    return state


def slice_at(options: BreakerOptions, now: float) -> int:
    """The number of the slice of the window that `now` lies in."""
    return int(now * _BUCKETS / options.window)


def add_successes(state: ClosedState, count: int) -> ClosedState:
    """The state after so many more successes in the newest slice, which there must be."""
    *before, last = state.window
    more = Tally(last.slice, last.successes + count, last.failures)
    return ClosedState(state.epoch, (*before, more), state.streak)


def _count_result(
    options: BreakerOptions, state: ClosedState, success: bool, now: float
) -> ClosedState:
    streak = 0 if success else state.streak + 1
    if options.mode == "consecutive":
        return ClosedState(state.epoch, (), streak)
    current = slice_at(options, now)
    window = state.window
    if window and window[-1].slice == current:
        last = window[-1]
        tally = Tally(current, last.successes + success, last.failures + (not success))
        return ClosedState(state.epoch, (*window[:-1], tally), streak)
    # Slices that lie in the future are from a clock that jumped back.
    kept = tuple(t for t in window if current - _BUCKETS < t.slice < current)
    return ClosedState(state.epoch, (*kept, Tally(current, int(success), int(not success))), streak)


def _has_too_many_failures(options: BreakerOptions, state: ClosedState) -> bool:
    if options.mode == "consecutive":
        return state.streak >= options.failures
    unwell = sum(tally.failures for tally in state.window)
    total = unwell + sum(tally.successes for tally in state.window)
    return total >= options.minimum_throughput and unwell >= total * options.failure_ratio


def _open_breaker(
    options: BreakerOptions, epoch: int, now: float, retry_after: float | None
) -> OpenState:
    lasts = options.open_seconds
    if retry_after:
        lasts = min(retry_after, options.max_open_seconds)
    return OpenState(epoch + 1, now + lasts, lasts)
