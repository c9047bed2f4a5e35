"""The clocks of all requests: one timer of the loop, which looks at timestamps.

A timer for each piece would cost more than reading the piece, and one for each request more than
all else that the transport does about time. So one patrol sleeps until the earliest moment at which
a limit of any request can have passed, looks at those that are due, and sleeps again. When a limit
has passed, the request's watchdog cuts the connection, and whoever waits for it wakes with an error.
It must never cancel a task: only the user may do that.
"""

from __future__ import annotations

from asyncio import AbstractEventLoop, Handle
from collections.abc import Callable
from math import inf

from holdfast.transport.port import Timeouts

# A timer that is later than this was held up by a blocked loop, in which nobody could read either.
_LATE = 0.05
_GRACE = 0.1


class TimerWheel:
    """The timer that the watchdogs of one loop share.

    Args:
        loop: whose time it is.
    """

    __slots__ = ("_due", "_loop", "_timer", "_wakes_at", "time")

    def __init__(self, loop: AbstractEventLoop) -> None:
        self._loop = loop
        self._due: dict[Watchdog, float] = {}
        self._timer: Handle | None = None
        self._wakes_at = inf
        self.time = loop.time

    def schedule(self, watchdog: Watchdog, when: float) -> None:
        """Let it look at that time, in seconds of the loop, and not at the one it had named before."""
        self._due[watchdog] = when
        self._wake_at(when)

    def unschedule(self, watchdog: Watchdog) -> None:
        """It need not look any more.

        The timer stays: the next request is likely to need one as early, and a round for nothing
        costs less than a timer for each.
        """
        self._due.pop(watchdog, None)

    def _wake_at(self, when: float) -> None:
        if self._wakes_at <= when:
            return
        if self._timer is not None:
            self._timer.cancel()
        # Not asked of the timer: that of a loop such as uvloop may not know its own time.
        self._wakes_at = when
        self._timer = self._loop.call_at(when, self._check_due)

    def _check_due(self) -> None:
        self._timer, self._wakes_at = None, inf
        now = self.time()
        try:
            for watchdog in [one for one, when in self._due.items() if when <= now]:
                if self._due.pop(watchdog, None) is not None:  # another's cut may have ended it
                    watchdog.check_limits()
        finally:  # one connection that cannot be cut must not keep the others from being watched
            if self._due:
                self._wake_at(min(self._due.values()))


class Watchdog:
    """Watches one request; `expired_limit` is the code of the limit that passed, or "".

    Args:
        timers: the timer of the request's loop.
        timeouts: the limits.
    """

    __slots__ = (
        "_deadline",
        "_drop",
        "_due",
        "_grace_due",
        "_limit",
        "_limit_code",
        "_reader_left_at",
        "_silent_since",
        "_timers",
        "expired_limit",
        "timeouts",
    )

    def __init__(self, timers: TimerWheel, timeouts: Timeouts) -> None:
        self._timers = timers
        self._silent_since = timers.time()
        self._deadline = self._silent_since + (timeouts.total or inf)
        self._limit = timeouts.first_byte or inf
        self._limit_code = "first_byte_timeout"
        self._reader_left_at = 0.0
        self._grace_due = -inf
        self._due = inf
        self._drop: Callable[[], bool] | None = None
        self.timeouts = timeouts
        self.expired_limit = ""

    @property
    def has_connection(self) -> bool:
        """Whether the request had a connection, so that it can have reached the server."""
        return self._drop is not None

    def start(self, drop: Callable[[], bool]) -> None:
        """The request has its connection. `drop` drops it, and says whether there was one left."""
        self._drop = drop
        self._silent_since = self._timers.time()
        # By the shorter of both limits, so that the first piece need not set another timer.
        limit = min(self._limit, self.timeouts.between_chunks or inf)
        self._set_alarm(min(self._deadline, self._silent_since + limit))

    def stop(self) -> None:
        """The request is over."""
        self._set_alarm(inf)

    def drop_connection(self) -> None:
        """Drop the connection now, if the request still has one."""
        if self._drop is not None:
            self._drop()

    def begin_wait(self) -> None:
        """Somebody waits for the next piece; the time since `end_wait` was not the server's."""
        if self._reader_left_at:
            self._silent_since += self._timers.time() - self._reader_left_at
            self._reader_left_at = 0.0

    def end_wait(self) -> None:
        """A piece came, and its reader is busy with it."""
        self._reader_left_at = self._timers.time()

    def note_body_start(self) -> None:
        """The first piece came: from now on the silence between pieces is what counts."""
        self._limit = self.timeouts.between_chunks or inf
        self._limit_code = "stalled"
        self.note_content()
        due = min(self._deadline, self._silent_since + self._limit)
        if due < self._due < inf:
            self._set_alarm(due)

    def note_content(self) -> None:
        """The last piece was content."""
        self._silent_since = self._reader_left_at or self._timers.time()

    def _set_alarm(self, when: float) -> None:
        if when < inf:
            self._timers.schedule(self, when)
        elif self._due < inf:
            self._timers.unschedule(self)
        self._due = when

    def check_limits(self) -> None:
        """Cut the connection if a limit has passed; else name the time of the next look."""
        self._due = inf
        now = self._timers.time()
        due = min(
            self._deadline, (now if self._reader_left_at else self._silent_since) + self._limit
        )
        if now < due:
            self._set_alarm(due)
            return
        if now - due > _LATE and due > self._grace_due + _GRACE:
            # What the server sent meanwhile waits in the socket: let it be read first. Reading what
            # is no content moves the limit by a little, and must not do so again and again.
            self._grace_due = due
            self._set_alarm(now + _GRACE)
            return
        # Without a connection to cut, the whole response is here already.
        if self._drop is not None and self._drop():
            self.expired_limit = "total_timeout" if now >= self._deadline else self._limit_code
