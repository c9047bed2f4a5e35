"""The settings of the circuit breaker."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from holdfast.core.errors import ConfigurationError
from holdfast.core.limits import check_seconds, check_whole
from holdfast.resilience.checks import check_share

Mode = Literal["ratio", "consecutive"]


class BreakerOptions(Struct, frozen=True, kw_only=True):
    """The settings.

    Args:
        mode: "ratio" opens at a share of failures in a sliding window, "consecutive" at a number
            of failures without a success between them.
        failure_ratio: the share that opens.
        window: the length of the sliding window, in seconds.
        minimum_throughput: with fewer calls in the window it does not open.
        failures: the number that opens in the mode "consecutive".
        open_seconds: how long it stays open; the first call after more than that is a probe.
        max_open_seconds: the longest Retry-After that it stays open for.
        probes: how many calls may be under way at once while it is half open.
        successes: how many probes must succeed before it closes.

    >>> BreakerOptions(failure_ratio=0)
    Traceback (most recent call last):
    ...
    holdfast.core.errors.ConfigurationError: breaker.failure_ratio: must be above 0 and at most 1, got 0
    """

    mode: Mode = "ratio"
    failure_ratio: float = 0.5
    window: float = 30.0
    minimum_throughput: int = 10
    failures: int = 5
    open_seconds: float = 10.0
    max_open_seconds: float = 600.0
    probes: int = 1
    successes: int = 1

    def __post_init__(self) -> None:
        if self.mode not in ("ratio", "consecutive"):
            raise ConfigurationError("breaker.mode", 'must be "ratio" or "consecutive"')
        check_share("breaker.failure_ratio", self.failure_ratio)
        for name in ("window", "open_seconds", "max_open_seconds"):
            if getattr(self, name) is None:
                raise ConfigurationError(f"breaker.{name}", "must be a number of seconds, got None")
            check_seconds(f"breaker.{name}", getattr(self, name))
        for name in ("minimum_throughput", "failures", "probes", "successes"):
            check_whole(f"breaker.{name}", getattr(self, name), at_least=1)
