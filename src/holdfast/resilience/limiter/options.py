"""The settings of the rate limiter."""

from __future__ import annotations

from msgspec import Struct

from holdfast.core.argument_checks import check_flag
from holdfast.core.errors import ConfigurationError
from holdfast.core.limits import check_seconds, check_whole
from holdfast.resilience.checks import check_number, check_share


class LimiterOptions(Struct, frozen=True, kw_only=True):
    """The settings.

    Args:
        concurrency: the most calls at once.
        adaptive: lower that when the provider refuses, raise it again when it does not.
        at_least: the lowest that it goes.
        decrease: what is left of it after a refusal.
        requests_per_minute: the pace of calls; None has no limit.
        tokens_per_minute: the pace of tokens, input and output; None has no limit.
        burst_seconds: how many seconds of that pace may come at once after a pause.
        queue: how many calls may wait for a place; one more fails at once.
        max_wait: the longest wait for a place or for the pace, in seconds.
        max_pause: the longest for which everybody pauses when the provider says so, in seconds.

    >>> LimiterOptions(concurrency=0)
    Traceback (most recent call last):
    ...
    holdfast.core.errors.ConfigurationError: limiter.concurrency: must be at least 1, got 0
    """

    concurrency: int = 1000
    adaptive: bool = True
    at_least: int = 1
    decrease: float = 0.5
    requests_per_minute: float | None = None
    tokens_per_minute: float | None = None
    burst_seconds: float = 10.0
    queue: int = 10_000
    max_wait: float = 60.0
    max_pause: float = 120.0

    def __post_init__(self) -> None:
        check_whole("limiter.concurrency", self.concurrency, at_least=1)
        check_whole("limiter.at_least", self.at_least, at_least=1)
        check_whole("limiter.queue", self.queue, at_least=0)
        if self.at_least > self.concurrency:
            raise ConfigurationError(
                "limiter.at_least", f"is {self.at_least}, more than concurrency {self.concurrency}"
            )
        check_share("limiter.decrease", self.decrease)
        check_flag("limiter.adaptive", self.adaptive)
        check_seconds("limiter.requests_per_minute", self.requests_per_minute)
        check_seconds("limiter.tokens_per_minute", self.tokens_per_minute)
        for name in ("burst_seconds", "max_wait", "max_pause"):
            check_number(f"limiter.{name}", getattr(self, name))
