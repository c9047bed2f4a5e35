"""The settings of hedging."""

from __future__ import annotations

from msgspec import Struct

from holdfast.core.errors import ConfigurationError
from holdfast.core.limits import check_seconds, check_whole
from holdfast.resilience.checks import check_share


class HedgeOptions(Struct, frozen=True, kw_only=True):
    """The settings.

    Args:
        quantile: start the second attempt when the first takes longer than this share of the
            latencies.
        samples: with fewer latencies than this, no second attempt is started.
        window: how many of the newest latencies are remembered.
        delay: a fixed number of seconds in place of the quantile.
        max_share: the largest share of calls that may have a second attempt.

    >>> HedgeOptions(quantile=95)
    Traceback (most recent call last):
    ...
    holdfast.core.errors.ConfigurationError: hedge.quantile: must be above 0 and at most 1, got 95
    """

    quantile: float = 0.95
    samples: int = 20
    window: int = 200
    delay: float | None = None
    max_share: float = 0.05

    def __post_init__(self) -> None:
        check_share("hedge.quantile", self.quantile)
        check_share("hedge.max_share", self.max_share)
        check_whole("hedge.samples", self.samples, at_least=1)
        check_whole("hedge.window", self.window, at_least=1)
        check_seconds("hedge.delay", self.delay)
        if self.samples > self.window:
            raise ConfigurationError("hedge.samples", "is more than hedge.window keeps")
