"""The pool of open sessions: one machine for each, and one turn of each at a time.

A turn acquires a lease of the session and releases it at the end. So no two turns of a session
overlap, among all agents of this process and all processes that share the journal. Shared journals
provide leases of their own; `LocalLease` is the lease for all other journals. It must never wait, and
must never hold a run after its owner is gone.

The machines in the pool are a cache: each can be computed again from the journal and may be dropped
at any time. A machine must never be the only place where a fact is stored. Its size is estimated from
its new messages only, so that the estimate of a long session costs little after each turn.

A long session has a snapshot beside the journal. It is used only if its checksum is right, it has the
current format, no middleware keeps a session state, and the journal still has the last record that the
snapshot covers. Otherwise all events are folded. A snapshot must never make a turn fail.
"""

from __future__ import annotations

import asyncio
import logging
import math
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from hashlib import blake2b
from typing import Literal, Protocol, TypeAlias, cast, runtime_checkable

import msgspec
from msgspec import Struct

from holdfast.core.argument_checks import check_value
from holdfast.core.constraints import NonNegativeInt
from holdfast.core.effects import effect_digest
from holdfast.core.errors import ConfigurationError, ReplayMismatchError, SessionBusyError
from holdfast.core.events import SessionRewound
from holdfast.core.machine import SessionMachine
from holdfast.core.messages import Message, Text
from holdfast.core.session_state import SNAPSHOT_FORMAT, Phase, SessionSnapshot
from holdfast.journal.journal_errors import JournalError
from holdfast.journal.memory import MemoryJournal
from holdfast.journal.port import Journal, Lease, Record, RunLog, SharedJournal, VersionedLease
from holdfast.middleware.chain import NO_HOOKS, Chain
from holdfast.middleware.folds import Folds, refold_session

DEFAULT_CACHE = 64 * 2**20
"""Bytes of memory for open sessions that no turn uses."""

OnBusy: TypeAlias = Literal["queue", "refuse", "interrupt"]
"""Whether a message to a session with a turn in progress waits, is refused, or ends that turn."""

LeaseKind: TypeAlias = Literal["claimed", "prepared"]
"""Whether a lease is claimed at once, or begins with the first append."""

# Seconds between two attempts to acquire the lease of a busy session.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.02, 0.5

EMPTY_SESSION = 8_000
_MESSAGE, _PART = 300, 150
_log = logging.getLogger("holdfast")

LEAST_RECORDS = 500
"""The minimum of records for a snapshot; folding fewer takes only a few milliseconds."""

_SUM_BYTES = 8

# The garbage collector may end a lease between any two steps, also in a thread that has the lock.
_lock = threading.RLock()

_held_leases: set[tuple[int, str]] = set()


class OpenSession:
    """One session: its machine, the states of its middlewares, and its users.

    `log` saves the events of the turn in progress: the journal, or a lease. `snapshot_records` is
    the number of records that its snapshot covers. `loop` is the event loop of all its users, and
    `lock` lets one of them in at a time; both are set while it has users. `size` is the memory that
    it takes. `run_id` is the id of its run in a shared journal.
    """

    __slots__ = (
        "folds",
        "lock",
        "log",
        "loop",
        "machine",
        "run_id",
        "size",
        "snapshot_records",
        "users",
    )

    def __init__(self, machine: SessionMachine, folds: Folds, log: RunLog) -> None:
        self.machine = machine
        self.folds = folds
        self.log = log
        self.loop: asyncio.AbstractEventLoop
        self.lock: asyncio.Lock
        self.users = 0
        self.snapshot_records = 0
        self.size = SessionSize()
        self.run_id = 0

    def add_user(self) -> None:
        """Add a user. The first one sets the event loop, because a lock belongs to one loop."""
        if not self.users:
            self.loop, self.lock = asyncio.get_running_loop(), asyncio.Lock()
        self.users += 1

    def begin_history(self, history: Sequence[Message]) -> None:
        """Set the messages before the first turn. Raises ConfigurationError if there was a turn."""
        if self.machine.event_count:
            raise ConfigurationError(
                "history",
                "was passed for a session that has turns",
                fix="Leave it out, or name a new session",
            )
        self.machine = SessionMachine(history)


class SessionPool:
    """The open sessions of one agent, least recently used first.

    Args:
        journal: the journal of the sessions.
        chain: the middlewares of the agent.
        cache: bytes of memory for sessions that no turn uses.
    """

    __slots__ = (
        "_chain",
        "_open",
        "_shared",
        "_snapshots",
        "_table_lock",
        "_unused_bytes",
        "cache",
        "journal",
    )

    def __init__(
        self, journal: Journal, chain: Chain = NO_HOOKS, cache: int = DEFAULT_CACHE
    ) -> None:
        check_value("session_cache", cache, NonNegativeInt)
        self.cache = cache
        self._unused_bytes = 0
        self._chain = chain
        self.journal = journal
        self._shared = journal if isinstance(journal, SharedJournal) else None
        self._snapshots = Snapshots(journal, chain)
        self._open: OrderedDict[str, OpenSession] = OrderedDict()
        # Guards `_open` and `users`, because event loops may run in several threads.
        self._table_lock = threading.Lock()

    @asynccontextmanager
    async def open_session(
        self, session: str, *, max_wait: float = math.inf, begins_turn: bool = False
    ) -> AsyncIterator[OpenSession]:
        """Open the session and apply its new records; otherwise like `hold_session`.

        Args:
            session: as for `hold_session`.
            max_wait: as for `hold_session`.
            begins_turn: whether the next event begins a turn. A shared journal is then not asked
                before that event, which raises RunChangedError if the session was changed elsewhere.
        """
        prepared = begins_turn and self.is_shared
        async with self.hold_session(session, max_wait=max_wait, prepared=prepared) as entry:
            if not prepared:
                await self._catch_up(session, entry)
            snapshot = self._snapshots.take_if_due(entry.machine, entry.snapshot_records)
            yield entry
            # It was taken before this turn: a machine must apply the end of this turn itself.
            if snapshot is not None and entry.machine.turn > snapshot.turn:
                await self._snapshots.save(session, snapshot)
                entry.snapshot_records = snapshot.event_count

    @asynccontextmanager
    async def hold_session(
        self, session: str, *, max_wait: float = math.inf, prepared: bool = False
    ) -> AsyncIterator[OpenSession]:
        """Lock the session for one user; others wait until it is released.

        Args:
            session: the name of the session, or a run id.
            max_wait: seconds to wait for a turn in another process; with 0, a turn in this process
                also raises.
            prepared: whether the lease begins with the first append, if the session is as this
                process knows it.

        Raises:
            SessionBusyError: another turn is in progress.
        """
        entry = self._check_out(session, max_wait)
        try:
            async with entry.lock:
                if prepared:
                    lease = self.prepare_lease(session, entry.run_id, entry.machine.event_count)
                else:
                    lease = await self.acquire_lease(session, max_wait)
                entry.log = lease
                try:
                    yield entry
                finally:
                    if prepared:
                        entry.run_id, _ = _get_version(lease)
                    if entry.machine.phase is not Phase.IDLE:
                        self._drop_session(session, entry)
                    await lease.release()
        finally:
            self._check_in(session, entry)

    def _check_out(self, session: str, max_wait: float) -> OpenSession:
        with self._table_lock:
            entry = self._open.get(session)
            if entry is not None and entry.users:
                if not max_wait:
                    raise SessionBusyError(session)
                if entry.loop is not asyncio.get_running_loop():
                    # A lock cannot be shared between event loops. The lease separates the two.
                    entry = self.make_session(self.journal)
                    entry.add_user()
                    return entry
            if entry is None:
                entry = self._open[session] = self.make_session(self.journal)
            self._open.move_to_end(session)
            if not entry.users:
                self._unused_bytes -= entry.size.bytes
            entry.add_user()
            return entry

    def _check_in(self, session: str, entry: OpenSession) -> None:
        entry.size.update(entry.machine)
        with self._table_lock:
            entry.users -= 1
            if entry.users or self._open.get(session) is not entry:
                return
            self._unused_bytes += entry.size.bytes
            if self._unused_bytes > self.cache:
                self._drop_oldest()

    def _drop_oldest(self) -> None:
        # Not a copy of the whole table, which a full cache would pay for at each turn.
        while self._unused_bytes > self.cache:
            unused = (session for session, entry in self._open.items() if not entry.users)
            session = next(unused, None)
            if session is None:
                return
            self._unused_bytes -= self._open.pop(session).size.bytes

    @property
    def is_shared(self) -> bool:
        """Whether several processes may use the journal."""
        return self._shared is not None

    def prepare_lease(self, run: str, run_id: int = 0, records: int = 0) -> Lease:
        """Return a lease that begins and ends with a turn; of a journal that is not shared, a local one.

        Args:
            run: the run id, or the name of the session.
            run_id: the id of the run in the journal; 0 for a new run.
            records: the number of its records, as this process knows them.
        """
        if self._shared is None:
            return LocalLease(self.journal, run)
        return self._shared.prepare_lease(run, (run_id, records))

    async def acquire_lease(self, run: str, max_wait: float = math.inf) -> Lease:
        """Acquire the lease of a run; if the journal is not shared, only within this process.

        Args:
            run: the run id, or the name of the session.
            max_wait: seconds to wait for another agent or process.

        Raises:
            SessionBusyError: another one still has the lease.
        """
        # Real time, not the agent's clock: other processes do not use that one.
        end, pause = time.monotonic() + max_wait, _FIRST_PAUSE
        while True:
            try:
                if self._shared is None:
                    return LocalLease(self.journal, run)
                return await self._shared.claim(run)
            except SessionBusyError:
                if time.monotonic() + pause > end:
                    raise
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    def make_session(self, log: RunLog, history: Sequence[Message] = ()) -> OpenSession:
        """Make a session that is not in the pool.

        Args:
            log: the log that saves its events.
            history: the messages before its first turn.
        """
        return OpenSession(SessionMachine(history), self._chain.new_folds(), log)

    async def _catch_up(self, session: str, entry: OpenSession) -> None:
        known = entry.machine.event_count
        run_id, records = _get_version(entry.log)
        if records == known and (not known or run_id == entry.run_id):
            entry.run_id = run_id  # the lease says that there is nothing to read
            return
        entry.run_id = run_id
        if not known and not 0 <= records < LEAST_RECORDS:
            known = entry.snapshot_records = await self._snapshots.load(session, entry.machine)
        # The last known record is read again. If it is missing, the session was deleted meanwhile.
        # If it differs, the name now belongs to another session.
        kept = await self.journal.read(session, max(known - 1, 0))
        if known and (not kept or kept[0].event != entry.machine.last_event):
            entry.machine, entry.folds = SessionMachine(), self._chain.new_folds()
            entry.snapshot_records = 0
            known, kept = 0, await self.journal.read(session)
        new = kept[1:] if known else kept
        rewound = any(type(record.event) is SessionRewound for record in new)
        for record in new:
            _check_digest(entry.machine, record)
            entry.machine.apply(record.event)
            if not rewound:
                entry.folds.apply(record.event)
        if rewound and self._chain.has_state:
            events = [record.event for record in await self.journal.read(session)]
            entry.folds = refold_session(self._chain.new_folds(), events)

    def _drop_session(self, session: str, entry: OpenSession) -> None:
        with self._table_lock:
            if self._open.get(session) is entry:
                del self._open[session]


class NewRun:
    """Opens a run that no other process knows yet; its machine is not in the pool.

    Args:
        pool: the pool.
        run: the new run id.
        history: the messages before its turn.
        lease: save its events in the journal, with a lease that is claimed, or prepared for the next
            event, which begins a turn; with None its events end with the run.
    """

    __slots__ = ("_history", "_kind", "_lease", "_pool", "_run")

    def __init__(
        self,
        pool: SessionPool,
        run: str,
        history: Sequence[Message],
        *,
        lease: LeaseKind | None,
    ) -> None:
        self._pool = pool
        self._run = run
        self._history = history
        self._kind = lease
        self._lease: Lease | None = None

    async def __aenter__(self) -> OpenSession:
        # A run that is not saved needs no lease, because no other process can open it.
        if self._kind == "prepared":
            self._lease = self._pool.prepare_lease(self._run)
        elif self._kind == "claimed":
            self._lease = await self._pool.acquire_lease(self._run)
        return self._pool.make_session(self._lease or MemoryJournal(), self._history)

    async def __aexit__(self, *_error: object) -> None:
        if self._lease is not None:
            await self._lease.release()


def _get_version(log: RunLog) -> tuple[int, int]:
    # A check of the whole protocol takes longer than the rest of opening a session.
    if hasattr(log, "release") and hasattr(log, "version"):
        return cast("VersionedLease", log).version
    return 0, -1


def resolve_journal(journal: object) -> Journal | None:
    """Return a journal, or open the one with this address. Raises ConfigurationError."""
    if isinstance(journal, str):
        from holdfast.journal.url import open_journal

        return open_journal(journal)
    if journal is None or (isinstance(journal, Journal) and not isinstance(journal, type)):
        return journal
    raise ConfigurationError(
        "journal",
        f"must be a journal or its address, got {type(journal).__name__}",
        fix='For a file write journal="sqlite:///file.db"',
    )


def check_on_busy(on_busy: object) -> float:
    """Return how long a turn waits for a busy session. Raises ConfigurationError."""
    check_value("on_busy", on_busy, OnBusy)
    return 0.0 if on_busy == "refuse" else math.inf


def _check_digest(machine: SessionMachine, record: Record) -> None:
    """Raise ReplayMismatchError if the record is for an effect with a different content."""
    if not record.digest:
        return
    effect = machine.find_pending(record.event.key)
    if effect is not None and effect_digest(effect) != record.digest:
        raise ReplayMismatchError(
            f"the journal holds another content for {effect.key!r} than this agent plans: "
            "it was written by another agent, or changed by hand"
        )


class SessionSize(Struct, eq=False):
    """The estimated size of one open session.

    Attributes:
        bytes: the estimate.
    """

    bytes: int = 0
    _machine: SessionMachine | None = None
    _messages: int = 0
    _count: int = 0

    def update(self, machine: SessionMachine) -> None:
        """Count the messages that are new since the last call."""
        if machine is not self._machine:
            self._machine, self._messages, self._count = machine, 0, 0
        transcript = machine.transcript
        # A rewind or a compaction shortens the transcript; the replaced messages stay in memory.
        self._messages += estimate_messages(transcript[self._count :])
        self._count = len(transcript)
        self.bytes = EMPTY_SESSION + self._messages + transcript.encoded_size


def estimate_messages(messages: Iterable[Message]) -> int:
    """Estimate the bytes of messages in memory."""
    size = 0
    for message in messages:
        size += _MESSAGE
        for part in message.parts:
            size += _PART
            size += sys.getsizeof(part.text) if type(part) is Text else _estimate_value(part)
    return size


def _estimate_value(value: object) -> int:
    if isinstance(value, Struct):
        return _PART + sum(_estimate_value(getattr(value, n)) for n in value.__struct_fields__)
    if isinstance(value, Mapping):
        return sys.getsizeof(value) + sum(_estimate_value(one) for one in value.values())
    if isinstance(value, tuple | list):
        return sys.getsizeof(value) + sum(map(_estimate_value, value))
    return sys.getsizeof(value)


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


class LocalLease:
    """The lease of one driver for a run. It passes records directly to the journal.

    Args:
        journal: the journal; the lease keeps a reference to it.
        run: the run id.

    Raises:
        SessionBusyError: another driver in this process has the lease.
    """

    __slots__ = ("_is_held", "_journal", "append", "read", "run")

    token = 0

    def __init__(self, journal: Journal, run: str) -> None:
        self._is_held = False
        self._journal = journal
        self.append, self.read = journal.append, journal.read
        self.run = run
        with _lock:
            # The id is unique while a lease exists, because the lease refers to the journal.
            if self._lease_key in _held_leases:
                raise SessionBusyError(run)
            _held_leases.add(self._lease_key)
            self._is_held = True

    @property
    def _lease_key(self) -> tuple[int, str]:
        return id(self._journal), self.run

    @staticmethod
    def is_held(journal: Journal, run: str) -> bool:
        """Whether a driver in this process has the lease of a run."""
        with _lock:
            return (id(journal), run) in _held_leases

    async def release(self) -> None:
        """Release the lease."""
        self._unlock_run()

    def _unlock_run(self) -> None:
        with _lock:
            if self._is_held:
                _held_leases.discard(self._lease_key)
                self._is_held = False

    def __del__(self) -> None:
        # If the event loop is discarded, the turn never reaches `release`.
        if self._is_held:
            self._unlock_run()
