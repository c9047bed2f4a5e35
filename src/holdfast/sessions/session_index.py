"""What a journal may offer so that sessions need not be read as a whole, and the same without it.

Any journal works: `to_index` adds what is missing by reading. This module must never know how a
journal keeps its records.
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
    """A journal that finds records without decoding all of them."""

    async def keys(self, run: str) -> Sequence[str]:
        """The keys of a run, in order of the records."""
        ...

    async def read_by_keys(self, run: str, keys: Sequence[str]) -> Sequence[Record]:
        """Those records of a run that have one of these keys, in order."""
        ...

    async def find_words(self, words: Sequence[str]) -> Sequence[tuple[str, str]]:
        """Run and key of every record whose text may hold all of these words, the newest first.

        Upper and lower case do not matter. A record too many is no harm, one too few is.

        Args:
            words: none for every record.
        """
        ...

    async def restore(self, runs: Mapping[str, Sequence[Record]]) -> None:
        """Keep these runs with exactly these records: all of them or, on failure, nothing.

        Raises:
            ConflictError: one of the runs has records already.
        """
        ...


@runtime_checkable
class HasHeads(Protocol):
    """A journal that can say what runs there are without looking at all their records."""

    async def heads(self) -> Sequence[RunEntry]:
        """All runs; the times may be those of the first and the last record."""
        ...


async def list_heads(journal: Journal) -> Sequence[RunEntry]:
    """What runs there are, in no order, at the least cost that the journal knows."""
    return await (journal.heads() if isinstance(journal, HasHeads) else journal.runs())


def to_index(journal: Journal) -> SessionIndex:
    """The journal itself, or with what it lacks."""
    return journal if isinstance(journal, SessionIndex) else ScanningIndex(journal)


class ScanningIndex:
    """Any journal, with the methods of `SessionIndex` made of its own.

    Args:
        journal: the journal.
    """

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self.append, self.read = journal.append, journal.read
        self.runs, self.delete = journal.runs, journal.delete

    async def keys(self, run: str) -> Sequence[str]:
        """All keys, by reading the run."""
        return [record.event.key for record in await self._journal.read(run)]

    async def read_by_keys(self, run: str, keys: Sequence[str]) -> Sequence[Record]:
        """Some records, by reading the run."""
        wanted = set(keys)
        return [record for record in await self._journal.read(run) if record.event.key in wanted]

    async def find_words(self, words: Sequence[str]) -> Sequence[tuple[str, str]]:  # noqa: ARG002  # REASON: whoever asks looks at the text itself
        """Every record, the runs that changed last first."""
        entries: Sequence[RunEntry] = await self._journal.runs()
        found: list[tuple[str, str]] = []
        for entry in sorted(entries, key=lambda entry: entry.changed_at, reverse=True):
            found += ((entry.run, key) for key in reversed(await self.keys(entry.run)))
        return found

    async def restore(self, runs: Mapping[str, Sequence[Record]]) -> None:
        """Append one by one; what was written is deleted again when one of them fails."""
        for run in runs:
            if await self._journal.read(run):
                raise ConflictError(f"the journal has a run {run!r} already")
        begun: list[str] = []
        try:
            for run, records in runs.items():
                for number, (event, effect) in enumerate(_with_effects(records)):
                    await self._journal.append(run, event, effect)
                    if not number:  # it was free, so it is ours
                        begun.append(run)
        except BaseException:
            for run in begun:
                await self._journal.delete(run)
            raise


def _with_effects(records: Sequence[Record]) -> list[tuple[Event, Effect | None]]:
    """Each event with the effect that it ends, found again by replaying: a journal wants its digest."""
    replay, found = Replay(records), []
    for record in records:
        planned = (one for one in replay.machine.pending_effects() if one.key == record.event.key)
        effect = next(planned, None)
        known = effect is not None and effect_digest(effect) == record.digest
        found.append((record.event, effect if known else None))
        replay.apply_next()
    return found
