"""Admits turns and puts their jobs whenever the inbox may have changed.

An engine in the database of the inbox gets its jobs in the same transaction; any other gets them
afterwards, and what it loses is put again by the sweep. This module must never drive a turn.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

from holdfast.core.errors import HoldfastError
from holdfast.journal.inbox.admitting import Admission, MakePut
from holdfast.journal.inbox.dispatch_engine import DispatchEngine, Job, TransactionalEngine
from holdfast.journal.inbox.inbox import Inbox
from holdfast.journal.inbox.inbox_errors import EngineError

_log = logging.getLogger("holdfast.worker")


class Dispatcher:
    """Admits turns for the workers of a journal.

    Args:
        inbox: the inbox.
        engine: carries the jobs.
    """

    def __init__(self, inbox: Inbox, engine: DispatchEngine) -> None:
        self._inbox = inbox
        self._engine = engine
        self._changed = asyncio.Event()
        self._seen = asyncio.Event()
        self.make_put: MakePut | None = None
        """Puts jobs in the transaction of the inbox; None if the engine is elsewhere."""
        if isinstance(engine, TransactionalEngine):
            self.make_put = engine.make_put

    def watch(self) -> Callable[[], None]:
        """Admit whenever the inbox may have changed; returns what ends that."""
        loop = asyncio.get_running_loop()

        def wake() -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(self.wake)

        return self._inbox.watch(wake, of_ends=False)

    def wake(self) -> None:
        """Admit as soon as possible, on the event loop."""
        self._changed.set()
        self._seen.set()

    async def wait_for_change(self) -> None:
        """Return when the inbox may have changed since the last call, for one caller."""
        await self._seen.wait()
        self._seen.clear()

    async def run(self) -> None:
        """Admit until cancelled. Changes that come meanwhile are one change."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            try:
                admission = await self._inbox.admit(self.make_put)
                await self.note_admission(admission)
            except HoldfastError as error:
                _log.warning("no turns can be admitted now: %s", error)

    async def note_admission(self, admission: Admission) -> None:
        """Put the jobs of an admission, unless that was done in its transaction."""
        if admission.has_more:
            self.wake()
        if self.make_put is None:
            await self.put(admission.jobs)

    async def put(self, jobs: Sequence[Job]) -> None:
        """Put jobs; those that cannot be put now are put by the sweep."""
        if not jobs:
            return
        try:
            await self._engine.put(jobs)
        except EngineError as error:
            _log.warning("jobs cannot be put now: %s", error)
