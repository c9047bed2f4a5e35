"""How long to wait between attempts, as pure functions of the attempt number and a random number.

Attempts are counted from 0: the wait after the first attempt is the wait of attempt 0. No function
may return a negative, infinite or undefined number, for any argument.
"""

from __future__ import annotations

import math
from typing import Literal, TypeAlias

from holdfast.resilience.clock import Rng

_LONGEST = 86_400.0

Backoff: TypeAlias = Literal["exponential", "full_jitter", "pure", "decorrelated"]
"""The named policies."""


def exponential_delay(
    attempt: int, *, base: float, multiplier: float, cap: float, rng: Rng
) -> float:
    """`base * multiplier^attempt`, at most `cap`, plus or minus 10 percent and never above `cap`.

    >>> exponential_delay(1, base=1.0, multiplier=2.0, cap=30.0, rng=lambda: 0.5)
    2.0
    """
    jittered = min(_scale_base(base, multiplier, attempt), cap) * (0.9 + 0.2 * rng())
    return _clamp_delay(min(jittered, cap))


def full_jitter_delay(attempt: int, *, base: float, cap: float, rng: Rng) -> float:
    """A random part of `base * 2^attempt`, at most `cap`."""
    return _clamp_delay(min(_scale_base(base, 2.0, attempt) * rng(), cap))


def pure_delay(attempt: int, *, base: float) -> float:
    """`base * 2^attempt`: 1, 2, 4 seconds for a base of 1; without jitter and without a cap.

    >>> [pure_delay(n, base=1.0) for n in range(3)]
    [1.0, 2.0, 4.0]
    """
    return _clamp_delay(_scale_base(base, 2.0, attempt))


def decorrelated_delay(previous: float, *, base: float, cap: float, rng: Rng) -> float:
    """A random wait between `base` and three times the previous one, at most `cap`."""
    return _clamp_delay(min(cap, base + (max(base, previous * 3.0) - base) * rng()))


def _scale_base(base: float, multiplier: float, attempt: int) -> float:
    try:
        return base * multiplier ** max(0, attempt)
    except OverflowError:
        return math.inf


def _clamp_delay(seconds: float) -> float:
    if math.isnan(seconds) or seconds < 0:
        return 0.0
    return min(seconds, _LONGEST)
