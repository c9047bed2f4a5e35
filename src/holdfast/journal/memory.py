"""The journal of a process that may forget: records live as long as this object.

It must never copy or encode an event: an in-memory run pays nothing for its journal.
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
        """Keep one event. Raises ConflictError if the key is taken."""
        kept = self._runs.get(run)
        if kept is None:
            kept = self._runs[run] = {}
        if event.key in kept:
            raise ConflictError(f"the run {run!r} has an outcome for {event.key!r} already")
        kept[event.key] = (event, effect)

    async def read(self, run: str, after: int = 0) -> Sequence[Record]:
        """The records of one run in order, without the first `after`."""
        # Listed at once, here and below: another thread may append meanwhile.
        kept = list(self._runs.get(run, {}).values())[after:]
        return [Record(event, effect_digest(effect) if effect else "") for event, effect in kept]

    async def runs(self, *, turn_open: bool = False) -> Sequence[RunEntry]:
        """All runs, by name; or those whose last turn has no end."""
        there = sorted((run, list(kept.values())) for run, kept in list(self._runs.items()))
        entries = (_make_entry(run, kept) for run, kept in there)
        return [entry for entry in entries if entry.turn_open or not turn_open]

    async def delete(self, run: str) -> int:
        """Forget a run for good; returns how many records it had."""
        return len(self._runs.pop(run, {}))


def _make_entry(run: str, saved: list[tuple[Event, Effect | None]]) -> RunEntry:
    times = [event.at for event, _ in saved]
    ends = (e for e, _ in reversed(saved) if isinstance(e, TurnOpened | TurnClosed))
    last = next(ends, None)
    opened = last if isinstance(last, TurnOpened) else next(ends, None)
    return RunEntry(
        run,
        len(saved),
        min(times),
        max(times),
        turn_open=last is opened is not None,
        agent=opened.agent if isinstance(opened, TurnOpened) else "",
    )
