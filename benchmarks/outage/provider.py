"""A provider with a fixed capacity, a queue, and an incident, in virtual time.

Work is counted in requests. A request that finds the queue full is refused, and refusing costs a
part of a request's work too: that is how retries keep an overloaded provider overloaded.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Literal

from msgspec import Struct

BASE_LATENCY = 0.3
REFUSAL_LATENCY = 0.2
REFUSAL_WORK = 0.1
QUEUE_SECONDS = 2.0


class Incident(Struct, frozen=True):
    """From `begin` to `end` (seconds) the capacity is this share of the healthy one."""

    name: str
    share: float
    begin: float = 60.0
    end: float = 120.0


BROWN_OUT = Incident("brown-out to 20 %", 0.2)
OUTAGE = Incident("full outage", 0.0)

Answer = tuple[Literal["served", "refused", "down"], float]
"""What comes of an attempt, and when."""


class Provider:
    """Serves requests in order, as fast as its capacity allows at each moment.

    Args:
        capacity: requests a second when healthy.
        incident: when it is not.
    """

    def __init__(self, capacity: float, incident: Incident) -> None:
        ill = capacity * incident.share
        self._times = [0.0, incident.begin, incident.end]
        self._rates = [capacity, ill, capacity]
        self._done = [0.0, capacity * incident.begin]
        self._done.append(self._done[1] + ill * (incident.end - incident.begin))
        self._queue = capacity * QUEUE_SECONDS
        self._promised = 0.0
        """The cumulative work at which the last accepted request is finished."""

    def attempt(self, now: float) -> Answer:
        """One request arrives."""
        at = bisect_right(self._times, now) - 1
        if not self._rates[at]:
            return "down", now + REFUSAL_LATENCY
        done = self._done[at] + self._rates[at] * (now - self._times[at])
        backlog = max(0.0, self._promised - done)
        if backlog >= self._queue:
            self._promised = done + backlog + REFUSAL_WORK
            return "refused", now + REFUSAL_LATENCY
        self._promised = done + backlog + 1.0
        return "served", self._when(self._promised) + BASE_LATENCY

    def _when(self, work: float) -> float:
        """The moment at which so much work is done since the beginning."""
        at = len(self._done) - 1
        while at and self._done[at] >= work:
            at -= 1
        if not self._rates[at]:
            at += 1
        return self._times[at] + max(0.0, work - self._done[at]) / self._rates[at]
