"""Retry: the one layer that repeats an act, and the pure decision when to.

Three tiers decide, as in seed 000: the user's own strategy (its answer is final), then what the
provider said (category, Retry-After), then exponential backoff. Cancellation is never retried, and
nothing below this layer may retry by itself.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Mapping
from typing import Literal, TypeAlias

import msgspec
from msgspec import Struct

from holdfast.core.errors import ConfigurationError, ErrorCategory, ErrorInfo
from holdfast.core.limits import check_count
from holdfast.core.notices import RetryScheduled
from holdfast.resilience.backoff import exponential
from holdfast.resilience.clock import Dice
from holdfast.resilience.pipeline import Act, Call, Done, Failed, Outcome, P, T

CustomRetry: TypeAlias = Callable[[BaseException, int], Awaitable[float | None]]
"""The user's strategy: the exception and the attempt from 0, to seconds to wait or None to stop."""


class ErrorHandling(Struct, frozen=True, kw_only=True):
    """How failures are treated; names and defaults are those of seed 000.

    Args:
        max_retries: attempts after the first; 3 means up to 4 attempts.
        retry_delay: the first wait of the backoff, in seconds.
        backoff_multiplier: each wait is this many times the one before.
        max_retry_delay: the longest wait of the backoff, in seconds, before jitter.
        max_retries_by_category: fewer or more retries for some categories; a category that is
            not named has `max_retries`.
        use_provider_retry_delays: obey the provider's Retry-After exactly.
        max_provider_delay: a provider that asks for more than this many seconds is not waited for.
        custom_retry: the user's own strategy; its answer is final.
        include_detailed_errors_in_chat: show the model what an exception says, redacted.
        function_timeout: seconds for one attempt of a tool that names no timeout; None waits.
    """

    max_retries: int = 3
    retry_delay: float = 1.0
    backoff_multiplier: float = 2.0
    max_retry_delay: float = 30.0
    max_retries_by_category: Mapping[ErrorCategory, int] | None = None
    use_provider_retry_delays: bool = True
    max_provider_delay: float = 120.0
    custom_retry: CustomRetry | None = None
    include_detailed_errors_in_chat: bool = False
    function_timeout: float | None = None

    def __post_init__(self) -> None:
        check_count("error_handling.max_retries", self.max_retries, at_least=0)
        for name in ("retry_delay", "backoff_multiplier", "max_retry_delay", "max_provider_delay"):
            value = getattr(self, name)
            number = isinstance(value, int | float) and not isinstance(value, bool)
            if not number or not math.isfinite(value) or value < 0:
                raise ConfigurationError(
                    f"error_handling.{name}", f"must be a finite number from 0, got {value!r}"
                )
        for category, count in (self.max_retries_by_category or {}).items():
            if not isinstance(category, ErrorCategory):
                raise ConfigurationError(
                    "error_handling.max_retries_by_category",
                    f"the key {category!r} is no ErrorCategory",
                    fix="Use for example ErrorCategory.SERVER_ERROR",
                )
            check_count(
                f"error_handling.max_retries_by_category[{category.value}]", count, at_least=0
            )


class Wait(Struct, frozen=True):
    """Try again after `delay` seconds."""

    delay: float


Reason = Literal["not_retryable", "in_doubt", "exhausted", "custom", "delay_too_long", "deadline"]


class Stop(Struct, frozen=True):
    """Do not try again, for this reason."""

    reason: Reason


Decision: TypeAlias = Wait | Stop


def limit_for(handling: ErrorHandling, category: ErrorCategory) -> int:
    """How many retries this category has."""
    by_category = handling.max_retries_by_category or {}
    return by_category.get(category, handling.max_retries)


def decide(
    handling: ErrorHandling,
    info: ErrorInfo,
    attempt: int,
    *,
    remaining: float | None,
    dice: Dice,
) -> Decision:
    """What to do after attempt number `attempt` (from 0) failed with `info`; tiers two and three.

    Args:
        handling: the settings.
        info: the classified failure.
        attempt: the number of the attempt that failed, from 0.
        remaining: seconds until the deadline; None without one.
        dice: for the jitter.
    """
    if not info.category.retryable:
        return Stop("not_retryable")
    if attempt >= limit_for(handling, info.category):
        return Stop("exhausted")
    if handling.use_provider_retry_delays and info.retry_after is not None:
        if info.retry_after > handling.max_provider_delay:
            return Stop("delay_too_long")
        delay = info.retry_after
    else:
        delay = exponential(
            attempt,
            base=handling.retry_delay,
            multiplier=handling.backoff_multiplier,
            cap=handling.max_retry_delay,
            dice=dice,
        )
    if remaining is not None and delay >= remaining:
        return Stop("deadline")
    return Wait(delay)


_WHY: dict[str, str] = {
    "delay_too_long": "the provider asks to wait {wait:g} s, more than max_provider_delay",
    "deadline": "the next attempt would be after the deadline of the run",
    "in_doubt": "it may have taken effect, and is not repeated unasked",
}


class Retry(Struct, frozen=True):
    """The strategy: repeats a failed act as `decide` says."""

    handling: ErrorHandling = ErrorHandling()

    @property
    def name(self) -> str:
        """`retry`"""
        return "retry"

    def describe(self) -> Mapping[str, object]:
        """The settings that are not callables."""
        return {
            field: value
            for field in self.handling.__struct_fields__
            if not callable(value := getattr(self.handling, field))
        }

    def wrap(self, act: Act[P, T]) -> Act[P, T]:
        """The act, repeated while the decision says so."""
        handling = self.handling

        async def with_retry(call: Call[P]) -> Outcome[T]:
            attempt = 0
            while True:
                outcome = await act(call)
                if isinstance(outcome, Done):
                    return outcome if not attempt else Done(outcome.value, attempt + 1)
                decision = await _decision(handling, outcome, call, attempt)
                if isinstance(decision, Stop):
                    return _stopped(outcome, decision, attempt + 1)
                call.env.tell(
                    RetryScheduled(
                        call.key,
                        attempt + 1,
                        limit_for(handling, outcome.info.category),
                        decision.delay,
                        outcome.info.public(),
                    )
                )
                await call.env.clock.sleep(decision.delay)
                attempt += 1
                call = msgspec.structs.replace(call, attempt=attempt + 1)

        return with_retry


async def _decision(
    handling: ErrorHandling, outcome: Failed, call: Call[P], attempt: int
) -> Decision:
    if not outcome.may_repeat:
        return Stop("in_doubt")
    remaining = None
    if call.deadline is not None:
        remaining = call.deadline - call.env.clock.monotonic()
    if handling.custom_retry is None:
        return decide(
            handling, outcome.info, attempt, remaining=remaining, dice=call.env.dice
        )
    if attempt >= limit_for(handling, outcome.info.category):
        return Stop("exhausted")
    delay = await handling.custom_retry(outcome.error, attempt)
    if delay is None or not math.isfinite(delay) or delay < 0:
        return Stop("custom")
    delay = min(delay, handling.max_retry_delay)
    if remaining is not None and delay >= remaining:
        return Stop("deadline")
    return Wait(delay)


def _stopped(outcome: Failed, stop: Stop, attempts: int) -> Failed:
    """The failure with the reason for giving up in its safe text, where that is news."""
    info = outcome.info
    if why := _WHY.get(stop.reason):
        said = f"{info.safe} (not tried again: {why.format(wait=info.retry_after or 0.0)})"
        info = msgspec.structs.replace(info, safe=said)
    return msgspec.structs.replace(outcome, info=info, attempts=attempts)
