"""Admits turns whenever the inbox may have changed: its worker begins some, and the others get jobs.

A turn for which the worker has a free slot begins at once, without a job. An engine in the database of the
inbox gets the other jobs in the same transaction; any other engine gets them afterwards, and those that it
loses is put again by the sweep. Turns that end while a transaction is under way are saved together by the
next one, since the workers of a journal hold the lock of the inbox one after the other. This module must
never drive a turn.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Sequence

from msgspec import Struct

from holdfast.core.errors import HoldfastError
from holdfast.journal.inbox.admitting import Admission, MakePut, Offer
from holdfast.journal.inbox.dispatch_engine import DispatchEngine, Job, TransactionalEngine
from holdfast.journal.inbox.driving import EndedEntry, EntryOutcome
from holdfast.journal.inbox.entries import InboxEntry
from holdfast.journal.inbox.inbox import Inbox, InboxChanges
from holdfast.journal.inbox.inbox_errors import EngineError
from holdfast.journal.inbox.job_slots import JobSlots

_log = logging.getLogger("holdfast.worker")


class DirectTurns(Struct, frozen=True):
    """The turns that a worker begins when it has admitted them.

    Args:
        worker: the id of the worker.
        queues: the names of its queues.
        slots: its slots.
        begin: begins a turn in a slot that is taken for it, and releases the slot when it has ended.
    """

    worker: str
    queues: Collection[str]
    slots: JobSlots
    begin: Callable[[InboxEntry], None]


class Dispatcher:
    """Admits turns for the workers of a journal.

    Args:
        inbox: the inbox.
        changes: its changes that may leave turns to admit.
        engine: carries the jobs.
        direct: the turns that the worker of this process begins itself.
    """

    def __init__(
        self, inbox: Inbox, changes: InboxChanges, engine: DispatchEngine, direct: DirectTurns
    ) -> None:
        self._inbox = inbox
        self._changes = changes
        self._engine = engine
        self._direct = direct
        self.is_stopping = False
        """Whether the worker begins no more turns."""
        self._ended: list[tuple[EndedEntry, asyncio.Future[None]]] = []
        self._saving: asyncio.Task[None] | None = None
        self.make_put: MakePut | None = None
        """Puts jobs in the transaction of the inbox; None if the engine is elsewhere."""
        if isinstance(engine, TransactionalEngine):
            self.make_put = engine.make_put

    def wake(self) -> None:
        """Admit as soon as possible."""
        self._changes.note()

    async def run(self) -> None:
        """Admit until cancelled. Changes that come meanwhile are one change."""
        while True:
            await self._changes.wait()
            try:
                await self._note(
                    await self._admit(lambda offer: self._inbox.admit(self.make_put, offer))
                )
            except HoldfastError as error:
                _log.warning("no turns can be admitted now: %s", error)

    async def end(self, entry_id: int, outcome: EntryOutcome) -> None:
        """Save the outcome of an entry that the worker has, and admit turns in its place.

        The slot of the entry counts as free: whoever calls releases it next. Raises JournalError.
        """
        saved = asyncio.get_running_loop().create_future()
        self._ended.append((EndedEntry(entry_id, outcome), saved))
        if self._saving is None:
            self._saving = asyncio.create_task(self._save_ends(), name="holdfast-ends")
        await saved

    async def _save_ends(self) -> None:
        """Save the ends that there are, and those that come meanwhile."""
        try:
            while self._ended:
                waiting, self._ended = self._ended, []
                await self._save(waiting)
        finally:
            self._saving = None

    async def _save(self, waiting: Sequence[tuple[EndedEntry, asyncio.Future[None]]]) -> None:
        """Save ends in one transaction, and wake those who wait for it."""
        worker, ended = self._direct.worker, [one for one, _ in waiting]
        failure: Exception | None = None
        try:
            admission = await self._admit(
                lambda offer: self._inbox.end(ended, worker, self.make_put, offer), len(ended)
            )
        except Exception as error:  # noqa: BLE001  # REASON: it is raised where the ends are waited for
            failure, admission = error, Admission()
        for _, saved in waiting:
            if saved.done():
                continue  # whoever waited was cancelled
            if failure is not None:
                saved.set_exception(failure)
            else:
                saved.set_result(None)
        await self._note(admission)

    async def _admit(
        self, admit: Callable[[Offer], Awaitable[Admission]], ended: int = 0
    ) -> Admission:
        """Perform an admission, and begin the turns that it takes.

        Args:
            admit: performs it.
            ended: how many slots are free once it has ended.
        """
        direct = self._direct
        unused = direct.slots.take(direct.slots.count)
        offered = 0 if self.is_stopping or direct.slots.is_paused else unused + ended
        try:
            admission = await admit(Offer(direct.worker, direct.queues, offered))
            unused -= len(admission.taken)
            for entry in admission.taken:
                direct.begin(entry)
        finally:
            direct.slots.release(unused)
        return admission

    async def _note(self, admission: Admission) -> None:
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
        except Exception as error:  # noqa: BLE001  # REASON: a mistake of an engine must not end the worker
            _log.error("jobs cannot be put: the engine raised %s", type(error).__name__)
