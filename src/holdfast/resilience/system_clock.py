"""The real clock and the real randomness, which a run uses unless it is given others.

A wait for another process takes real time with any clock.
"""

from __future__ import annotations

import asyncio
import os
import random
import time


class SystemClock:
    """`resilience.clock.Clock` over the machine's own clock."""

    __slots__ = ()

    # The functions themselves: a method around each costs more than reading the clock.
    now = staticmethod(time.time)
    monotonic = staticmethod(time.monotonic)

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await asyncio.sleep(seconds)


system_rng = random.random


def new_nonce() -> str:
    """Return a random text that is never made twice, even by programs that seed their random numbers."""
    return os.urandom(16).hex()


def new_run_id() -> str:
    """A run id that nobody else has."""
    return f"{random.getrandbits(128):032x}"
