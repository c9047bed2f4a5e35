"""The types of the clock and of randomness, which every strategy is given.

No strategy may read the real clock or draw a random number by itself, so that every wait can be
tested without waiting.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias

Rng: TypeAlias = Callable[[], float]
"""A number from 0 up to, and without, 1."""


class Clock(Protocol):
    """The clock of one run."""

    def now(self) -> float:
        """Seconds since the epoch; may jump."""
        ...

    def monotonic(self) -> float:
        """Seconds since some moment; never goes back."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait; cancellation ends it."""
        ...
