"""The clock of one request: one timer that looks at a timestamp, whatever the number of pieces.

A timer for each piece would cost more than reading the piece. This one sleeps until the earliest
moment at which a limit can have passed, looks, and sleeps again. When a limit has passed it cuts
the connection, and whoever waits for it wakes with an error. It must never cancel a task: only the
user may do that.
"""

from __future__ import annotations

from asyncio import AbstractEventLoop, TimerHandle
from collections.abc import Callable
from math import inf

from holdfast.transport.port import Timeouts

# A timer that is later than this was held up by a blocked loop, in which nobody could read either.
_LATE = 0.05
_GRACE = 0.1


class Watchdog:
    """Watches one request; `expired` is the code of the limit that passed, or "".

    Args:
        loop: the loop of the request.
        timeouts: the limits.
    """

    __slots__ = (
        "_away",
        "_cut",
        "_deadline",
        "_graced",
        "_handle",
        "_limit",
        "_loop",
        "_since",
        "_waits_for",
        "expired",
        "timeouts",
    )

    def __init__(self, loop: AbstractEventLoop, timeouts: Timeouts) -> None:
        self._loop = loop
        self._since = loop.time()
        self._deadline = self._since + (timeouts.total or inf)
        self._limit = timeouts.first_byte or inf
        self._waits_for = "first_byte_timeout"
        self._away = 0.0
        self._graced = 0.0
        self._handle: TimerHandle | None = None
        self._cut: Callable[[], bool] | None = None
        self.timeouts = timeouts
        self.expired = ""

    @property
    def started(self) -> bool:
        """Whether the request had a connection, so that it can have reached the server."""
        return self._cut is not None

    def start(self, cut: Callable[[], bool]) -> None:
        """The request has its connection. `cut` drops it, and says whether there was one left."""
        self._cut = cut
        self._since = self._loop.time()
        # By the shorter of both limits, so that the first piece need not set another timer.
        limit = min(self._limit, self.timeouts.between_chunks or inf)
        self._arm(min(self._deadline, self._since + limit))

    def stop(self) -> None:
        """The request is over."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def cut(self) -> None:
        """Drop the connection now, if the request still has one."""
        if self._cut is not None:
            self._cut()

    def enter(self) -> None:
        """Somebody waits for the next piece; the time since `leave` was not the server's."""
        if self._away:
            self._since += self._loop.time() - self._away
            self._away = 0.0

    def leave(self) -> None:
        """A piece came, and its reader is busy with it."""
        self._away = self._loop.time()

    def body_began(self) -> None:
        """The first piece came: from now on the silence between pieces is what counts."""
        self._limit = self.timeouts.between_chunks or inf
        self._waits_for = "stalled"
        self.content_seen()
        due = min(self._deadline, self._since + self._limit)
        if self._handle is not None and due < self._handle.when():
            self._handle.cancel()
            self._arm(due)

    def content_seen(self) -> None:
        """The last piece was content."""
        self._since = self._away or self._loop.time()

    def _arm(self, when: float) -> None:
        self._handle = self._loop.call_at(when, self._look) if when < inf else None

    def _look(self) -> None:
        now = self._loop.time()
        due = min(self._deadline, (now if self._away else self._since) + self._limit)
        if now < due:
            self._arm(due)
            return
        if now - due > _LATE and self._graced != due:
            # What the server sent meanwhile waits in the socket: let it be read first.
            self._graced = due
            self._arm(now + _GRACE)
            return
        self._handle = None
        # Without a connection to cut, the whole response is here already.
        if self._cut is not None and self._cut():
            self.expired = "total_timeout" if now >= self._deadline else self._waits_for
