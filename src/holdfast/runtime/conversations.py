"""Sessions that are open in this process: one machine each, and one turn of each at a time.

A turn begins with a lease of the session and ends with its release, so that "at a time" holds among
all agents of this process, and among all processes that share the journal.

A machine kept here is only a shortcut for folding its journal again, so it may be dropped at any
moment; it must never be the only place where something is known.
"""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Literal, TypeAlias

from holdfast.core.effects import digest
from holdfast.core.errors import ConfigurationError, ReplayMismatchError, SessionBusyError
from holdfast.core.events import SessionRewound
from holdfast.core.machine import RunMachine
from holdfast.core.output import OutputType
from holdfast.core.run_state import Phase
from holdfast.journal.port import Journal, Lease, Record, RunLog, SharedJournal
from holdfast.middleware.chain import Chain
from holdfast.middleware.folds import Folds
from holdfast.middleware.refold import refold
from holdfast.runtime.holding import Hold
from holdfast.runtime.snapshots import Snapshots

_MOST_OPEN = 1000
OnBusy: TypeAlias = Literal["queue", "refuse"]
"""What becomes of a message to a session whose turn is under way."""

# Seconds between looks at a session that is busy elsewhere.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.02, 0.5


class Open:
    """One session: its machine, what middlewares remember, and who waits for it or holds it.

    `log` is where its events go in the turn that is under way: the journal, or a lease. `kept` is
    how many records its snapshot knows. `loop` is where all its users are, as long as it has any.
    """

    __slots__ = ("folds", "kept", "lock", "log", "loop", "machine", "users")

    def __init__(self, machine: RunMachine, folds: Folds | None, log: RunLog) -> None:
        self.machine = machine
        self.folds = folds
        self.log = log
        self.loop = asyncio.get_running_loop()
        self.lock = asyncio.Lock()
        self.users = 0
        self.kept = 0

    def enter(self) -> None:
        """One user more. The first one brings its event loop, and a lock lives on one loop."""
        if not self.users:
            self.loop, self.lock = asyncio.get_running_loop(), asyncio.Lock()
        self.users += 1


class Conversations:
    """The open sessions of one agent, least recently used first."""

    __slots__ = ("_chain", "_guard", "_open", "_output", "_shared", "_snapshots", "journal")

    def __init__(
        self, journal: Journal, output: OutputType | None, chain: Chain | None = None
    ) -> None:
        self._chain = chain
        self.journal = journal
        self._shared = journal if isinstance(journal, SharedJournal) else None
        self._output = output
        self._snapshots = Snapshots(journal, output, chain)
        self._open: OrderedDict[str, Open] = OrderedDict()
        self._guard = threading.Lock()  # of the table and of who uses what: loops have threads

    @asynccontextmanager
    async def turn(self, session: str, *, patience: float = math.inf) -> AsyncIterator[Open]:
        """The session, caught up with its journal; see `alone`."""
        async with self.alone(session, patience=patience) as entry:
            await self._catch_up(session, entry)
            snapshot = self._snapshots.of(entry.machine, entry.kept)
            yield entry
            # It is from before this turn, whose end a machine must see for itself.
            if snapshot is not None and entry.machine.turn > snapshot.turn:
                await self._snapshots.keep(session, snapshot)
                entry.kept = snapshot.applied

    @asynccontextmanager
    async def alone(self, session: str, *, patience: float = math.inf) -> AsyncIterator[Open]:
        """The session, with nobody else in it; whoever comes second waits for the first.

        Args:
            session: its name, or that of a run.
            patience: seconds to wait for a turn in another process; 0 refuses also one in this.

        Raises:
            SessionBusyError: another turn is under way.
        """
        entry = self._enter(session, patience)
        try:
            async with entry.lock:
                lease = await self.lease(session, patience)
                entry.log = lease
                try:
                    yield entry
                finally:
                    if entry.machine.phase is not Phase.IDLE:
                        self._forget(session, entry)
                    await lease.release()
        finally:
            self._leave(entry)

    def _enter(self, session: str, patience: float) -> Open:
        with self._guard:
            entry = self._open.get(session)
            if entry is not None and entry.users:
                if not patience:
                    raise SessionBusyError(session)
                if entry.loop is not asyncio.get_running_loop():
                    # Nobody can wait for a lock of another loop. The lease keeps the two apart.
                    entry = Open(*self._fresh(), self.journal)
                    entry.enter()
                    return entry
            if entry is None:
                entry = self._open[session] = Open(*self._fresh(), self.journal)
            self._open.move_to_end(session)
            entry.enter()
            return entry

    def _leave(self, entry: Open) -> None:
        with self._guard:
            entry.users -= 1
            if len(self._open) <= _MOST_OPEN:
                return
            for session, one in list(self._open.items()):
                if len(self._open) <= _MOST_OPEN:
                    return
                if not one.users:
                    del self._open[session]

    async def lease(self, run: str, patience: float = math.inf) -> Lease:
        """A lease of a run, to be released; in this process alone, unless the journal is shared.

        Args:
            run: the run, or the session.
            patience: seconds to wait for another agent or process.

        Raises:
            SessionBusyError: another one has it still.
        """
        # In real time, whatever clock the agent has: other processes do not live in that one.
        end, pause = time.monotonic() + patience, _FIRST_PAUSE
        while True:
            try:
                if self._shared is None:
                    return Hold(self.journal, run)
                return await self._shared.claim(run)
            except SessionBusyError:
                if time.monotonic() + pause > end:
                    raise
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    def _fresh(self) -> tuple[RunMachine, Folds | None]:
        folds = self._chain.new_folds() if self._chain else None
        return RunMachine(output=self._output), folds

    async def _catch_up(self, session: str, entry: Open) -> None:
        known = entry.machine.applied
        if not known:
            known = entry.kept = await self._snapshots.load(session, entry.machine)
        # The last known record is read again: without it, the session was deleted meanwhile, and
        # with another in its place, it is another session that has the name now.
        kept = await self.journal.read(session, max(known - 1, 0))
        if known and (not kept or kept[0].event != entry.machine.last):
            entry.machine, entry.folds = self._fresh()
            entry.kept = 0
            known, kept = 0, await self.journal.read(session)
        new = kept[1:] if known else kept
        rewound = any(type(record.event) is SessionRewound for record in new)
        for record in new:
            _check_plan(entry.machine, record)
            entry.machine.apply(record.event)
            if entry.folds is not None and not rewound:
                entry.folds.apply(record.event)
        if self._chain is not None and rewound:
            events = [record.event for record in await self.journal.read(session)]
            entry.folds = refold(self._chain.new_folds(), events)

    def _forget(self, session: str, entry: Open) -> None:
        with self._guard:
            if self._open.get(session) is entry:
                del self._open[session]


def checked_journal(given: object) -> Journal | None:
    """The journal that an agent was given, or whose address. Raises ConfigurationError."""
    if isinstance(given, str):
        from holdfast.journal.url import open_journal

        return open_journal(given)
    if given is None or (isinstance(given, Journal) and not isinstance(given, type)):
        return given
    raise ConfigurationError(
        "journal",
        f"must be a journal or its address, got {type(given).__name__}",
        fix='For a file write journal="sqlite:///file.db"',
    )


def checked_on_busy(on_busy: object) -> float:
    """The patience of a turn whose session is busy. Raises ConfigurationError."""
    if on_busy not in ("queue", "refuse"):
        raise ConfigurationError("on_busy", f'must be "queue" or "refuse", got {on_busy!r}')
    return 0.0 if on_busy == "refuse" else math.inf


def _check_plan(machine: RunMachine, record: Record) -> None:
    """Raise ReplayMismatchError if this effect was planned with another content than is kept."""
    if not record.digest:
        return
    effect = machine.planned(record.event.key)
    if effect is not None and digest(effect) != record.digest:
        raise ReplayMismatchError(
            f"the journal holds another content for {effect.key!r} than this agent plans: "
            "it was written by another agent, or changed by hand"
        )
