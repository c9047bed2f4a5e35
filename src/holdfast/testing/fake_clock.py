"""Virtual time and loaded dice: what a test gives to a runtime instead of the real ones.

Nothing here may wait in real time or roll a real die. A fake clock belongs to one event loop.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Iterable
from itertools import count

from holdfast.core.argument_checks import check_flag, check_type
from holdfast.core.errors import ConfigurationError
from holdfast.core.limits import check_seconds

_SETTLE_PASSES = 20


class FakeClock:
    """A clock whose time passes only when everybody sleeps, or when it is told to.

    Sleepers wake in the order of their moments, whoever began first. With `auto=True` the clock
    jumps to the next moment when nobody began to sleep for a few passes of the loop; work that waits
    for a real socket does not hold it back. With `auto=False` only `advance` moves it.

    Args:
        now: seconds since the epoch at the start.
        auto: whether sleeping moves the time.

    >>> clock = FakeClock(now=100.0)
    >>> asyncio.run(clock.sleep(30))
    >>> clock.now(), clock.monotonic(), clock.sleeps
    (130.0, 30.0, [30])
    """

    def __init__(self, now: float = 1_700_000_000.0, *, auto: bool = True) -> None:
        check_type("now", now, float)
        check_seconds("now", now + 1)
        check_flag("auto", auto)
        self.sleeps: list[float] = []
        self._epoch = now
        self._passed = 0.0
        self._auto = auto
        self._order = count()
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._watched_loop: asyncio.AbstractEventLoop | None = None
        self._passes = 0

    def now(self) -> float:
        """Seconds since the epoch."""
        return self._epoch + self._passed

    def monotonic(self) -> float:
        """Seconds since the clock was made."""
        return self._passed

    async def sleep(self, seconds: float) -> None:
        """Return when so many virtual seconds have passed; each call is noted in `sleeps`."""
        self.sleeps.append(seconds)
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        loop = asyncio.get_running_loop()
        woken: asyncio.Future[None] = loop.create_future()
        heapq.heappush(self._sleepers, (self._passed + seconds, next(self._order), woken))
        self._passes = 0
        # A loop that ended took its look with it.
        if self._auto and self._watched_loop is not loop:
            self._watched_loop = loop
            loop.call_soon(self._wake_when_idle, loop)
        await woken

    def advance(self, seconds: float) -> None:
        """Let time pass, and wake those whose moment it was, in order."""
        if seconds < 0:
            raise ConfigurationError("seconds", f"must be at least 0, got {seconds}")
        until = self._passed + seconds
        while self._sleepers and self._sleepers[0][0] <= until:
            self._wake_next()
        self._passed = until

    def _wake_next(self) -> None:
        moment, _, woken = heapq.heappop(self._sleepers)
        if not woken.done():  # A cancelled sleeper moves nothing.
            self._passed = max(self._passed, moment)
            woken.set_result(None)

    def _wake_when_idle(self, loop: asyncio.AbstractEventLoop) -> None:
        self._passes += 1
        if self._passes > _SETTLE_PASSES:
            self._passes = 0
            self._wake_next()
        if self._sleepers:
            loop.call_soon(self._wake_when_idle, loop)
        else:
            self._watched_loop = None


class FixedRng:
    """Dice that show the given values in turn, again and again.

    Args:
        values: each from 0 to below 1.

    >>> dice = FixedRng(0.25, 0.5)
    >>> [dice(), dice(), dice()]
    [0.25, 0.5, 0.25]
    """

    def __init__(self, *values: float) -> None:
        self._values = _check_values(values or (0.5,))
        self._at = 0

    def __call__(self) -> float:
        """The next value."""
        value = self._values[self._at % len(self._values)]
        self._at += 1
        return value


def _check_values(values: Iterable[float]) -> tuple[float, ...]:
    for value in values:
        check_type("values", value, float)
        if not 0 <= value < 1:
            raise ConfigurationError("values", f"must be from 0 to below 1, got {value}")
    return tuple(values)
