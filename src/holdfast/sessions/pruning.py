"""Deletes the sessions that a `Retention` no longer keeps, one by one, and gives the space back.

A session that changes meanwhile stays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

from msgspec import Struct

from holdfast.journal.encoding import to_json
from holdfast.journal.port import Journal, RunEntry
from holdfast.journal.retention import Retention, StoredSession, choose_expired
from holdfast.sessions.names import owner_of, title_run


class PruneResult(Struct, frozen=True):
    """What was deleted.

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


async def list_stored(journal: Journal) -> list[StoredSession]:
    """List the sessions with their sizes, each with its titles and the runs of its subagents."""
    sizes = await (journal.sizes() if isinstance(journal, HasSizes) else _measure_runs(journal))
    groups: dict[str, list[RunEntry]] = {}
    for entry in await journal.runs():
        groups.setdefault(owner_of(entry.run), []).append(entry)
    return [_to_stored(session, entries, sizes) for session, entries in groups.items()]


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
    return {
        entry.run: sum(len(to_json(record.event)) for record in await journal.read(entry.run))
        for entry in await journal.runs()
    }


async def find_expired(
    journal: Journal, retention: Retention, now: float
) -> Sequence[StoredSession]:
    """Return the sessions that would be deleted, the oldest first."""
    return choose_expired(await list_stored(journal), retention, now)


async def delete_if_unchanged(journal: Journal, stored: StoredSession) -> bool:
    """Delete a session in one transaction, unless it changed since it was listed.

    Args:
        journal: the journal, in which the caller has reserved the session.
        stored: the session as it was listed.
    """
    runs = {run for run, _ in stored.records}
    if any(entry.run in runs for entry in await journal.runs(turn_open=True)):
        return False
    for run, records in stored.records:
        if await journal.read(run, records):
            return False
    # A title that is set meanwhile is deleted too.
    return await journal.delete(*runs | {title_run(stored.session)}) > 0


async def release_space(journal: Journal) -> None:
    """Give the space of deleted runs back to the file system, if the journal can."""
    if isinstance(journal, ReleasesSpace):
        await journal.release_space()
