"""The journal of a process that may forget: records live as long as this object.

It must never copy or encode an event: an in-memory run pays nothing for its journal.
"""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.core.errors import ConflictError
from holdfast.core.events import Event
from holdfast.journal.port import Record


class MemoryJournal:
    """Keeps records in lists; for tests, scripts, and runs that need not outlive the process.

    >>> import asyncio
    >>> asyncio.run(MemoryJournal().read("unknown"))
    []
    """

    __slots__ = ("_keys", "_runs")

    def __init__(self) -> None:
        self._runs: dict[str, list[Record]] = {}
        self._keys: dict[str, set[str]] = {}

    async def append(self, run: str, event: Event, digest: str = "") -> None:
        """Keep one event. Raises ConflictError if the key is taken."""
        keys = self._keys.setdefault(run, set())
        if event.key in keys:
            raise ConflictError(f"the run {run!r} has an outcome for {event.key!r} already")
        keys.add(event.key)
        self._runs.setdefault(run, []).append(Record(event, digest))

    async def read(self, run: str, after: int = 0) -> Sequence[Record]:
        """The records of one run in order, without the first `after`."""
        return self._runs.get(run, [])[after:]
