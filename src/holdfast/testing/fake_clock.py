"""A clock with virtual time and a fixed random number generator, for tests.

A fake clock belongs to one event loop, and it never waits in real time. A function that was decorated
earlier already has its clock, and a test cannot replace it; for such tests the system clock can be
replaced for all its users during a block.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from typing import Annotated, TypeAlias

from holdfast.core.argument_checks import check_arguments, check_value
from holdfast.core.constraints import Constraint, NonNegativeFloat
from holdfast.resilience.system_clock import SystemClock
from holdfast.transport.network_waits import find_network_waits

_SETTLE_PASSES = 20
_LOOK_AGAIN = 0.001

Chance: TypeAlias = Annotated[
    float, Constraint("from 0 to below 1", lambda number: 0 <= number < 1)
]
"""A random number."""


class FakeClock:
    """A clock whose time advances only while all tasks sleep, or by `advance`.

    Sleeping tasks wake in the order of their times. With `auto=True` the clock jumps to the next of
    these times when no task has begun to sleep for a few passes of the loop. It holds while a request
    of an `HttpTransport` is out on this loop, because a real server takes real time. It does not wait
    for other work in real time. With `auto=False` only `advance` changes the time.

    Args:
        now: the initial time in seconds since the epoch.
        auto: whether sleeping advances the time.

    >>> clock = FakeClock(now=100.0)
    >>> asyncio.run(clock.sleep(30))
    >>> clock.now(), clock.monotonic(), clock.sleeps
    (130.0, 30.0, [30])
    """

    @check_arguments
    def __init__(self, now: NonNegativeFloat = 1_700_000_000.0, *, auto: bool = True) -> None:
        self.sleeps: list[float] = []
        self._epoch = now
        self._passed = 0.0
        self._auto = auto
        self._order = count()
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._watched_loop: asyncio.AbstractEventLoop | None = None
        self._passes = 0

    def now(self) -> float:
        """Return the seconds since the epoch."""
        return self._epoch + self._passed

    def monotonic(self) -> float:
        """Return the seconds since the clock was created."""
        return self._passed

    async def sleep(self, seconds: float) -> None:
        """Sleep for virtual seconds; `sleeps` records each call."""
        self.sleeps.append(seconds)
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        loop = asyncio.get_running_loop()
        woken: asyncio.Future[None] = loop.create_future()
        heapq.heappush(self._sleepers, (self._passed + seconds, next(self._order), woken))
        self._passes = 0
        # A callback of a loop that ended is lost.
        if self._auto and self._watched_loop is not loop:
            self._watched_loop = loop
            loop.call_soon(self._wake_when_idle, loop)
        await woken

    def advance(self, seconds: float) -> None:
        """Advance the time, and wake the sleeping tasks whose time has come, in order."""
        check_value("seconds", seconds, NonNegativeFloat)
        until = self._passed + seconds
        while self._sleepers and self._sleepers[0][0] <= until:
            self._wake_next()
        self._passed = until

    def step(self, seconds: float) -> None:
        """Change the time of day, as a correction of the clock does; negative steps go back.

        >>> clock = FakeClock(now=100.0)
        >>> clock.step(3600)
        >>> clock.now(), clock.monotonic()
        (3700.0, 0.0)
        """
        check_value("seconds", seconds, float)
        self._epoch += seconds

    def _wake_next(self) -> None:
        wake_time, _, future = heapq.heappop(self._sleepers)
        if not future.done():  # a cancelled task does not advance the time
            self._passed = max(self._passed, wake_time)
            future.set_result(None)

    def _wake_when_idle(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._sleepers and find_network_waits(loop).count:
            self._passes = 0
            loop.call_later(_LOOK_AGAIN, self._wake_when_idle, loop)
            return
        self._passes += 1
        if self._passes > _SETTLE_PASSES:
            self._passes = 0
            self._wake_next()
        if self._sleepers:
            loop.call_soon(self._wake_when_idle, loop)
        else:
            self._watched_loop = None


class FixedRng:
    """A random number generator that returns the given values in turn.

    Args:
        values: the values, each from 0 to below 1.

    >>> rng = FixedRng(0.25, 0.5)
    >>> [rng(), rng(), rng()]
    [0.25, 0.5, 0.25]
    """

    @check_arguments
    def __init__(self, *values: Chance) -> None:
        self._values = values or (0.5,)
        self._at = 0

    def __call__(self) -> float:
        """Return the next value."""
        value = self._values[self._at % len(self._values)]
        self._at += 1
        return value


@contextmanager
def no_waits() -> Iterator[FakeClock]:
    """Remove the waits between attempts in this block; the clock that it yields records `sleeps`.

    This applies to each agent, `Guard`, `execute` and `@resilient` without its own clock. Timeouts
    of real work still use real time. Use it with one event loop at a time.

    >>> from holdfast.calls import resilient
    >>> tries = []
    >>> @resilient
    ... def connect():
    ...     tries.append(1)
    ...     raise ConnectionResetError
    >>> with no_waits() as clock:
    ...     try:
    ...         connect()
    ...     except ConnectionResetError:
    ...         print(len(tries), "attempts,", len(clock.sleeps), "waits")
    4 attempts, 3 waits
    """
    clock = FakeClock()
    before = {name: SystemClock.__dict__[name] for name in ("now", "monotonic", "sleep")}

    async def sleep(_self: SystemClock, seconds: float) -> None:
        await clock.sleep(seconds)

    _patch_clock(
        {"now": staticmethod(clock.now), "monotonic": staticmethod(clock.monotonic), "sleep": sleep}
    )
    try:
        yield clock
    finally:
        _patch_clock(before)


def _patch_clock(functions: Mapping[str, object]) -> None:
    for name, function in functions.items():
        setattr(SystemClock, name, function)
