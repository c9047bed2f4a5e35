"""Snapshots of long sessions beside their journal: when one is kept, and when one is believed.

A snapshot is believed only if the same fold made it for the same kind of agent, and if the journal
still has the record that it ends with; otherwise everything is folded. It must never make a turn
fail.
"""

from __future__ import annotations

import logging
from typing import Protocol, runtime_checkable

import msgspec
from msgspec import Struct

from holdfast.core.machine import SessionMachine
from holdfast.core.snapshot import FORMAT, SessionSnapshot
from holdfast.journal.journal_errors import JournalError
from holdfast.journal.port import Journal
from holdfast.middleware.chain import Chain

_log = logging.getLogger("holdfast")

LEAST_RECORDS = 500
"""Folding fewer takes a few milliseconds."""


@runtime_checkable
class SnapshotStore(Protocol):
    """A journal that has a place for snapshots."""

    async def load_snapshot(self, run: str) -> bytes | None:
        """The latest snapshot of a run."""
        ...

    async def save_snapshot(self, run: str, records: int, state: bytes) -> None:
        """Keep one in place of the one before."""
        ...


class _StoredSnapshot(Struct, frozen=True):
    """A snapshot, and for whom it is good."""

    format: int
    snapshot: SessionSnapshot


_decode = msgspec.json.Decoder(_StoredSnapshot).decode


class Snapshots:
    """The snapshots that an agent may use.

    Args:
        journal: where they are kept, if it can.
        chain: its middlewares; with one that remembers a session, every event is needed.
    """

    __slots__ = ("_journal",)

    def __init__(self, journal: Journal, chain: Chain | None) -> None:
        remembers = chain is not None and chain.has_session_state
        keeps = isinstance(journal, SnapshotStore) and not remembers
        self._journal = journal if keeps and isinstance(journal, SnapshotStore) else None

    async def load(self, session: str, machine: SessionMachine) -> int:
        """Let a new machine go on from the latest snapshot; returns how many records it knows."""
        data = await self._journal.load_snapshot(session) if self._journal is not None else None
        if data is None:
            return 0
        try:
            kept = _decode(data)
        except (msgspec.DecodeError, ValueError, RecursionError):
            return 0
        if kept.format != FORMAT:
            return 0
        machine.restore_snapshot(kept.snapshot)
        return machine.event_count

    def take_if_due(self, machine: SessionMachine, saved_records: int) -> SessionSnapshot | None:
        """A snapshot, when so much was added to the one before that another is worth its writing.

        Args:
            machine: between two turns.
            saved_records: the records that the one before knows.
        """
        due = machine.event_count - saved_records >= max(LEAST_RECORDS, saved_records // 2)
        return machine.take_snapshot() if due and self._journal is not None else None

    async def save(self, session: str, snapshot: SessionSnapshot) -> None:
        """Keep it. What cannot be kept is left out: the journal has it all."""
        if self._journal is None:
            return
        try:
            state = msgspec.json.encode(_StoredSnapshot(FORMAT, snapshot))
            await self._journal.save_snapshot(session, snapshot.event_count, state)
        except (TypeError, ValueError, JournalError) as error:
            _log.info("no snapshot of the session was kept: %s", type(error).__name__)
