"""The settings of hedging."""

from __future__ import annotations

from msgspec import Struct

from holdfast.core.argument_checks import check_fields
from holdfast.core.constraints import PositiveFloat, PositiveInt, Share
from holdfast.core.errors import ConfigurationError


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

    quantile: Share = 0.95
    samples: PositiveInt = 20
    window: PositiveInt = 200
    delay: PositiveFloat | None = None
    max_share: Share = 0.05

    def __post_init__(self) -> None:
        check_fields(self, "hedge.")
        if self.samples > self.window:
            raise ConfigurationError("hedge.samples", "is more than hedge.window keeps")
