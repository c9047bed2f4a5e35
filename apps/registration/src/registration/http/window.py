"""How many requests a session makes: a window that slides, in memory, for each process."""

from __future__ import annotations

from collections import OrderedDict, deque

_MOST_SESSIONS = 10_000


class RequestWindow:
    """Limits the requests of each session.

    Args:
        most: the requests within a window.
        seconds: the length of the window.

    >>> window = RequestWindow(1, 10.0)
    >>> window.count("s1", 0.0), window.count("s1", 4.0)
    (None, 6.0)
    """

    def __init__(self, most: int, seconds: float) -> None:
        self._most = most
        self._seconds = seconds
        self._times: OrderedDict[str, deque[float]] = OrderedDict()

    def count(self, session: str, now: float) -> float | None:
        """Count a request; return None, or after how many seconds one is accepted.

        Args:
            session: whose request it is.
            now: seconds of a monotonic clock.
        """
        times = self._times.setdefault(session, deque())
        self._times.move_to_end(session)
        while times and times[0] <= now - self._seconds:
            times.popleft()
        if len(times) >= self._most:
            return times[0] + self._seconds - now
        times.append(now)
        if len(self._times) > _MOST_SESSIONS:
            self._times.popitem(last=False)
        return None
