"""Removes the waits between attempts in tests of functions that were decorated earlier.

A decorated function already has its clock, and a test cannot replace it. So this module replaces the
system clock for all its users during a block. It is for tests only.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from holdfast.resilience.system_clock import SystemClock
from holdfast.testing.fake_clock import FakeClock


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
