"""The worker of this service: that of Holdfast, with the jobs of this database.

This module must never let an error of the database pass for a mistake of a handler.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

from msgspec.structs import replace

from holdfast.outbox import JobDone, JobOutcome, JobRetry, OutboxUnavailableError, OutboxWorker
from registration.outbox.outcomes import Done, Handler, notify_office
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


class DatabaseJobs:
    """The jobs of a database, for a worker; see `holdfast.outbox.OutboxStore`.

    Args:
        database: where the outbox is.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    async def claim(self, kinds: Sequence[str], now: float, until: float) -> Job | None:
        """Take the job that has been due longest."""
        lease = secrets.token_hex(8)
        with _report_outages(DatabaseUnavailable):
            return await self._database.transact(lambda tx: claim_job(tx, kinds, lease, now, until))

    async def renew(self, job: Job, now: float, until: float) -> None:
        """Keep a job for longer."""
        with _report_outages(DatabaseUnavailable):
            await self._database.transact(lambda tx: renew_lease(tx, job, now, until))

    async def record(
        self,
        job: Job,
        outcome: JobOutcome,
        now: float,
        finish: Callable[[Transaction], None] | None,
    ) -> bool:
        """Save an outcome and its consequences; whether this worker still had the job."""

        def work(tx: Transaction) -> bool:
            is_ours = record_outcome(tx, job, outcome, now)
            if is_ours and finish is not None:
                finish(tx)
            return is_ours

        with _report_outages(DatabaseUnavailable):
            return await self._database.transact(work)


class Worker(OutboxWorker[Job, Transaction]):
    """Does the jobs for which it has handlers. The office is notified of those that fail by a mistake.

    Args:
        database: where the outbox is.
        handlers: by the kind of job.
        clock: returns the time in seconds since 1970.
        lease: seconds for which a job is taken; renewed while it is being done.
        new_jobs: whoever writes a job sets it, so that the worker looks at once.
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
        super().__init__(
            DatabaseJobs(database),
            {kind: _guard_handler(handler) for kind, handler in handlers.items()},
            clock=clock,
            lease=lease,
            new_jobs=new_jobs,
            finish_failed=notify_office,
        )


def record_outcome(tx: Transaction, job: Job, outcome: JobOutcome, now: float) -> bool:
    """Save the outcome of a job; whether the worker still had the job."""
    if isinstance(outcome, JobRetry):
        return record_retry(tx, job, outcome.reason, now + outcome.after, now)
    if isinstance(outcome, JobDone):
        state = outcome.state if isinstance(outcome, Done) else "sent"
        return record_success(tx, job, state, outcome.result, now)
    return record_failure(tx, job, outcome.reason, now)


def _guard_handler(handler: Handler) -> Handler:
    """Let a handler whose database is away be tried again for that reason."""

    async def perform(job: Job) -> JobOutcome:
        with _report_outages(StoreError):
            return await handler.perform(job)

    return replace(handler, perform=perform)


@contextmanager
def _report_outages(kind: type[StoreError]) -> Iterator[None]:
    """Raise an outage of the database, as a worker knows it, in place of errors of a kind."""
    try:
        yield
    except kind as error:
        raise OutboxUnavailableError(str(error)) from error
