"""Tests of code whose retries were declared long before the test: time passes without waiting.

A decorated function has its clock from the day it was decorated, and a test cannot hand it another.
This takes the machine's clock from everybody who uses it, for a block, so it is for tests alone:
it must never be used by anything that serves.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from holdfast.resilience.system_clock import SystemClock
from holdfast.testing.fake_clock import FakeClock


@contextmanager
def no_waits() -> Iterator[FakeClock]:
    """In this block nothing waits between attempts; the clock that it gives has the `sleeps`.

    It holds for every agent, `Guard`, `execute` and `@resilient` that was given no clock. Limits of
    time that cut real work still count in real time. For one event loop at a time.

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
