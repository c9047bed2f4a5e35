"""Deletes the sessions that a `Retention` no longer keeps, one by one, and gives the space back.

A session that changes meanwhile stays.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol, TypeAlias, runtime_checkable

from msgspec import Struct

from holdfast.core.errors import SessionBusyError
from holdfast.journal.encoding import to_json
from holdfast.journal.pieces import in_pieces
from holdfast.journal.port import Journal, RunEntry, RunLog
from holdfast.journal.retention import Retention, StoredSession, choose_expired
from holdfast.sessions.names import owner_of, title_run
from holdfast.sessions.session_index import SessionIndex

HoldSession: TypeAlias = Callable[[str], AbstractAsyncContextManager[RunLog]]
"""Reserves a session for one change; the context manager yields the log to append the change to."""


class PruneResult(Struct, frozen=True):
    """The deleted sessions.

    Args:
        sessions: the ids of the sessions, the oldest first.
        bytes: the size of their events, snapshots and media.
    """

    sessions: tuple[str, ...]
    bytes: int


@runtime_checkable
class HasSizes(Protocol):
    """A journal that knows the size of its runs without reading them here."""

    async def sizes(self) -> Mapping[str, int]:
        """Return the bytes of the events, the media and the snapshot of each run."""
        ...


@runtime_checkable
class ReleasesSpace(Protocol):
    """A journal that can give the space of deleted runs back to the file system."""

    async def release_space(self) -> None:
        """Make the file as small as its content."""
        ...


class Pruning:
    """Finds and deletes the sessions that a retention no longer keeps.

    Args:
        journal: the journal.
        hold: reserves a session while it is deleted.
        now: returns the time in seconds since the epoch.
    """

    __slots__ = ("_hold", "_journal", "_now")

    def __init__(self, journal: SessionIndex, hold: HoldSession, now: Callable[[], float]) -> None:
        self._journal = journal
        self._hold = hold
        self._now = now

    async def find_expired(
        self, retention: Retention, *, measure: bool = True
    ) -> Sequence[StoredSession]:
        """Return the sessions that would be deleted, the oldest first.

        Args:
            retention: the limits.
            measure: whether to find the sizes of all sessions, which reads the whole journal.
        """
        sizes: Mapping[str, int] = {}
        if measure:
            sizes = await _measure_runs(self._journal)
        entries = await self._journal.runs()
        return await asyncio.to_thread(_choose, entries, sizes, retention, self._now())

    async def delete_expired(
        self, expired: Sequence[StoredSession], *, pause: float = 0.0
    ) -> Sequence[StoredSession]:
        """Delete sessions that did not change meanwhile, and give their space back.

        Args:
            expired: the sessions.
            pause: seconds between two deletions.

        Returns:
            Those that were deleted.
        """
        deleted = []
        for stored in expired:
            if await self._delete_if_unchanged(stored):
                deleted.append(stored)
                await asyncio.sleep(pause)
        if deleted and isinstance(self._journal, ReleasesSpace):
            await self._journal.release_space()
        return deleted

    async def _delete_if_unchanged(self, stored: StoredSession) -> bool:
        """Delete a session in one transaction, unless it is busy or changed since it was listed."""
        runs = {run for run, _ in stored.records}
        try:
            async with self._hold(stored.session):
                for run, records in stored.records:
                    entries = await self._journal.find_runs(run, run)
                    if [(one.records, one.turn_open) for one in entries] != [(records, False)]:
                        return False
                # A title that is set meanwhile is deleted too.
                return await self._journal.delete(*runs | {title_run(stored.session)}) > 0
        except SessionBusyError:
            return False


def _choose(
    entries: Sequence[RunEntry], sizes: Mapping[str, int], retention: Retention, now: float
) -> list[StoredSession]:
    groups: dict[str, list[RunEntry]] = {}
    for entry in in_pieces(entries):
        groups.setdefault(owner_of(entry.run), []).append(entry)
    stored = [_to_stored(session, group, sizes) for session, group in in_pieces(groups.items())]
    return choose_expired(stored, retention, now)


def _to_stored(
    session: str, entries: Sequence[RunEntry], sizes: Mapping[str, int]
) -> StoredSession:
    return StoredSession(
        session,
        max(entry.changed_at for entry in entries),
        sum(sizes.get(entry.run, 0) for entry in entries),
        any(entry.turn_open or entry.leased for entry in entries),
        tuple((entry.run, entry.records) for entry in entries),
    )


async def _measure_runs(journal: Journal) -> Mapping[str, int]:
    if isinstance(journal, HasSizes):
        return await journal.sizes()
    return {
        entry.run: sum(len(to_json(record.event)) for record in await journal.read(entry.run))
        for entry in await journal.runs()
    }
