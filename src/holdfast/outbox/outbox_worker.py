"""The worker of an outbox: takes jobs one by one, does them, and saves their outcomes.

Several workers, also of several processes, share one outbox. Each takes a job for some seconds (a lease). If a worker
dies, another takes its job when the lease ends, and does it with the same key. This module must never let an
exception of a handler end the worker.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Generic, Protocol, TypeVar

from holdfast.core.argument_checks import check_value
from holdfast.core.constraints import PositiveFloat, PositiveInt
from holdfast.core.error_info import Landed
from holdfast.core.errors import ConfigurationError, HoldfastError
from holdfast.outbox.job_outcomes import (
    C,
    Finish,
    J,
    JobDone,
    JobFailed,
    JobHandler,
    JobOutcome,
    JobRetry,
    decide_outcome,
    has_ended_processes,
)

T = TypeVar("T")
C_co = TypeVar("C_co", covariant=True)

_log = logging.getLogger(__name__)


class OutboxUnavailableError(HoldfastError):
    """The database of an outbox cannot be used now; a handler may raise it for the same reason.

    A job that was done meanwhile is done again after its lease, with its key.
    """

    landed = Landed.UNKNOWN


class OutboxStore(Protocol[J, C_co]):
    """Where a worker finds its jobs. `DbapiOutboxStore` is one; an application may have its own.

    Each method is one transaction, and raises OutboxUnavailableError if the database cannot be used.
    """

    async def claim(self, kinds: Sequence[str], now: float, until: float) -> J | None:
        """Take the job that has been due longest, until a time; None if none is due.

        Due is a queued job whose time has come, and a running one whose lease has ended. If the clock was set
        back since a wait or a lease began, its end comes earlier by as much: see `Outbox.follow_clock`.
        """

    async def renew(self, job: J, now: float, until: float) -> None:
        """Keep a job for longer, if this worker still has it."""

    async def record(
        self, job: J, outcome: JobOutcome, now: float, finish: Callable[[C_co], None] | None
    ) -> bool:
        """Save an outcome, and return whether this worker still had the job; if not, save nothing.

        Args:
            job: the job.
            outcome: its outcome; a retry is due after `outcome.after` seconds.
            now: the time.
            finish: writes the rows that follow, in the same transaction. Its exception is raised, and nothing is saved.
        """


class OutboxWorker(Generic[J, C]):
    """Does the jobs for which it has handlers.

    Args:
        store: where the jobs are.
        handlers: by the kind of job.
        clock: returns the time in seconds since 1970. Processes that share an outbox need clocks that agree.
        lease: seconds for which a job is taken; the lease is renewed while the job is being done.
        poll: seconds between two looks at an empty outbox.
        new_jobs: whoever writes a job sets it, so that the worker looks at once; `wake` sets it as well.
        finish_failed: the text that is written for a job whose handler's `finish` raised. Such a job fails, in doubt.

    Raises:
        ConfigurationError: an argument is wrong.
    """

    def __init__(
        self,
        store: OutboxStore[J, C],
        handlers: Mapping[str, JobHandler[J, C]],
        *,
        clock: Callable[[], float] = time.time,
        lease: float = 60.0,
        poll: float = 1.0,
        new_jobs: asyncio.Event | None = None,
        finish_failed: Finish[C, J] | None = None,
    ) -> None:
        check_value("handlers", handlers, Mapping[str, JobHandler])  # type: ignore[type-arg]  # only the class is checked
        if not handlers:
            raise ConfigurationError("handlers", "is empty", fix="Give one for each kind of job")
        check_value("lease", lease, PositiveFloat)
        check_value("poll", poll, PositiveFloat)
        self._store = store
        self._handlers = dict(handlers)
        self._clock = clock
        self._lease = lease
        self._poll = poll
        self._wake = new_jobs or asyncio.Event()
        self._finish_failed = finish_failed
        self._stopped = asyncio.Event()

    async def run(self, at_once: int = 4) -> None:
        """Do jobs until `stop` is called, and those that were begun to their end.

        Args:
            at_once: how many jobs are done at the same time.
        """
        check_value("at_once", at_once, PositiveInt)
        slots = asyncio.Semaphore(at_once)
        async with asyncio.TaskGroup() as group:
            while not self._stopped.is_set():
                await slots.acquire()
                self._wake.clear()
                job = None if self._stopped.is_set() else await self._try(self._claim())
                if job is not None:
                    group.create_task(self._do_in_slot(job, slots))
                    continue
                slots.release()
                if not self._stopped.is_set():
                    with suppress(TimeoutError):
                        async with asyncio.timeout(self._poll):
                            await self._wake.wait()

    def wake(self) -> None:
        """Look at the outbox now: a job was written."""
        self._wake.set()

    def stop(self) -> None:
        """Let `run` return when the jobs that were begun are done."""
        self._stopped.set()
        self._wake.set()

    async def drain(self) -> int:
        """Do every job that is due, one after the other, and return how many attempts were made."""
        count = 0
        while await self.run_once():
            count += 1
        return count

    async def run_once(self) -> bool:
        """Take the job that has been due longest, and do it; whether there was one.

        Raises:
            OutboxUnavailableError: the job may have been done; after its lease it is done again.
        """
        job = await self._claim()
        if job is None:
            return False
        await self._do(job)
        return True

    async def _claim(self) -> J | None:
        now = self._clock()
        return await self._store.claim(tuple(self._handlers), now, now + self._lease)

    async def _do_in_slot(self, job: J, slots: asyncio.Semaphore) -> None:
        try:
            await self._try(self._do(job))
        finally:
            slots.release()
            self._wake.set()

    async def _do(self, job: J) -> None:
        handler = self._handlers[job.kind]
        outcome = await self._perform(job, handler)
        await self._record(job, handler, decide_outcome(job.attempts, handler.waits, outcome))

    async def _perform(self, job: J, handler: JobHandler[J, C]) -> JobOutcome:
        if has_ended_processes(job.attempts, handler.waits):
            return JobFailed("each process that began it ended", in_doubt=True)
        try:
            async with asyncio.timeout(handler.time_limit), self._keep_lease(job):
                outcome: object = await handler.perform(job)
                if isinstance(outcome, JobDone | JobRetry | JobFailed):
                    return outcome
                raise TypeError("a handler returns JobDone, JobRetry or JobFailed")
        except OutboxUnavailableError:
            return JobRetry("the database was not available", in_doubt=True)
        except TimeoutError:
            return JobRetry("it took too long", in_doubt=True)
        except Exception as error:  # noqa: BLE001  # REASON: a mistake in one handler must not stop the others
            return JobRetry(_log_mistake(job, error), in_doubt=True)

    async def _record(self, job: J, handler: JobHandler[J, C], outcome: JobOutcome) -> None:
        now = self._clock()
        mistakes: list[Exception] = []
        try:
            finish = _bind_finish(handler.finish, job, outcome, now, mistakes)
            await self._store.record(job, outcome, now, finish)
        except Exception as error:
            is_of_finish = bool(mistakes) and error is mistakes[-1]
            if not is_of_finish and not isinstance(error, ConfigurationError):
                raise
            failed = JobFailed(_log_mistake(job, error), in_doubt=True)
            finish = _bind_finish(self._finish_failed, job, failed, now, mistakes)
            await self._store.record(job, failed, now, finish)

    @asynccontextmanager
    async def _keep_lease(self, job: J) -> AsyncIterator[None]:
        """Renew the lease now and then, so that a short one is enough for a long job."""
        task = asyncio.create_task(self._renew_lease(job))
        try:
            yield
        finally:
            task.cancel()

    async def _renew_lease(self, job: J) -> None:
        while True:
            await asyncio.sleep(self._lease / 3)
            now = self._clock()
            await self._try(self._store.renew(job, now, now + self._lease))

    async def _try(self, act: Awaitable[T]) -> T | None:
        """Await something of the store; a failure of it is logged, and nothing comes of it."""
        try:
            return await act
        except OutboxUnavailableError as error:
            _log.warning("the outbox waits: %s", error)
        except Exception as error:  # noqa: BLE001  # REASON: nobody would miss a worker that ended
            _log.error("the outbox waits: it failed with %s", type(error).__name__)
        return None


def _bind_finish(
    finish: Finish[C, J] | None,
    job: J,
    outcome: JobOutcome,
    now: float,
    mistakes: list[Exception],
) -> Callable[[C], None] | None:
    """Return `finish` with its exceptions noted, so that they differ from those of a failing database."""
    if finish is None or isinstance(outcome, JobRetry):
        return None
    ended: JobDone | JobFailed = outcome

    def write(connection: C) -> None:
        try:
            finish(connection, job, ended, now)
        except Exception as error:
            mistakes.append(error)
            raise

    return write


def _log_mistake(job: J, error: Exception) -> str:
    # Its message may quote data of a person.
    kind = type(error).__name__
    _log.error("job %s of kind %s failed with %s", job.key, job.kind, kind)
    return f"a mistake of this program ({kind})"
