"""Follows a session in a process that may drive none of its turns.

If this process drives the turns of the journal, its readers are used. Otherwise the journal is read, and
what other processes tell of their runs. This module must never change what a run does.
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
from holdfast.event_log.live.visible_runs import VisibleRuns
from holdfast.event_log.positions import Position
from holdfast.journal.live_link import LinkedJournal
from holdfast.journal.port import Journal, SharedJournal
from holdfast.sessions.session_index import to_index

_SECONDS_BETWEEN_TICKS = 1.0
_TICKS_BETWEEN_TIDYINGS = 5
_readers: WeakKeyDictionary[Journal, ref[SessionReader]] = WeakKeyDictionary()


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
        nothing = _NoRuns()
        runs = VisibleRuns(journal.tenant, nothing, is_shared=True)
        if is_shared and isinstance(journal, LinkedJournal):
            runs.exchange = self._exchange = LiveExchange(journal.open_link, _ignore_link)
            here = TenantRuns(journal.tenant, index, self._watch, nothing.find_live, _do_nothing)
            self._exchange.add_tenant(here)
            self._task = asyncio.create_task(self._tidy_regularly(self._exchange))
        return SessionReader(index, runs, self._watch)

    async def follow(self, session: str, position: Position, turn: int) -> AsyncGenerator[Entry]:
        """Yield what a reader at a position misses, and then what happens until a turn rests.

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
            # A message may have been lost, or the engine of the workers may carry what they show.
            for session in self._watch.sessions:
                self._watch.wake_here(session)

    def close(self) -> None:
        """Hear nothing more of other processes."""
        if self._task is not None:
            self._task.cancel()
        if self._exchange is not None:
            self._exchange.close()


class _NoRuns:
    """This process drives no turn of the tenant."""

    def is_driven(self, _session: str) -> bool:
        return False

    def find_live(self, _session: str) -> LiveRun | None:
        return None


def _do_nothing(_session: str) -> None:
    """There is no run to act on."""


def _ignore_link(_is_up: bool) -> None:  # REASON: a callback
    """The ticks look whether messages arrive."""
