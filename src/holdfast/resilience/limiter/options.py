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
        concurrency: the largest number of calls that run at once.
        adaptive: lower that number when the provider refuses calls, and raise it again later.
        at_least: the lowest value of that number.
        decrease: the factor by which a refusal lowers it.
        requests_per_minute: how many calls may start in a minute; None sets no limit.
        tokens_per_minute: how many tokens, input and output, may be used in a minute; None sets no
            limit.
        burst_seconds: after a pause, so many seconds' worth of calls and tokens may come at once.
        queue: how many calls may wait; one more fails at once.
        max_wait: the longest wait of a call, in seconds.
        max_pause: the longest pause of all calls that a provider can cause, in seconds.

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
