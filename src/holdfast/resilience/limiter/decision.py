"""The decisions of the rate limiter: concurrent calls, calls per minute, tokens per minute. Pure.

The limit of concurrent calls adapts to the provider: a refusal for too many requests halves it (at
most once a second, since refusals come in groups), and each success while the limit is in use raises
it a little, as TCP does. Calls and tokens per minute are counted in buckets whose level may become
negative; the next call then waits until the level is back at zero. The tokens of a reply are known
only afterwards, so a call reserves the average, and the difference is corrected when it ends.
`strategy` holds the state, the queue and the number of running calls. This module must never wait.
"""

from __future__ import annotations

from math import inf

import msgspec
from msgspec import Struct

from holdfast.resilience.limiter.options import LimiterOptions

_LOWER_EVERY = 1.0
_NEWEST_COUNTS = 0.2


class LimiterState(Struct, frozen=True):
    """The state of a limiter: the limit, and the levels of the buckets at the time `at`.

    `mean` is the average number of tokens of a call. All calls pause until `paused_until`; until
    `refused_until`, they do so because a call was refused.
    """

    limit: float
    requests: float = 0.0
    tokens: float = 0.0
    mean: float = 0.0
    at: float | None = None
    paused_until: float = 0.0
    refused_until: float = 0.0
    lowered_at: float | None = None


def initial_state(options: LimiterOptions) -> LimiterState:
    """The limit is at its highest, and the buckets are full."""
    return LimiterState(
        float(options.concurrency),
        requests=_bucket_capacity(options, options.requests_per_minute),
        tokens=_bucket_capacity(options, options.tokens_per_minute),
    )


def has_place(state: LimiterState, running: int) -> bool:
    """Whether one more call may run beside those that run now.

    >>> has_place(LimiterState(limit=2.9), 1), has_place(LimiterState(limit=2.9), 2)
    (True, False)
    """
    return running < int(state.limit)


class Reservation(Struct, frozen=True):
    """The reservation of a call: the seconds to wait first, and the tokens."""

    wait: float
    tokens: float = 0.0


FREE = Reservation(0.0)
"""The reservation of a call where calls and tokens per minute are not limited."""


def has_pace(options: LimiterOptions) -> bool:
    """Whether calls or tokens per minute are limited."""
    return bool(options.requests_per_minute or options.tokens_per_minute)


def reserve_call(
    options: LimiterOptions, state: LimiterState, now: float, max_wait: float = inf
) -> tuple[LimiterState, Reservation]:
    """Reserve one call that can wait for `max_wait` seconds; returns the state after that."""
    wait = 0.0
    if state.paused_until > now:
        wait = remaining_pause(options, state, now, max_wait)
    elif state.paused_until:
        state = msgspec.structs.replace(state, paused_until=0.0)
    if not has_pace(options):
        return state, Reservation(wait) if wait else FREE
    state = _refill_buckets(options, state, now)
    if options.requests_per_minute:
        state = msgspec.structs.replace(state, requests=state.requests - 1.0)
        wait = max(wait, -state.requests * 60.0 / options.requests_per_minute)
    if not options.tokens_per_minute:
        return state, Reservation(wait)
    state = msgspec.structs.replace(state, tokens=state.tokens - state.mean)
    wait = max(wait, -state.tokens * 60.0 / options.tokens_per_minute)
    return state, Reservation(wait, state.mean)


def refund_call(
    options: LimiterOptions, state: LimiterState, reservation: Reservation
) -> LimiterState:
    """The state after a call that had reserved did not go."""
    requests = state.requests + 1.0 if options.requests_per_minute else 0.0
    room = _bucket_capacity(options, options.requests_per_minute)
    return msgspec.structs.replace(
        state, requests=min(room, requests), tokens=state.tokens + reservation.tokens
    )


def remaining_pause(
    options: LimiterOptions, state: LimiterState, now: float, max_wait: float = inf
) -> float:
    """Seconds for which a call still pauses; a clock that jumped back cannot prolong them.

    A call that has less patience than `paused_until` asks for heeds refusals alone: it may well be
    taken, and to fail it here would be a failure that nobody asked for.
    """
    until = state.paused_until if state.paused_until - now <= max_wait else state.refused_until
    return max(0.0, min(until - now, options.max_pause))


def settle_cost(
    options: LimiterOptions, state: LimiterState, reservation: Reservation, tokens: int
) -> LimiterState:
    """The state after the cost of a call is known; a call that failed cost nothing."""
    if not options.tokens_per_minute:
        return state
    mean = state.mean + (tokens - state.mean) * (_NEWEST_COUNTS if state.mean else 1.0)
    return msgspec.structs.replace(
        state,
        tokens=state.tokens + reservation.tokens - tokens,
        mean=mean if tokens else state.mean,
    )


def record_success(options: LimiterOptions, state: LimiterState, running: int) -> LimiterState:
    """The state after a call went well: the limit grows, if so many calls use it."""
    in_use = running * 2 >= state.limit
    if options.adaptive and in_use and state.limit < options.concurrency:
        limit = min(float(options.concurrency), state.limit + 1.0 / state.limit)
        return msgspec.structs.replace(state, limit=limit)
    return state


def record_exhaustion(
    options: LimiterOptions, state: LimiterState, now: float, resumes_at: float
) -> LimiterState:
    """The state after a call succeeded and was the last one that the provider takes for a while.

    All calls pause until then, but never for longer than a call may wait: the provider is at its
    limit and has refused nothing. The limit of concurrent calls stays.

    >>> record_exhaustion(LimiterOptions(), initial_state(LimiterOptions()), 10.0, 14.0).paused_until
    14.0
    """
    until = min(resumes_at, now + min(options.max_pause, options.max_wait))
    if until <= max(now, state.paused_until):
        return state
    return msgspec.structs.replace(state, paused_until=until)


def record_refusal(
    options: LimiterOptions,
    state: LimiterState,
    running: int,
    now: float,
    retry_after: float | None = None,
) -> LimiterState:
    """The state after the provider refused a call because there were too many.

    Args:
        options: the settings.
        state: the state before.
        running: the number of running calls, this one included.
        now: the monotonic clock, in seconds.
        retry_after: the wait that the provider asked for, in seconds; all calls pause for it.
    """
    if retry_after:
        until = now + min(retry_after, options.max_pause)
        state = msgspec.structs.replace(
            state,
            paused_until=max(state.paused_until, until),
            refused_until=max(state.refused_until, until),
        )
    lately = state.lowered_at is not None and 0 <= now - state.lowered_at < _LOWER_EVERY
    if not options.adaptive or lately:
        return state
    limit = max(float(options.at_least), min(state.limit, running) * options.decrease)
    return msgspec.structs.replace(state, limit=limit, lowered_at=now)


class EndpointPause(Struct, frozen=True):
    """Seconds for which all calls still pause, and those of them that a refusal asked for."""

    all: float = 0.0
    refused: float = 0.0


def measure_pause(state: LimiterState, now: float) -> EndpointPause:
    """Return how long calls still pause.

    >>> measure_pause(LimiterState(limit=1.0, paused_until=14.0, refused_until=12.0), 10.0)
    EndpointPause(all=4.0, refused=2.0)
    """
    return EndpointPause(max(0.0, state.paused_until - now), max(0.0, state.refused_until - now))


def extend_pause(
    options: LimiterOptions, state: LimiterState, now: float, pause: EndpointPause
) -> LimiterState:
    """Return the state after a provider asked another process to pause; a pause is never shortened.

    >>> options = LimiterOptions()
    >>> extend_pause(options, initial_state(options), 10.0, EndpointPause(4.0, 0.0)).paused_until
    14.0
    """
    return msgspec.structs.replace(
        state,
        paused_until=max(state.paused_until, now + min(pause.all, options.max_pause)),
        refused_until=max(state.refused_until, now + min(pause.refused, options.max_pause)),
    )


def _bucket_capacity(options: LimiterOptions, per_minute: float | None) -> float:
    if per_minute is None:
        return 0.0
    return max(1.0, per_minute * options.burst_seconds / 60.0)


def _refill_buckets(options: LimiterOptions, state: LimiterState, now: float) -> LimiterState:
    passed = 0.0 if state.at is None else max(0.0, now - state.at)
    return msgspec.structs.replace(
        state,
        requests=_refill_bucket(options, state.requests, options.requests_per_minute, passed),
        tokens=_refill_bucket(options, state.tokens, options.tokens_per_minute, passed),
        at=now,
    )


def _refill_bucket(
    options: LimiterOptions, level: float, per_minute: float | None, passed: float
) -> float:
    if per_minute is None:
        return level
    return min(_bucket_capacity(options, per_minute), level + passed * per_minute / 60.0)
