"""Counts of requests for the metrics. This module must never count by what belongs to a person."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct


class RequestTimes(Struct):
    """The requests of one kind: how many there were, and how many seconds they took together."""

    count: int = 0
    seconds: float = 0.0


class RequestCounts:
    """Counts requests by method, template of the route, and status; for the event loop's thread.

    >>> counts = RequestCounts()
    >>> counts.add("POST", "/chat", 200, 0.5)
    >>> counts.read()["POST", "/chat", 200].count
    1
    """

    def __init__(self) -> None:
        self._times: dict[tuple[str, str, int], RequestTimes] = {}

    def add(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a request.

        Args:
            method: its method.
            route: the template of its route, such as `/sessions/{session_id}`.
            status: the status of the response.
            seconds: how long it took.
        """
        times = self._times.setdefault((method, route, status), RequestTimes())
        times.count += 1
        times.seconds += seconds

    def read(self) -> Mapping[tuple[str, str, int], RequestTimes]:
        """Return the counts by method, route and status."""
        return dict(self._times)
