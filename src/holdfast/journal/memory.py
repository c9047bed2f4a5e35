"""A journal in memory: its records live as long as the object.

It neither copies nor encodes events, so it costs almost nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.core.effects import Effect, effect_digest
from holdfast.core.events import Event, TurnClosed, TurnOpened
from holdfast.journal.journal_errors import conflict_error
from holdfast.journal.port import Record, RunEntry


class MemoryJournal:
    """Saves records in memory; for tests, scripts, and runs that end with the process.

    >>> import asyncio
    >>> asyncio.run(MemoryJournal().read("unknown"))
    []
    """

    __slots__ = ("_runs",)

    def __init__(self) -> None:
        self._runs: dict[str, dict[str, tuple[Event, Effect | None]]] = {}

    async def append(
        self,
        run: str,
        event: Event,
        effect: Effect | None = None,
        *,
        marker: Event | None = None,
    ) -> None:
        """Save one event, or an event and its marker. Raises ConflictError if a key is taken."""
        saved = self._runs.get(run)
        if saved is None:
            saved = self._runs[run] = {}
        if event.key in saved:
            raise conflict_error(run, event.key)
        if marker is None:
            saved[event.key] = (event, effect)
        elif marker.key in saved or marker.key == event.key:
            raise conflict_error(run, marker.key)
        else:
            # At once, as another thread may read meanwhile.
            saved.update({event.key: (event, effect), marker.key: (marker, None)})

    async def read(self, run: str, after: int = 0) -> Sequence[Record]:
        """Return the records of one run in order, without the first `after`."""
        # Here and below, `list` copies at once, because another thread may append meanwhile.
        records = list(self._runs.get(run, {}).values())[after:]
        return [Record(event, effect_digest(effect) if effect else "") for event, effect in records]

    async def runs(self, *, turn_open: bool = False) -> Sequence[RunEntry]:
        """Return all runs sorted by name, or only those whose last turn has not ended."""
        runs = sorted((run, list(records.values())) for run, records in list(self._runs.items()))
        entries = (_make_entry(run, records) for run, records in runs)
        return [entry for entry in entries if entry.turn_open or not turn_open]

    async def delete(self, run: str) -> int:
        """Delete a run permanently; return the number of its records."""
        return len(self._runs.pop(run, {}))


def _make_entry(run: str, records: list[tuple[Event, Effect | None]]) -> RunEntry:
    times = [event.at for event, _ in records]
    ends = (event for event, _ in reversed(records) if isinstance(event, TurnOpened | TurnClosed))
    last = next(ends, None)
    opened = last if isinstance(last, TurnOpened) else next(ends, None)
    return RunEntry(
        run,
        len(records),
        min(times),
        max(times),
        turn_open=last is opened is not None,
        agent=opened.agent if isinstance(opened, TurnOpened) else "",
    )
