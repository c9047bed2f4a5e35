"""The engine of one process: its jobs are in memory, and end with it.

It is for journals in memory and in files, which belong to one process. In a process that shares its
journal it must never be used, since no other process knows of its jobs.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Collection, Sequence
from contextlib import suppress
from itertools import count
from threading import Lock
from time import monotonic

from holdfast.journal.inbox.dispatch_engine import HandleJob, Job
from holdfast.journal.inbox.job_slots import JobSlots
from holdfast.worker.engines.handler_waits import await_handlers
from holdfast.worker.engines.queue_names import redelivery_delay

_log = logging.getLogger("holdfast.worker")


class _Waker:
    """Wakes a run from any thread."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.event = asyncio.Event()

    def wake(self) -> None:
        with suppress(RuntimeError):  # its event loop is closed
            self._loop.call_soon_threadsafe(self.event.set)


class AsyncioEngine:
    """Carries jobs within this process; any thread and event loop may put them.

    >>> AsyncioEngine().name
    'asyncio'
    """

    name = "asyncio"

    def __init__(self) -> None:
        self._lock = Lock()
        self._numbers = count()
        self._ready: dict[str, deque[tuple[int, Job]]] = {}
        self._ready_ids: set[int] = set()
        self._handled: list[int] = []
        self._delayed: list[tuple[float, Job]] = []
        self._attempts: dict[int, int] = {}
        self._wakers: set[_Waker] = set()

    async def open(self) -> None:
        """Do nothing: there is nothing to prepare."""

    async def put(self, jobs: Sequence[Job]) -> None:
        """Put jobs; one that waits already is not doubled."""
        with self._lock:
            for job in jobs:
                self._add(job)
            self._wake_all()

    def _add(self, job: Job) -> None:
        if job.id not in self._ready_ids:
            self._ready_ids.add(job.id)
            self._ready.setdefault(job.queue, deque()).append((next(self._numbers), job))

    def _wake_all(self) -> None:
        for waker in self._wakers:
            waker.wake()

    async def run(self, handle: HandleJob, queues: Sequence[str], slots: JobSlots) -> None:
        """Deliver jobs until cancelled; see `DispatchEngine.run`."""
        waker = _Waker()
        running: set[asyncio.Task[None]] = set()

        def note_end(task: asyncio.Task[None]) -> None:
            running.discard(task)
            slots.release()

        with self._lock:
            self._wakers.add(waker)
        try:
            while True:
                await slots.acquire()
                waker.event.clear()
                job = self._take(queues)
                if job is not None:
                    task = asyncio.create_task(self._handle(handle, job))
                    running.add(task)
                    task.add_done_callback(note_end)
                    continue
                slots.release()
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._seconds_to_next()):
                        await waker.event.wait()
        finally:
            with self._lock:
                self._wakers.discard(waker)
            await await_handlers(running)

    def _take(self, queues: Sequence[str]) -> Job | None:
        """Take the job that has waited longest in these queues."""
        with self._lock:
            now = monotonic()
            for item in [item for item in self._delayed if item[0] <= now]:
                self._delayed.remove(item)
                self._add(item[1])
            heads = [(self._ready[queue][0][0], queue) for queue in queues if queue in self._ready]
            if not heads:
                return None
            queue = min(heads)[1]
            _, job = self._ready[queue].popleft()
            if not self._ready[queue]:
                del self._ready[queue]
            self._ready_ids.discard(job.id)
            self._handled.append(job.id)
            return job

    def _seconds_to_next(self) -> float | None:
        with self._lock:
            if not self._delayed:
                return None
            return max(0.0, min(due for due, _ in self._delayed) - monotonic())

    async def _handle(self, handle: HandleJob, job: Job) -> None:
        is_done = False
        try:
            await handle(job.id)
            is_done = True
        except asyncio.CancelledError:
            _log.info("job %d was cancelled and is delivered again", job.id)
        except Exception as error:  # noqa: BLE001  # REASON: it is delivered again whatever it was
            _log.warning("job %d is delivered again: %s", job.id, type(error).__name__)
        finally:
            self._note_outcome(job, is_done=is_done)

    def _note_outcome(self, job: Job, *, is_done: bool) -> None:
        with self._lock:
            self._handled.remove(job.id)
            if is_done:
                self._attempts.pop(job.id, None)
                return
            attempts = self._attempts[job.id] = self._attempts.get(job.id, 0) + 1
            self._delayed.append((monotonic() + redelivery_delay(attempts), job))
            self._wake_all()

    async def find_lost(self, ids: Collection[int]) -> Collection[int]:
        """Return those of these entries for which there is no job."""
        with self._lock:
            known = {*self._ready_ids, *self._handled, *(job.id for _, job in self._delayed)}
        return [entry for entry in ids if entry not in known]

    async def close(self) -> None:
        """Do nothing: there are no connections."""
