"""The pool of open sessions: one machine for each, and one turn of each at a time.

A turn acquires a lease of the session and releases it at the end. So no two turns of a session
overlap, among all agents of this process and all processes that share the journal.

The machines in the pool are a cache: each can be computed again from the journal and may be dropped
at any time. A machine must never be the only place where a fact is stored.
"""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Literal, TypeAlias, cast

from holdfast.core.argument_checks import check_value
from holdfast.core.constraints import NonNegativeInt
from holdfast.core.effects import effect_digest
from holdfast.core.errors import ConfigurationError, ReplayMismatchError, SessionBusyError
from holdfast.core.events import SessionRewound
from holdfast.core.machine import SessionMachine
from holdfast.core.messages import Message
from holdfast.core.session_state import Phase
from holdfast.journal.memory import MemoryJournal
from holdfast.journal.port import Journal, Lease, Record, RunLog, SharedJournal, VersionedLease
from holdfast.middleware.chain import NO_HOOKS, Chain
from holdfast.middleware.folds import Folds
from holdfast.middleware.refold import refold_session
from holdfast.runtime.sessions.local_lease import LocalLease
from holdfast.runtime.sessions.session_size import SessionSize
from holdfast.runtime.sessions.session_snapshots import LEAST_RECORDS, Snapshots

DEFAULT_CACHE = 64 * 2**20
"""Bytes of memory for open sessions that no turn uses."""

OnBusy: TypeAlias = Literal["queue", "refuse"]
"""Whether a message to a session with a turn in progress waits or is refused."""

LeaseKind: TypeAlias = Literal["claimed", "prepared"]
"""Whether a lease is claimed at once, or begins with the first append."""

# Seconds between two attempts to acquire the lease of a busy session.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.02, 0.5


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
