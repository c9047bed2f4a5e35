"""The delivery of jobs by a worker of procrastinate: one run of the PostgreSQL engine.

The worker of procrastinate stops its heartbeat before it waits for its jobs, never delivers a job
again whose worker died, and forgets a job that it fetched while the connection was lost. So this
module has a loop of its own, which runs until the last handler has returned. A handler must never be
cancelled here.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress

from msgspec import Struct
from procrastinate import App, JobContext, RetryDecision
from procrastinate.exceptions import ProcrastinateException
from procrastinate.jobs import DeleteJobCondition, Job
from procrastinate.retry import BaseRetryStrategy
from procrastinate.worker import Worker

from holdfast.journal.inbox.dispatch_engine import HandleJob
from holdfast.worker.engines import procrastinate_statements as sql
from holdfast.worker.engines.postgres_connector import PatientConnector
from holdfast.worker.engines.queue_names import encode_queue, redelivery_delay

_SECONDS_BETWEEN_POLLS = 1.0
"""A worker of procrastinate may miss a notification that comes while it fetches."""

_SECONDS_BETWEEN_TRIES = 1.0
_SECONDS_UNTIL_FORGOTTEN = 3600.0

_log = logging.getLogger("holdfast.worker")


class _NotDoneError(Exception):
    """A handler did not do its job. It says nothing of the reason, which is the caller's to log."""


class _DeliverAgain(BaseRetryStrategy):
    """Delivers a job again whenever it was not done."""

    def get_retry_decision(self, *, exception: BaseException, job: Job) -> RetryDecision:
        """Return when the job is delivered again."""
        del exception
        delay = redelivery_delay(job.attempts + 1)
        return RetryDecision(retry_in={"milliseconds": int(delay * 1000)})


class DeliverySettings(Struct, frozen=True):
    """The settings of a delivery.

    Args:
        queues: the names of the queues.
        parallel: the number of jobs at once.
        stall: seconds without a heartbeat after which a worker counts as dead.
    """

    queues: Sequence[str]
    parallel: int
    stall: float


class PostgresDelivery:
    """Delivers jobs until it is stopped.

    Args:
        connector: its connections; it is closed at the end.
        handle: does a job.
        settings: its queues, slots and handler.
    """

    def __init__(
        self, connector: PatientConnector, handle: HandleJob, settings: DeliverySettings
    ) -> None:
        self._connector = connector
        self._handle = handle
        self._settings = settings
        self._handled: set[int] = set()
        self._suspects: set[int] = set()
        self._is_stopping = asyncio.Event()
        self._app = App(connector=connector)
        task = self._app.task(name=sql.TASK, pass_context=True, retry=_DeliverAgain())
        task(self._carry)
        self._worker: Worker | None = None

    def stop(self) -> None:
        """Deliver no further job; `run` returns when the last handler has returned."""
        self._is_stopping.set()
        self._connector.stop_soon()
        if self._worker is not None:
            self._worker.stop()  # type: ignore[no-untyped-call]

    async def run(self) -> None:
        """Deliver jobs until `stop`. Whatever ends the worker of procrastinate, another one follows."""
        beats = asyncio.create_task(self._beat_regularly(), name="holdfast-engine-beats")
        try:
            while not self._is_stopping.is_set():
                try:
                    await self._connector.open_async()
                    if not self._is_stopping.is_set():  # which may come while it opens
                        await self._run_worker()
                except (ProcrastinateException, OSError, TimeoutError) as error:
                    _log.warning("engine postgres begins again: %s", type(error).__name__)
                with suppress(TimeoutError):
                    async with asyncio.timeout(_SECONDS_BETWEEN_TRIES):
                        await self._is_stopping.wait()
        finally:
            beats.cancel()
            await asyncio.wait([beats])
            with suppress(ProcrastinateException):
                await self._connector.close_async()

    async def _run_worker(self) -> None:
        worker = self._worker = Worker(
            app=self._app,
            queues=[encode_queue(queue) for queue in self._settings.queues],
            name="holdfast",
            concurrency=self._settings.parallel,
            fetch_job_polling_interval=_SECONDS_BETWEEN_POLLS,
            delete_jobs=DeleteJobCondition.ALWAYS,
            install_signal_handlers=False,
            # The loop of this module beats, and prunes: see above.
            update_heartbeat_interval=1e9,
            stalled_worker_timeout=_seconds_until_forgotten(self._settings.stall),
        )
        try:
            await worker.run()  # type: ignore[no-untyped-call]
        finally:
            self._worker = None

    async def _carry(self, context: JobContext, id: int) -> None:  # noqa: A002  # REASON: an argument of the job
        job = context.job.id or 0
        if self._is_stopping.is_set():
            self._connector.slots.release()
            raise _NotDoneError
        self._handled.add(job)
        problem: str | None = None
        try:
            await self._handle(int(id))
        except Exception as error:  # noqa: BLE001  # REASON: it is delivered again whatever it was
            problem = type(error).__name__
        finally:
            self._handled.discard(job)
            self._connector.slots.release()
        if problem is not None:
            _log.warning("job %s is delivered again: %s", id, problem)
            raise _NotDoneError  # without the context of the handler's error

    async def _beat_regularly(self) -> None:
        """Keep the worker alive for others, also while it stops, and put stalled jobs again."""
        while True:
            worker = self._worker.worker_id if self._worker is not None else None
            if worker is not None:
                try:
                    await self._beat(worker)
                except ProcrastinateException as error:
                    _log.info("engine postgres has no heartbeat now: %s", type(error).__name__)
            await asyncio.sleep(self._settings.stall / 4 if worker is not None else 0.05)

    async def _beat(self, worker: int) -> None:
        execute = self._connector.execute_query_all_async
        await self._connector.beat(worker)
        rows = await execute(sql.FIND_MINE, worker=worker)
        unhandled = {int(row["id"]) for row in rows} - self._handled - self._connector.ending
        orphans = sorted(unhandled & self._suspects)
        self._suspects = unhandled  # the others may be about to begin, or to end
        values = {"worker": worker, "stall": self._settings.stall}
        for row in await execute(sql.PUT_STALLED_AGAIN, orphans=orphans, **values):
            _log.warning("engine postgres delivers %s stalled jobs again", row["count"])
        forget = _seconds_until_forgotten(self._settings.stall)
        await self._connector.execute_query_async(
            sql.FORGET_DEAD_WORKERS, worker=worker, forget=forget
        )


def _seconds_until_forgotten(stall: float) -> float:
    """Return the age of the heartbeat of a worker that is removed.

    Its jobs are delivered again much earlier. Without its row, a worker that was only slow could not
    fetch: each try would be an error of the server.
    """
    return max(_SECONDS_UNTIL_FORGOTTEN, 10 * stall)
