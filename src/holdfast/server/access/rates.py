"""Counts how often something may happen, and says exactly how long to wait when it was too often.

The decision is pure: a single number is the state of one caller (the generic cell rate algorithm).
A table of callers is bounded; the caller that was quiet the longest is forgotten first.
"""

from __future__ import annotations

from collections import OrderedDict

from msgspec import Struct


class Rate(Struct, frozen=True):
    """How often something may happen.

    Args:
        count: how many times at once.
        seconds: the time in which that many become possible again.
    """

    count: int
    seconds: float = 60.0

    @property
    def interval(self) -> float:
        """Seconds until one more becomes possible."""
        return self.seconds / self.count


def find_wait(rate: Rate, state: float, now: float) -> float:
    """Return the seconds until it may happen again; 0 if it may happen now.

    Args:
        rate: how often it may happen.
        state: the state of the caller; 0 for a new one.
        now: the time in seconds, of a clock that does not go back.

    >>> state = add_use(Rate(1, 60), 0.0, now=10.0)
    >>> find_wait(Rate(1, 60), state, now=40.0)
    30.0
    """
    wait = state - now - (rate.count - 1) * rate.interval
    return wait if wait > 1e-9 else 0.0


def add_use(rate: Rate, state: float, now: float) -> float:
    """Return the state of a caller after it happened once more."""
    # Not further ahead than a full count: a caller that is refused must not wait ever longer.
    return min(max(state, now) + rate.interval, now + rate.seconds)


class RateTable:
    """The states of many callers under one rate.

    Args:
        rate: how often each may do it.
        size: how many callers are remembered.
    """

    def __init__(self, rate: Rate, size: int = 10_000) -> None:
        self._rate = rate
        self._size = size
        self._states: OrderedDict[str, float] = OrderedDict()

    def find_wait(self, caller: str, now: float) -> float:
        """Return the seconds until the caller may do it again; 0 if it may now."""
        return find_wait(self._rate, self._states.get(caller, 0.0), now)

    def add_use(self, caller: str, now: float) -> None:
        """Note that the caller did it."""
        self._states[caller] = add_use(self._rate, self._states.get(caller, 0.0), now)
        self._states.move_to_end(caller)
        if len(self._states) > self._size:
            self._states.popitem(last=False)

    def give_back(self, caller: str) -> None:
        """Take back one use of the caller."""
        if caller in self._states:
            self._states[caller] -= self._rate.interval

    def take(self, caller: str, now: float) -> float:
        """Note that the caller did it, if it may; otherwise return the seconds until then."""
        wait = self.find_wait(caller, now)
        if not wait:
            self.add_use(caller, now)
        return wait
