"""The sweep: a worker's steps of every few seconds, so that nothing depends on a message that was lost.

A plain loop, and no job of an engine: a job could be lost, or stall. This module must never drive a turn
of the inbox itself.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from time import monotonic

from holdfast.core.errors import HoldfastError
from holdfast.journal.inbox.dispatch_engine import DispatchEngine
from holdfast.journal.inbox.inbox import Inbox
from holdfast.journal.inbox.sweeping import StalledEntry
from holdfast.worker.dispatcher import Dispatcher

SECONDS_BETWEEN_SWEEPS = 2.0
KEEP_SECONDS = 7 * 86_400.0
"""Seconds for which an entry stays in the inbox after its turn has ended."""

_SECONDS_BETWEEN_PRUNINGS = 60.0
_SECONDS_ON_THE_WAY = 2.0
"""Seconds after which a job that nobody has begun may be lost."""

_LONGEST_WAY = 30.0
"""Seconds after which a job that nobody has begun is put again, whatever the engine says of it."""

_log = logging.getLogger("holdfast.worker")


class SteadyBeats:
    """Whether the heartbeats of this worker were saved without a gap.

    During an outage of the database no heartbeat is saved, so all workers count as gone afterwards until they
    have saved again that they are there. Whoever had a gap itself waits for the others.

    Args:
        seconds_to_live: seconds without a heartbeat after which a worker counts as gone.
        now: returns the time, in seconds.

    >>> beats = SteadyBeats(10.0, now=iter([0.0, 1.0, 30.0, 31.0]).__next__)
    >>> beats.note_beat(), beats.are_steady(), beats.note_beat(), beats.are_steady()
    (None, True, None, False)
    """

    def __init__(self, seconds_to_live: float, now: Callable[[], float] = monotonic) -> None:
        self._seconds = seconds_to_live
        self._now = now
        self._last: float | None = None
        self._gap_ended: float | None = None

    def note_beat(self) -> None:
        """Note that a heartbeat was saved."""
        now = self._now()
        if self._last is not None and now - self._last > self._seconds / 2:
            self._gap_ended = now
        self._last = now

    def are_steady(self) -> bool:
        """Whether there is no gap, and the last one ended long enough ago."""
        now = self._now()
        if self._last is None or now - self._last > self._seconds / 2:
            return False
        return self._gap_ended is None or now - self._gap_ended >= self._seconds


class Sweep:
    """The sweep of one worker.

    Args:
        inbox: the inbox.
        engine: is asked which jobs it has lost.
        dispatcher: puts jobs.
        steps: the other steps of each sweep.
    """

    def __init__(
        self,
        inbox: Inbox,
        engine: DispatchEngine,
        dispatcher: Dispatcher,
        steps: Sequence[Callable[[], Awaitable[object]]] = (),
    ) -> None:
        self._inbox = inbox
        self._engine = engine
        self._dispatcher = dispatcher
        self._steps = (self._promote, self._put_lost_again, self._prune, *steps)
        self._seen_at: dict[StalledEntry, float] = {}
        self._pruned_at = -_SECONDS_BETWEEN_PRUNINGS
        self.may_take_over: Callable[[], bool] = _allow
        """Whether workers that count as gone are gone: after an outage of the database they may be alive."""
        self.note_failure: Callable[[], None] = _ignore
        """Called when a step has failed."""
        self._is_due = asyncio.Event()

    def run_after(self, seconds: float) -> None:
        """Sweep after so many seconds, as an entry is due then; on the event loop."""
        asyncio.get_running_loop().call_later(seconds, self._is_due.set)

    async def run(self) -> None:
        """Sweep until cancelled. A step that fails stops no other."""
        while True:
            for step in self._steps:
                try:
                    await step()
                except HoldfastError as error:
                    self.note_failure()
                    _log.warning("a part of the sweep failed: %s", error)
            self._dispatcher.wake()
            with suppress(TimeoutError):
                async with asyncio.timeout(SECONDS_BETWEEN_SWEEPS):
                    await self._is_due.wait()
            self._is_due.clear()

    async def _promote(self) -> None:
        while await self._inbox.promote_due():
            continue

    async def _put_lost_again(self) -> None:
        """Put the jobs of entries again whose worker has died, or that the engine has lost."""
        stalled, now = await self._inbox.find_stalled(), monotonic()
        self._seen_at = {entry: self._seen_at.get(entry, now) for entry in stalled}
        orphans = {entry for entry in stalled if entry.worker and self.may_take_over()}
        old = [
            entry
            for entry in stalled
            if not entry.worker and now - self._seen_at[entry] >= _SECONDS_ON_THE_WAY
        ]
        # A job may be alive in a queue that no worker takes from any more.
        orphans |= {entry for entry in old if now - self._seen_at[entry] >= _LONGEST_WAY}
        if old:
            lost = set(await self._engine.find_lost([entry.id for entry in old]))
            orphans |= {entry for entry in old if entry.id in lost}
        if orphans:
            await self._dispatcher.put(await self._inbox.put_again(orphans))
            for entry in orphans:
                self._seen_at.pop(entry, None)

    async def _prune(self) -> None:
        if monotonic() - self._pruned_at >= _SECONDS_BETWEEN_PRUNINGS:
            self._pruned_at = monotonic()
            await self._inbox.prune(KEEP_SECONDS)


def _allow() -> bool:
    return True


def _ignore() -> None:
    """Nobody wants to know."""
