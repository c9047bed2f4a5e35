"""What a worker has done since it started, for its metrics. It must never contain data of a person."""

from __future__ import annotations

from collections import Counter

from msgspec import Struct, field

from holdfast.journal.inbox.driving import EntryOutcome

HANDED_BACK = "handed_back"
"""The outcome of an entry that another worker is to have."""


class WorkerCounts(Struct):
    """What a worker has done.

    Args:
        handled: how many entries it has had, by what became of them: a state, or "handed_back".
        failed_sweeps: how many parts of its sweeps failed.

    >>> counts = WorkerCounts()
    >>> counts.note_outcome(None)
    >>> dict(counts.handled)
    {'handed_back': 1}
    """

    handled: Counter[str] = field(default_factory=Counter)
    failed_sweeps: int = 0

    def note_outcome(self, outcome: EntryOutcome | None) -> None:
        """Count an entry."""
        self.handled[HANDED_BACK if outcome is None else outcome.state.value] += 1

    def note_failed_sweep(self) -> None:
        """Count a part of a sweep that failed."""
        self.failed_sweeps += 1
