"""The worker: takes jobs of the outbox one by one and does them.

Several workers, of several processes too, share one outbox. Each takes a job for some seconds (a
lease). If a worker dies, another takes its job when the lease ends, and does it with the same key.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Final

from registration.outbox.outcomes import Done, Failed, Handler, Outcome, Retry
from registration.store import Database, DatabaseUnavailable, StoreError, Transaction
from registration.store.outbox import (
    Job,
    claim_job,
    record_failure,
    record_retry,
    record_success,
    renew_lease,
)

LEASE: Final = 60.0  # seconds
POLL: Final = 1.0  # seconds between looks at an empty outbox
DEATHS: Final = 3  # attempts without an answer, beyond those that are retried anyway

_log = logging.getLogger(__name__)


class Worker:
    """Does the jobs for which it has handlers.

    Args:
        database: where the outbox is.
        handlers: by the kind of job.
        clock: returns the time in seconds since 1970.
        lease: seconds for which a job is taken; renewed while it is being done.
        new_jobs: whoever writes a job sets it, so that the worker looks at once; by default, `wake`
            does.
    """

    def __init__(
        self,
        database: Database,
        handlers: Mapping[str, Handler],
        clock: Callable[[], float],
        *,
        lease: float = LEASE,
        new_jobs: asyncio.Event | None = None,
    ) -> None:
        self._database = database
        self._handlers = dict(handlers)
        self._clock = clock
        self._lease = lease
        self._wake = new_jobs or asyncio.Event()
        self._stopping = False

    async def run(self, at_once: int = 4) -> None:
        """Do jobs until `stop` is called.

        Args:
            at_once: how many jobs are done at the same time.
        """
        async with asyncio.TaskGroup() as group:
            for _ in range(at_once):
                group.create_task(self._run_one_by_one())

    def wake(self) -> None:
        """Look at the outbox now: a job was written."""
        self._wake.set()

    def stop(self) -> None:
        """Let `run` return when the jobs under way are done."""
        self._stopping = True
        self._wake.set()

    async def drain(self) -> int:
        """Do every job that is due, and return how many attempts were made."""
        count = 0
        while await self.run_once():
            count += 1
        return count

    async def run_once(self) -> bool:
        """Take the job that has been due longest, and do it; whether there was one.

        Raises:
            DatabaseUnavailable: the job may have been done; after its lease it is done again.
        """
        lease, now = secrets.token_hex(8), self._clock()
        kinds = tuple(self._handlers)
        job = await self._database.transact(
            lambda tx: claim_job(tx, kinds, lease, now, now + self._lease)
        )
        if job is None:
            return False
        handler = self._handlers[job.kind]
        outcome = decide_outcome(job, handler, await self._perform(job, handler))
        await self._record(job, handler, outcome)
        return True

    async def _record(self, job: Job, handler: Handler, outcome: Outcome) -> None:
        now = self._clock()
        failed: Failed | None = None
        try:
            await self._database.transact(lambda tx: record_outcome(tx, job, handler, outcome, now))
        except DatabaseUnavailable:
            raise
        except Exception as error:  # noqa: BLE001 -- a mistake in `finish` must not stop the others
            failed = Failed(_log_mistake(job, error), in_doubt=True)
        if failed is not None:
            plain = Handler(handler.perform)
            await self._database.transact(lambda tx: record_outcome(tx, job, plain, failed, now))

    async def _perform(self, job: Job, handler: Handler) -> Outcome:
        if job.attempts > len(handler.waits) + 1 + DEATHS:
            return Failed("each process that began it ended", in_doubt=True)
        try:
            async with asyncio.timeout(handler.time_limit), self._keep_lease(job):
                return await handler.perform(job)
        except StoreError:
            return Retry("the database was not available", in_doubt=True)
        except TimeoutError:
            return Retry("it took too long", in_doubt=True)
        except Exception as error:  # noqa: BLE001 -- a mistake in one handler must not stop the others
            return Retry(_log_mistake(job, error), in_doubt=True)

    @asynccontextmanager
    async def _keep_lease(self, job: Job) -> AsyncIterator[None]:
        """Renew the lease now and then, so that a short one is enough for a long job."""
        task = asyncio.create_task(self._renew_lease(job))
        try:
            yield
        finally:
            task.cancel()

    async def _renew_lease(self, job: Job) -> None:
        while True:
            await asyncio.sleep(self._lease / 3)
            until = self._clock() + self._lease
            try:
                await self._database.transact(partial(renew_lease, job=job, lease_until=until))
            except StoreError as error:
                _log.warning("a lease was not renewed: %s", error)

    async def _run_one_by_one(self) -> None:
        while not self._stopping:
            self._wake.clear()
            try:
                did_one = await self.run_once()
            except StoreError as error:
                _log.warning("the outbox waits: %s", error)
                did_one = False
            except Exception as error:  # noqa: BLE001 -- a worker that ended would be missed by nobody
                # Its message may quote what belongs to a person.
                _log.error("the outbox waits: it failed with %s", type(error).__name__)
                did_one = False
            if not did_one and not self._stopping:
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._wake.wait(), POLL)


def _log_mistake(job: Job, error: Exception) -> str:
    # Its message may quote what belongs to a person.
    kind = type(error).__name__
    _log.error("job %s of kind %s failed with %s", job.key, job.kind, kind)
    return f"a mistake of this program ({kind})"


def decide_outcome(job: Job, handler: Handler, outcome: Outcome) -> Outcome:
    """Return the outcome, or a failure if the last attempt asks for another one."""
    if not isinstance(outcome, Retry):
        return outcome
    if job.attempts <= len(handler.waits):
        wait = handler.waits[job.attempts - 1]
        return Retry(outcome.reason, max(wait, outcome.after), outcome.in_doubt)
    return Failed(outcome.reason, outcome.in_doubt)


def record_outcome(
    tx: Transaction, job: Job, handler: Handler, outcome: Outcome, now: float
) -> bool:
    """Save the outcome of a job and what follows from it; whether the worker still had the job."""
    if isinstance(outcome, Retry):
        return record_retry(tx, job, outcome.reason, now + outcome.after, now)
    if isinstance(outcome, Done):
        is_ours = record_success(tx, job, outcome.state, outcome.result, now)
    else:
        is_ours = record_failure(tx, job, outcome.reason, now)
    if is_ours:
        handler.finish(tx, job, outcome, now)
    return is_ours
