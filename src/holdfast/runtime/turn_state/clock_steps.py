"""Finds out by how much the wall clock stepped while a turn was live.

The times of events are wall time, for people and for a turn that no process drove. The limits of a
live turn count monotonic time. A wall clock steps when it is corrected, or when a computer sleeps.
"""

from __future__ import annotations

from holdfast.resilience.clock import Clock

_LEAST = 1.0  # seconds; smaller differences add up until they reach it


class ClockSteps:
    """The steps of the wall clock since this object was made.

    Args:
        clock: the clock of the turn.
    """

    __slots__ = ("_clock", "_offset")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._offset = clock.now() - clock.monotonic()

    def take(self) -> float:
        """Return the seconds by which the clock stepped since the last call; back is negative."""
        before = self._clock.monotonic()
        offset = self._clock.now() - before
        step = offset - self._offset
        if -_LEAST < step < _LEAST:
            return 0.0
        paused = self._clock.monotonic() - before  # the process, between the two readings
        if paused > _LEAST / 2:
            return 0.0
        self._offset = offset
        return step
