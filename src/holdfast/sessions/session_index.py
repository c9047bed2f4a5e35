"""The methods by which a journal finds single records, and a substitute for journals without them.

Every journal works: `to_index` implements the missing methods by reading whole runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

from holdfast.core.effects import Effect, effect_digest
from holdfast.core.errors import ConflictError
from holdfast.core.events import Event
from holdfast.journal.port import Journal, Record, RunEntry
from holdfast.sessions.session_history import Replay


@runtime_checkable
class SessionIndex(Journal, Protocol):
    """A journal that finds single records without decoding all of them."""

    async def keys(self, run: str) -> Sequence[str]:
        """Return the keys of a run, in order of the records."""
        ...

    async def read_by_keys(self, run: str, keys: Sequence[str]) -> Sequence[Record]:
        """Return the records of a run that have one of these keys, in order."""
        ...

    async def find_words(self, words: Sequence[str]) -> Sequence[tuple[str, str]]:
        """Return run and key of each record that may contain all of these words, the newest first.

        Upper and lower case are equal. The result may contain records without the words, but it
        must contain every record with them.

        Args:
            words: the words; an empty sequence selects all records.
        """
        ...

    async def restore(self, runs: Mapping[str, Sequence[Record]]) -> None:
        """Save these runs with exactly these records: either all of them or, on failure, none.

        Raises:
            ConflictError: one of the runs already has records.
        """
        ...


@runtime_checkable
class HasHeads(Protocol):
    """A journal that lists its runs without reading all their records."""

    async def heads(self) -> Sequence[RunEntry]:
        """Return all runs; the times may be those of the first and the last record."""
        ...


async def list_heads(journal: Journal) -> Sequence[RunEntry]:
    """List the runs in no order, in the fastest way that the journal offers."""
    return await (journal.heads() if isinstance(journal, HasHeads) else journal.runs())


def to_index(journal: Journal) -> SessionIndex:
    """Return the journal itself, or a wrapper that adds the methods of `SessionIndex`."""
    return journal if isinstance(journal, SessionIndex) else ScanningIndex(journal)


class ScanningIndex:
    """Implements `SessionIndex` on the methods of any journal.

    Args:
        journal: the journal.
    """

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self.append, self.read = journal.append, journal.read
        self.runs, self.delete = journal.runs, journal.delete

    async def keys(self, run: str) -> Sequence[str]:
        """Return all keys, by reading the run."""
        return [record.event.key for record in await self._journal.read(run)]

    async def read_by_keys(self, run: str, keys: Sequence[str]) -> Sequence[Record]:
        """Return the records with these keys, by reading the run."""
        wanted = set(keys)
        return [record for record in await self._journal.read(run) if record.event.key in wanted]

    async def find_words(self, words: Sequence[str]) -> Sequence[tuple[str, str]]:  # noqa: ARG002  # REASON: the search checks the text
        """Return every record, the latest changed run first."""
        entries: Sequence[RunEntry] = await self._journal.runs()
        found: list[tuple[str, str]] = []
        for entry in sorted(entries, key=lambda entry: entry.changed_at, reverse=True):
            found += ((entry.run, key) for key in reversed(await self.keys(entry.run)))
        return found

    async def restore(self, runs: Mapping[str, Sequence[Record]]) -> None:
        """Append the records one by one; if one fails, delete the runs that were begun."""
        for run in runs:
            if await self._journal.read(run):
                raise ConflictError(f"the journal already has a run {run!r}")
        new_runs: list[str] = []
        try:
            for run, records in runs.items():
                for number, (event, effect) in enumerate(_with_effects(records)):
                    await self._journal.append(run, event, effect)
                    if not number:  # the append made the run: no other process owns it
                        new_runs.append(run)
        except BaseException:
            for run in new_runs:
                await self._journal.delete(run)
            raise


def _with_effects(records: Sequence[Record]) -> list[tuple[Event, Effect | None]]:
    """Pair each event with the effect that it ends, by a replay: the journal needs its digest."""
    replay, found = Replay(records), []
    for record in records:
        pending = replay.machine.pending_effects()
        effect = next((effect for effect in pending if effect.key == record.event.key), None)
        is_same = effect is not None and effect_digest(effect) == record.digest
        found.append((record.event, effect if is_same else None))
        replay.apply_next()
    return found
