"""The journal port: one outcome per key of a run, append-only.

A journal must never change, reorder or drop a record, and must never accept a second record with
the same run and key: that is what keeps two drivers of one run from both going on. A whole run may
be deleted, since people may ask for that. `holdfast.testing.journal_conformance` tests all of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from msgspec import Struct

from holdfast.core.effects import Effect
from holdfast.core.events import Event


class Record(Struct, frozen=True):
    """One line: the event, and the fingerprint of the effect that it ends ("" for none)."""

    event: Event
    digest: str = ""


class RunEntry(Struct, frozen=True):
    """One run of a journal: how many records it has, and the times of its first and last one.

    Times are in seconds since the epoch.
    """

    run: str
    records: int
    opened_at: float
    changed_at: float


class Journal(Protocol):
    """Where the facts of runs are kept."""

    async def append(self, run: str, event: Event, effect: Effect | None = None) -> None:
        """Keep one event; returns when it is safe.

        A cancelled append has ended when it raises CancelledError: the record is then kept or it
        is not, `read` says which, and nothing comes later.

        Args:
            run: the run.
            event: what happened.
            effect: what the event ends, so that its digest can be kept; None for a marker.

        Raises:
            ConflictError: the run has an outcome for this key already.
        """
        ...

    async def read(self, run: str, after: int = 0) -> Sequence[Record]:
        """The records of one run in order, without the first `after`; empty for an unknown run."""
        ...

    async def runs(self) -> Sequence[RunEntry]:
        """All runs, by name."""
        ...

    async def delete(self, run: str) -> int:
        """Forget a run for good; returns how many records it had."""
        ...
