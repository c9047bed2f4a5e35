"""The metrics of the queue, which services and workers tell alike. They must never name a tenant."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from holdfast.journal.inbox.inbox import QueueDepth
from holdfast.server.health.prometheus import Metric


def measure_queue(depths: Iterable[QueueDepth]) -> list[Metric]:
    """Return how many entries are in each state, and how old the oldest of them is.

    >>> from holdfast.journal.inbox.entries import EntryState
    >>> depths = [QueueDepth("a", EntryState.READY, 2, 9.0), QueueDepth("b", EntryState.READY, 1, 4.0)]
    >>> [gauge.get(("ready",)) for gauge in measure_queue(depths)]
    [3, 9.0]
    """
    counts: dict[str, int] = defaultdict(int)
    ages: dict[str, float] = defaultdict(float)
    for depth in depths:
        counts[depth.state.value] += depth.count
        ages[depth.state.value] = max(ages[depth.state.value], depth.oldest_seconds)
    depth_gauge = Metric(
        "holdfast_queue_depth", "Entries of all tenants in a state.", ("state",), "gauge"
    )
    age_gauge = Metric(
        "holdfast_queue_oldest_seconds",
        "Seconds since the oldest entry in a state was submitted.",
        ("state",),
        "gauge",
    )
    for state, count in counts.items():
        depth_gauge.set((state,), count)
        age_gauge.set((state,), ages[state])
    return [depth_gauge, age_gauge]
