"""The journal of a process that may forget: records live as long as this object.

It must never copy or encode an event: an in-memory run pays nothing for its journal.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from holdfast.core.effects import Effect, digest
from holdfast.core.errors import ConflictError
from holdfast.core.events import Event
from holdfast.journal.port import Record, RunEntry


class MemoryJournal:
    """Keeps records in lists; for tests, scripts, and runs that need not outlive the process.

    >>> import asyncio
    >>> asyncio.run(MemoryJournal().read("unknown"))
    []
    """

    __slots__ = ("_runs",)

    def __init__(self) -> None:
        self._runs: dict[str, dict[str, tuple[Event, Effect | None]]] = {}

    async def append(self, run: str, event: Event, effect: Effect | None = None) -> None:
        """Keep one event. Raises ConflictError if the key is taken."""
        kept = self._runs.get(run)
        if kept is None:
            kept = self._runs[run] = {}
        if event.key in kept:
            raise ConflictError(f"the run {run!r} has an outcome for {event.key!r} already")
        kept[event.key] = (event, effect)

    async def read(self, run: str, after: int = 0) -> Sequence[Record]:
        """The records of one run in order, without the first `after`."""
        kept = islice(self._runs.get(run, {}).values(), after, None)
        return [Record(event, digest(effect) if effect else "") for event, effect in kept]

    async def runs(self) -> Sequence[RunEntry]:
        """All runs, by name."""
        return [_entry(run, list(kept.values())) for run, kept in sorted(self._runs.items())]

    async def delete(self, run: str) -> int:
        """Forget a run for good; returns how many records it had."""
        return len(self._runs.pop(run, {}))


def _entry(run: str, kept: Sequence[tuple[Event, Effect | None]]) -> RunEntry:
    times = [event.at for event, _ in kept]
    return RunEntry(run, len(kept), min(times), max(times))
