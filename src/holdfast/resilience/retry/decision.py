"""Decides whether a failed attempt is repeated, and after which wait. Pure.

The strategy asks the hooks of the user first. The decisions here come after them: the category of
the failure, then the wait that the provider asks for (Retry-After), then backoff.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct

from holdfast.core.errors import ErrorCategory, ErrorInfo
from holdfast.resilience.clock import Rng
from holdfast.resilience.retry import backoff
from holdfast.resilience.retry.options import RetryOptions

Reason = Literal[
    "not_retryable",
    "in_doubt",
    "answered",
    "exhausted",
    "budget",
    "deadline",
    "delay_too_long",
    "out_of_time",
    "breaker",
    "not_sent",
    "custom",
    "custom_invalid",
    "custom_failed",
    "custom_blocked",
]


class WaitAndRetry(Struct, frozen=True):
    """Try again after `delay` seconds; `is_told` when the provider asked for this wait."""

    delay: float
    is_told: bool = False


class StopRetrying(Struct, frozen=True):
    """Do not try again, for this reason; `detail` says more where there is more to say."""

    reason: Reason
    detail: str = ""


Decision: TypeAlias = WaitAndRetry | StopRetrying

NEVER_RETRIED = frozenset({ErrorCategory.PROGRAMMING, ErrorCategory.LIMIT, ErrorCategory.CANCELLED})
_SHORTEST_HOLD = 0.001


def limit_for(options: RetryOptions, category: ErrorCategory) -> int:
    """The number of retries of this category; `max_retries` where it has no number of its own."""
    by_category = options.max_retries_by_category or {}
    return by_category.get(category, options.max_retries)


def decide_retry(
    options: RetryOptions,
    info: ErrorInfo,
    attempt: int,
    *,
    remaining: float | None,
    rng: Rng,
    previous: float = 0.0,
) -> Decision:
    """Return the decision after attempt number `attempt` (from 0) failed with `info`.

    Args:
        options: the settings.
        info: the classified failure.
        attempt: the number of the attempt that failed, from 0.
        remaining: seconds until the deadline; None without one.
        rng: for the jitter.
        previous: the wait before this attempt, in seconds.
    """
    known = options.normalize_errors
    if not info.category.is_retryable and (known or info.category in NEVER_RETRIED):
        return StopRetrying("not_retryable")
    limit = limit_for(options, info.category) if known else options.max_retries
    if attempt >= limit:
        return StopRetrying("exhausted")
    if known and options.use_provider_retry_delays and info.retry_after:
        if info.retry_after > options.max_provider_delay:
            return StopRetrying("delay_too_long", f"{info.retry_after:g}")
        return wait_within(remaining, info.retry_after, is_told=True)
    return wait_within(remaining, backoff_delay(options, attempt, rng, previous))


def decide_unsent(
    options: RetryOptions, info: ErrorInfo, *, waited: float, remaining: float | None
) -> Decision:
    """Return the decision for a call that was rejected before it was sent.

    Args:
        options: the settings.
        info: why it was rejected; `retry_after` says when it may be sent, None means that waiting
            does not help.
        waited: seconds that this call has waited for the same reason already.
        remaining: seconds until the deadline; None without one.
    """
    if info.retry_after is None:
        return StopRetrying("not_sent")
    if waited + info.retry_after > (options.max_breaker_wait or 0.0):
        return StopRetrying("breaker", f"{info.retry_after:g}")
    return wait_within(remaining, max(info.retry_after, _SHORTEST_HOLD))


def backoff_delay(options: RetryOptions, attempt: int, rng: Rng, previous: float = 0.0) -> float:
    """The wait of the named backoff policy after attempt number `attempt` (from 0), in seconds."""
    base, cap = options.retry_delay, options.max_retry_delay
    if options.backoff == "pure":
        return backoff.pure_delay(attempt, base=base)
    if options.backoff == "full_jitter":
        return backoff.full_jitter_delay(attempt, base=base, cap=cap, rng=rng)
    if options.backoff == "decorrelated":
        return backoff.decorrelated_delay(previous, base=base, cap=cap, rng=rng)
    return backoff.exponential_delay(
        attempt, base=base, multiplier=options.backoff_multiplier, cap=cap, rng=rng
    )


def wait_within(remaining: float | None, delay: float, *, is_told: bool = False) -> Decision:
    """Wait; or stop now, if the wait would reach the deadline."""
    if remaining is not None and delay >= remaining:
        return StopRetrying("deadline", f"{delay:.3g}")
    return WaitAndRetry(delay, is_told)
