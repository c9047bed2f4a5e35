"""The runs in progress that the readers of one tenant see, and a session in a process that drives none of them.

If this process drives the turns of the journal, its readers are used. Otherwise the journal is read, and
the messages of other processes about their runs. This module must never change a run.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from weakref import WeakKeyDictionary, ref

from holdfast.event_log.live.live_run import Entry, LiveRun
from holdfast.event_log.live.process_exchange import LiveExchange, TenantRuns
from holdfast.event_log.live.reading import TURN_RESTS, ReadingEnd, SessionReader
from holdfast.event_log.live.session_watch import SessionWatch
from holdfast.event_log.positions import Position
from holdfast.journal.live_link import LinkedJournal
from holdfast.journal.port import Journal, SharedJournal
from holdfast.sessions.session_index import to_index

_SECONDS_BETWEEN_TICKS = 1.0
_TICKS_BETWEEN_TIDYINGS = 5
_readers: WeakKeyDictionary[Journal, ref[SessionReader]] = WeakKeyDictionary()
_POLL_SECONDS = 1.0


def share_reader(journal: Journal, reader: SessionReader) -> None:
    """Let followers of a tenant's journal use the readers of this process, which drives its turns."""
    _readers[journal] = ref(reader)  # which holds the journal


class SessionFollower:
    """Reads the sessions of one tenant; `close` ends it.

    Args:
        journal: the journal of the tenant.
    """

    def __init__(self, journal: Journal) -> None:
        self._exchange: LiveExchange | None = None
        self._task: asyncio.Task[None] | None = None
        self._watch = SessionWatch()
        shared = _readers.get(journal)
        known = shared() if shared is not None else None
        self._reader = self._make_reader(journal) if known is None else known

    def _make_reader(self, journal: Journal) -> SessionReader:
        index, is_shared = to_index(journal), isinstance(journal, SharedJournal)
        nothing = DrivenRuns()
        runs = VisibleRuns(journal.tenant, nothing, is_shared=True)
        if is_shared and isinstance(journal, LinkedJournal):
            runs.exchange = self._exchange = LiveExchange(journal.open_link, _ignore_link)
            here = TenantRuns(journal.tenant, index, self._watch, nothing.find_live, _do_nothing)
            self._exchange.add_tenant(here)
            self._task = asyncio.create_task(self._tidy_regularly(self._exchange))
        return SessionReader(index, runs, self._watch)

    async def follow(self, session: str, position: Position, turn: int) -> AsyncGenerator[Entry]:
        """Yield the items that a reader at a position misses, and then the new ones until a turn rests.

        Args:
            session: the session.
            position: the place of the reader.
            turn: the number of the turn.
        """
        end = ReadingEnd(turn, TURN_RESTS)
        async with aclosing(self._reader.follow(session, position, end)) as entries:
            async for entry in entries:
                yield entry

    async def _tidy_regularly(self, exchange: LiveExchange) -> None:
        ticks = 0
        while True:
            await asyncio.sleep(_SECONDS_BETWEEN_TICKS)
            ticks += 1
            if ticks % _TICKS_BETWEEN_TIDYINGS == 0:
                exchange.tidy()
            # A message may have been lost, or the engine of the workers may carry their items.
            for session in self._watch.sessions:
                self._watch.wake_here(session)

    def close(self) -> None:
        """Hear nothing more of other processes."""
        if self._task is not None:
            self._task.cancel()
        if self._exchange is not None:
            self._exchange.close()


def _do_nothing(_session: str) -> None:
    """There is no run to act on."""


def _ignore_link(_is_up: bool) -> None:  # REASON: a callback
    """The ticks look whether messages arrive."""


class DrivenRuns:
    """The runs of one tenant that this process drives; whoever drives them keeps this list."""

    def __init__(self) -> None:
        self._lives: dict[str, LiveRun | None] = {}

    def show(self, session: str, live: LiveRun | None = None) -> None:
        """Note that a run is driven here, and the items that its readers see, once there are some."""
        self._lives[session] = live

    def remove(self, session: str) -> None:
        """Note that a run is not driven here any more."""
        del self._lives[session]

    def is_driven(self, session: str) -> bool:
        """Whether this process drives the last turn of a session."""
        return session in self._lives

    def find_live(self, session: str) -> LiveRun | None:
        """Return the run in progress that is driven here; None if there is nothing to see yet."""
        return self._lives.get(session)


class VisibleRuns:
    """The runs of one tenant that are driven here, and those that other processes send.

    Args:
        tenant: the tenant.
        driven: the runs that this process drives.
        is_shared: whether several processes may use the journal.
    """

    def __init__(self, tenant: str, driven: DrivenRuns, *, is_shared: bool) -> None:
        self._tenant = tenant
        self._driven = driven
        self._is_shared = is_shared
        self.exchange: LiveExchange | None = None
        """The link to other processes, once it is open."""

    @property
    def poll(self) -> float | None:
        """Seconds after which a reader looks again by itself; None if somebody wakes it."""
        return _POLL_SECONDS if self._is_shared and self.exchange is None else None

    def is_driven(self, session: str) -> bool:
        """Whether this process drives the last turn of a session."""
        return self._driven.is_driven(session)

    def find_live(self, session: str) -> LiveRun | None:
        """Return the run in progress; None if there is none, or nothing is known of it."""
        live = self._driven.find_live(session)
        if live is None and self.exchange is not None and not self._driven.is_driven(session):
            live = self.exchange.find_mirror(self._tenant, session)
        return live

    def want(self, session: str) -> None:
        """Ask for the items of a run that another process drives."""
        if self.exchange is not None:
            self.exchange.want(self._tenant, session)
