"""A handler of jobs, and its possible outcomes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal

from holdfast.outbox import JobDone, JobFailed, JobHandler
from registration.store import Transaction
from registration.store.outbox import Job
from registration.store.tasks import NewTask, open_task

LONGER: Final = (
    1.0,
    5.0,
    30.0,
)  # before the second, third and fourth attempt: so many times the wait


def make_waits(first: float) -> tuple[float, ...]:
    """Return the seconds before each further attempt at a job.

    >>> make_waits(60.0)
    (60.0, 300.0, 1800.0)
    """
    return tuple(first * times for times in LONGER)


WAITS: Final = make_waits(60.0)


class Done(JobDone, frozen=True):
    """The job was done; its result is the answer of the provider: ids only, no personal data.

    Args:
        state: `delivered` if it is known to have arrived.
    """

    state: Literal["sent", "delivered"] = "sent"


def notify_office(tx: Transaction, job: Job, outcome: JobDone | JobFailed, now: float) -> None:
    """Open a task for the office if a job failed."""
    if isinstance(outcome, JobDone):
        return
    attempts = "1 attempt" if job.attempts == 1 else f"{job.attempts} attempts"
    effect = "may or may not have happened" if outcome.in_doubt else "did not happen"
    task = NewTask(
        key=f"{job.key}/failed",
        kind="in_doubt" if outcome.in_doubt else "refused",
        reason=f"{job.kind}: it {effect} ({outcome.reason}; {attempts})",
        registration_id=job.registration_id,
        session_id=job.session_id,
    )
    open_task(tx, task, now)


class Handler(JobHandler[Job, Transaction], frozen=True):
    """How jobs of one kind are done; by default, the office is notified of one that failed."""

    finish: Callable[[Transaction, Job, JobDone | JobFailed, float], None] = notify_office
    waits: tuple[float, ...] = WAITS
    time_limit: float = 20.0
