"""Decides when a second attempt makes sense. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.resilience.hedge.options import HedgeOptions


def delay_before(options: HedgeOptions, latencies: Sequence[float]) -> float | None:
    """Seconds after which a second attempt makes sense; None when too little is known.

    >>> delay_before(HedgeOptions(quantile=0.5, samples=3), [9.0, 1.0, 2.0])
    2.0
    """
    if options.delay is not None:
        return options.delay
    if len(latencies) < options.samples:
        return None
    ordered = sorted(latencies)
    return ordered[min(len(ordered) - 1, int(options.quantile * len(ordered)))]
