"""One timer for the sessions of a tenant that wait for answers until some time.

This module must never read a journal: the time of a session is only when to look at it.
"""

from __future__ import annotations

import asyncio
import heapq
import math
from collections.abc import Callable

from holdfast.resilience.clock import Clock

LONGEST_SLEEP = 60.0
"""Seconds after which the time of day is read again, since it may jump."""


class QuestionDeadlines:
    """The sessions that are to be looked at later, and the timer for the first of them.

    Args:
        clock: the clock of the deadlines.
        look_at: is called with a session when its time has come; it must not raise.
    """

    def __init__(self, clock: Clock, look_at: Callable[[str], None]) -> None:
        self._clock = clock
        self._look_at = look_at
        self._times: dict[str, float] = {}
        self._queue: list[tuple[float, str]] = []
        """The times with those that were replaced; only a time that `_times` has counts."""
        self._timer: asyncio.Task[None] | None = None
        self._is_closed = False

    def set_time(self, session: str, at: float) -> None:
        """Look at a session at a time, in seconds since the epoch, and at no other time.

        An infinite time means that it is not looked at.
        """
        self._times.pop(session, None)
        if at == math.inf or self._is_closed:
            return
        self._times[session] = at
        heapq.heappush(self._queue, (at, session))
        if self._queue[0] == (at, session):
            self._start_timer()

    def set_pause(self, session: str, seconds: float) -> None:
        """Look at a session after some seconds."""
        self.set_time(session, self._clock.now() + seconds)

    def is_over(self, at: float) -> bool:
        """Whether a time has come."""
        return at <= self._clock.now()

    def close(self) -> None:
        """Look at nothing more."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()

    def _start_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()  # it sleeps, since the rest of it does not await
        self._timer = asyncio.create_task(self._wait(), name="holdfast-deadlines")

    async def _wait(self) -> None:
        while self._queue:
            at, session = self._queue[0]
            left = at - self._clock.now()
            if self._times.get(session) != at:
                heapq.heappop(self._queue)
            elif left > 0:
                await self._clock.sleep(min(left, LONGEST_SLEEP))
            else:
                heapq.heappop(self._queue)
                del self._times[session]
                self._look_at(session)
