"""The settings of the circuit breaker."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from holdfast.core.argument_checks import check_fields
from holdfast.core.constraints import PositiveFloat, PositiveInt, Share

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
    failure_ratio: Share = 0.5
    window: PositiveFloat = 30.0
    minimum_throughput: PositiveInt = 10
    failures: PositiveInt = 5
    open_seconds: PositiveFloat = 10.0
    max_open_seconds: PositiveFloat = 600.0
    probes: PositiveInt = 1
    successes: PositiveInt = 1

    def __post_init__(self) -> None:
        check_fields(self, "breaker.")
