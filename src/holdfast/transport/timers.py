"""The timeouts of all requests of one loop, by one timer that compares timestamps.

A timer for each piece would cost more than reading the piece, and one for each request more than all
other work for timeouts. So one timer fires at the earliest time at which a limit of any request can
expire, and checks the requests that are due. If a limit has expired, the request's watchdog closes
the connection, and the waiting reader gets an error. Tasks are never cancelled: only the user does
that.
"""

from __future__ import annotations

from asyncio import AbstractEventLoop, Handle
from collections.abc import Callable
from math import floor, inf

from holdfast.transport.port import Timeouts

# A timer that is later than this was delayed by a blocked loop, which could not read either.
_LATE = 0.05
_GRACE = 0.1
# A reader that gathers looks four times a second, and sooner at first: who starts a turn and then reads it
# comes some milliseconds after the first bytes. Looks fall on 16 points of a second, the first ones on 64, so
# that the looks of thousands of requests share their timers.
_FIRST_LOOK = 1 / 64
_LOOK = 0.25
_LOOKS_GRID = 64


class TimerWheel:
    """The timer that the watchdogs of one loop share.

    Args:
        loop: the event loop.
    """

    __slots__ = ("_due", "_loop", "_timer", "_wakes_at", "time")

    def __init__(self, loop: AbstractEventLoop) -> None:
        self._loop = loop
        self._due: dict[Watchdog, float] = {}
        self._timer: Handle | None = None
        self._wakes_at = inf
        self.time = loop.time

    def schedule(self, watchdog: Watchdog, when: float) -> None:
        """Check a watchdog at `when`, in seconds of the loop; this replaces its earlier time."""
        self._due[watchdog] = when
        self._wake_at(when)

    def unschedule(self, watchdog: Watchdog) -> None:
        """Stop checking a watchdog.

        The timer stays: the next request probably needs one as early, and a timer that fires
        without work costs less than a new timer for each request.
        """
        self._due.pop(watchdog, None)

    def find_look_after(self, seconds: float) -> float:
        """Return the time of a look of a reader that gathers after about `seconds`, in seconds of the loop."""
        grid = _LOOKS_GRID if seconds < _LOOK else _LOOKS_GRID / 4
        return floor((self.time() + seconds) * grid) / grid

    def _wake_at(self, when: float) -> None:
        if self._wakes_at <= when:
            return
        if self._timer is not None:
            self._timer.cancel()
        # The time is stored here, because the timers of some loops, such as uvloop, do not know it.
        self._wakes_at = when
        self._timer = self._loop.call_at(when, self._check_due)

    def _check_due(self) -> None:
        self._timer, self._wakes_at = None, inf
        now = self.time()
        try:
            for watchdog in [watchdog for watchdog, when in self._due.items() if when <= now]:
                if (
                    self._due.pop(watchdog, None) is not None
                ):  # closing another connection may have ended it
                    watchdog.check_limits()
        finally:  # the others are watched even if closing one connection fails
            if self._due:
                self._wake_at(min(self._due.values()))


class Watchdog:
    """Watches one request; `expired_limit` is the code of the expired limit, or "".

    Args:
        timers: the timer of the loop.
        timeouts: the limits.
    """

    __slots__ = (
        "_deadline",
        "_drop",
        "_due",
        "_grace_due",
        "_limit",
        "_limit_code",
        "_look",
        "_look_after",
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
        self._look: Callable[[], bool] | None = None
        self._look_after = _FIRST_LOOK
        self.timeouts = timeouts
        self.expired_limit = ""

    @property
    def has_connection(self) -> bool:
        """Whether the request had a connection, so that it may have reached the server."""
        return self._drop is not None

    @property
    def silent_seconds(self) -> float:
        """Seconds without content, while the reader waited for it."""
        return 0.0 if self._reader_left_at else self._timers.time() - self._silent_since

    @property
    def remaining_seconds(self) -> float:
        """Seconds until the limit of the whole request; infinite without one."""
        return self._deadline - self._timers.time()

    def start(self, drop: Callable[[], bool]) -> None:
        """Start watching a request that has its connection. `drop` closes it, and returns whether it was open."""
        self._drop = drop
        self._silent_since = self._timers.time()
        # The shorter of both limits, so that the first piece does not need another timer.
        limit = min(self._limit, self.timeouts.between_chunks or inf)
        self._set_alarm(min(self._deadline, self._silent_since + limit))

    def stop(self) -> None:
        """Stop watching."""
        self._set_alarm(inf)

    def drop_connection(self) -> None:
        """Close the connection now, if the request still has one."""
        if self._drop is not None:
            self._drop()

    def begin_wait(self) -> None:
        """Begin to wait for the next piece; the time since `end_wait` does not count."""
        if self._reader_left_at:
            self._silent_since += self._timers.time() - self._reader_left_at
            self._reader_left_at = 0.0

    def end_wait(self) -> None:
        """End the wait: a piece came, and its reader processes it."""
        self._reader_left_at = self._timers.time()

    def begin_looks(self, look: Callable[[], bool]) -> None:
        """Call `look` four times a second, sooner at first, and before a limit expires, while the reader gathers.

        Args:
            look: wakes the reader if bytes have come, and returns whether they have.
        """
        self._look = look
        self._set_alarm(min(self._due, self._next_look()))

    def _next_look(self) -> float:
        seconds = min(self._look_after, _LOOK)
        self._look_after = 2 * seconds
        return self._timers.find_look_after(seconds)

    def end_looks(self) -> None:
        """Stop calling `look`."""
        self._look = None

    def note_body_start(self) -> None:
        """Record the first piece: from now on, the limit until the first content or between pieces applies."""
        if self.timeouts.first_content is None:
            self.note_content()
        else:
            self._set_limit("no_content", self.timeouts.first_content)
            self.note_piece()

    def note_piece(self) -> None:
        """Record a piece of any kind; it counts until the first content, if `first_content` is set."""
        if self._limit_code == "no_content":
            self._silent_since = self._reader_left_at or self._timers.time()

    def note_content(self) -> None:
        """Record that the last piece was content."""
        self._silent_since = self._reader_left_at or self._timers.time()
        if self._limit_code != "stalled":
            self._set_limit("stalled", self.timeouts.between_chunks)

    def _set_limit(self, code: str, seconds: float | None) -> None:
        self._limit_code, self._limit = code, seconds or inf
        due = min(self._deadline, self._silent_since + self._limit)
        if due < self._due < inf:
            self._set_alarm(due)

    def _set_alarm(self, when: float) -> None:
        if when < inf:
            self._timers.schedule(self, when)
        elif self._due < inf:
            self._timers.unschedule(self)
        self._due = when

    def check_limits(self) -> None:
        """Close the connection if a limit has expired; otherwise schedule the next check."""
        self._due = inf
        has_bytes = self._look is not None and self._look()
        now = self._timers.time()
        due = min(
            self._deadline, (now if self._reader_left_at else self._silent_since) + self._limit
        )
        if now < due:
            self._set_alarm(due if self._look is None else min(due, self._next_look()))
            return
        if (has_bytes or now - due > _LATE) and due > self._grace_due + _GRACE:
            # Data that arrived meanwhile was not read yet, so it may be read first. Data without
            # content extends the limit a little, and this must not be repeated.
            self._grace_due = due
            self._set_alarm(now + _GRACE)
            return
        # Without an open connection, the whole response has already arrived.
        if self._drop is not None and self._drop():
            self.expired_limit = "total_timeout" if now >= self._deadline else self._limit_code
