"""What a handler is, and what it can answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Final, Literal, TypeAlias

from msgspec import Struct

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


class Done(Struct, frozen=True):
    """The job was done.

    Args:
        result: what the provider answered: ids only, no personal data.
        state: `delivered` if it is known to have arrived.
    """

    result: Mapping[str, object] = {}
    state: Literal["sent", "delivered"] = "sent"


class Retry(Struct, frozen=True):
    """The job was not done, or nobody knows, and trying again later may help.

    Args:
        reason: why, in a few words without personal data.
        after: the least number of seconds to wait.
        in_doubt: whether it may have been done.
    """

    reason: str
    after: float = 0.0
    in_doubt: bool = False


class Failed(Struct, frozen=True):
    """The job cannot be done; a person has to look at it.

    Args:
        reason: why, in a few words without personal data.
        in_doubt: whether it may have been done.
    """

    reason: str
    in_doubt: bool = False


Outcome: TypeAlias = Done | Retry | Failed


def tell_office(tx: Transaction, job: Job, outcome: Done | Failed, now: float) -> None:
    """Open a task for the office if a job failed."""
    if isinstance(outcome, Done):
        return
    attempts = "1 attempt" if job.attempts == 1 else f"{job.attempts} attempts"
    told = "may or may not have happened" if outcome.in_doubt else "did not happen"
    task = NewTask(
        key=f"{job.key}/failed",
        kind="in_doubt" if outcome.in_doubt else "refused",
        reason=f"{job.kind}: it {told} ({outcome.reason}; {attempts})",
        registration_id=job.registration_id,
        session_id=job.session_id,
    )
    open_task(tx, task, now)


class Handler(Struct, frozen=True):
    """How jobs of one kind are done.

    Args:
        perform: does the job with `job.key` as idempotency key. It may be called again for a job
            that was done, by another process, too.
        finish: writes what follows, in the transaction that ends the job; usually at least a task
            for the office if it failed.
        waits: seconds before each further attempt; one attempt more than there are waits.
        time_limit: seconds for one attempt.
    """

    perform: Callable[[Job], Awaitable[Outcome]]
    finish: Callable[[Transaction, Job, Done | Failed, float], None] = tell_office
    waits: tuple[float, ...] = WAITS
    time_limit: float = 20.0
