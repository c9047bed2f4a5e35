"""A journal in memory: its records live as long as the object.

It neither copies nor encodes events, so it costs almost nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.core.effects import Effect, effect_digest
from holdfast.core.errors import ConflictError
from holdfast.core.events import Event, TurnClosed, TurnOpened
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

    async def append(self, run: str, event: Event, effect: Effect | None = None) -> None:
        """Save one event. Raises ConflictError if the run already has its key."""
        records = self._runs.get(run)
        if records is None:
            records = self._runs[run] = {}
        if event.key in records:
            raise ConflictError(f"the run {run!r} has an outcome for {event.key!r} already")
        records[event.key] = (event, effect)

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
