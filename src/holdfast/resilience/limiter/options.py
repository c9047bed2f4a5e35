"""The settings of the rate limiter."""

from __future__ import annotations

from msgspec import Struct

from holdfast.core.argument_checks import check_fields
from holdfast.core.constraints import (
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    Share,
)
from holdfast.core.errors import ConfigurationError


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

    concurrency: PositiveInt = 1000
    adaptive: bool = True
    at_least: PositiveInt = 1
    decrease: Share = 0.5
    requests_per_minute: PositiveFloat | None = None
    tokens_per_minute: PositiveFloat | None = None
    burst_seconds: NonNegativeFloat = 10.0
    queue: NonNegativeInt = 10_000
    max_wait: NonNegativeFloat = 60.0
    max_pause: NonNegativeFloat = 120.0

    def __post_init__(self) -> None:
        check_fields(self, "limiter.")
        if self.at_least > self.concurrency:
            raise ConfigurationError(
                "limiter.at_least", f"is {self.at_least}, more than concurrency {self.concurrency}"
            )
