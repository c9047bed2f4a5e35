"""Snapshots of long sessions beside their journal: when to save one, and when to use one.

A snapshot is used only if its checksum is right, it has the current format, no middleware keeps a
session state, and the journal still has the last record that the snapshot covers. Otherwise all events are folded. A
snapshot must never make a turn fail.
"""

from __future__ import annotations

import logging
from hashlib import blake2b
from typing import Protocol, runtime_checkable

import msgspec
from msgspec import Struct

from holdfast.core.machine import SessionMachine
from holdfast.core.session_state import SNAPSHOT_FORMAT, SessionSnapshot
from holdfast.journal.journal_errors import JournalError
from holdfast.journal.port import Journal
from holdfast.middleware.chain import Chain

_log = logging.getLogger("holdfast")

LEAST_RECORDS = 500
"""The minimum of records for a snapshot; folding fewer takes only a few milliseconds."""


@runtime_checkable
class SnapshotStore(Protocol):
    """A journal that can save snapshots."""

    async def load_snapshot(self, run: str) -> bytes | None:
        """Return the latest snapshot of a run, or None."""
        ...

    async def save_snapshot(self, run: str, records: int, state: bytes) -> None:
        """Save a snapshot in place of the previous one."""
        ...


class _StoredSnapshot(Struct, frozen=True):
    """A snapshot with the version of its format."""

    format: int
    snapshot: SessionSnapshot


_SUM_BYTES = 8


def _compute_sum(session: str, state: bytes) -> bytes:
    return blake2b(session.encode() + b"\0" + state, digest_size=_SUM_BYTES).digest()


_decode = msgspec.json.Decoder(_StoredSnapshot).decode


class Snapshots:
    """The snapshots that an agent may use.

    Args:
        journal: the journal; without the methods of `SnapshotStore`, there are no snapshots.
        chain: the middlewares; if one of them keeps a session state, it needs every event, and
            there are no snapshots.
    """

    __slots__ = ("_journal",)

    def __init__(self, journal: Journal, chain: Chain) -> None:
        self._journal: SnapshotStore | None = None
        if isinstance(journal, SnapshotStore) and not chain.has_session_state:
            self._journal = journal

    async def load(self, session: str, machine: SessionMachine) -> int:
        """Restore a new machine from the latest snapshot; returns the number of records covered."""
        data = await self._journal.load_snapshot(session) if self._journal is not None else None
        if data is None:
            return 0
        state = data[_SUM_BYTES:]
        if data[:_SUM_BYTES] != _compute_sum(session, state):
            return 0
        try:
            kept = _decode(state)
        except (msgspec.DecodeError, ValueError, RecursionError):
            return 0
        if kept.format != SNAPSHOT_FORMAT:
            return 0
        machine.restore_snapshot(kept.snapshot)
        return machine.event_count

    def take_if_due(self, machine: SessionMachine, saved_records: int) -> SessionSnapshot | None:
        """Take a snapshot if there are enough new records since the previous one.

        Args:
            machine: the machine, between two turns.
            saved_records: the number of records that the previous snapshot covers.
        """
        due = machine.event_count - saved_records >= max(LEAST_RECORDS, saved_records // 2)
        return machine.take_snapshot() if due and self._journal is not None else None

    async def save(self, session: str, snapshot: SessionSnapshot) -> None:
        """Save a snapshot. A failure is only logged, because the journal has all events."""
        if self._journal is None:
            return
        try:
            state = msgspec.json.encode(_StoredSnapshot(SNAPSHOT_FORMAT, snapshot))
            data = _compute_sum(session, state) + state
            await self._journal.save_snapshot(session, snapshot.event_count, data)
        except (TypeError, ValueError, JournalError) as error:
            _log.info("no snapshot of the session was kept: %s", type(error).__name__)
