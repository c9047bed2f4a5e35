"""Counters for the metrics. This module must never count by what belongs to a person."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping


class Counts:
    """Counts by name; for the event loop's thread.

    >>> counts = Counts()
    >>> counts.add("turns")
    >>> dict(counts.read())
    {'turns': 1}
    """

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def add(self, name: str) -> None:
        """Count one."""
        self._counts[name] += 1

    def read(self) -> Mapping[str, int]:
        """Return the counts by name."""
        return dict(self._counts)
