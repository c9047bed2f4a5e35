"""A job of an outbox, how jobs of a kind are done, and the outcomes of one attempt. Nothing here performs anything."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, Generic, TypeAlias, TypeVar

from msgspec import Struct

from holdfast.core.argument_checks import check_fields, check_value
from holdfast.core.constraints import NonNegativeFloat, PositiveFloat

DEATHS: Final = 3
"""Attempts that may end with their process, beyond those that are retried anyway."""


class OutboxJob(Struct, frozen=True, kw_only=True):
    """A job as a worker gets it.

    Args:
        key: the name of the job for good; use it as the idempotency key of its requests.
        kind: which handler does it.
        payload: the arguments for the handler.
        attempts: how often it was begun, this time included.
        lease: the name of this worker's lease on it.
    """

    key: str
    kind: str
    payload: dict[str, Any]
    attempts: int
    lease: str | None = None

    def __repr__(self) -> str:
        # A payload may hold data of a person.
        return f"{type(self).__name__}(key={self.key!r}, kind={self.kind!r})"


class JobDone(Struct, frozen=True):
    """The job was done.

    Args:
        result: a text that is saved with it, such as the id that a provider gave.
    """

    result: Mapping[str, object] = {}

    def __post_init__(self) -> None:
        check_fields(self, "outcome.")


class JobRetry(Struct, frozen=True):
    """The job was not done, or nobody knows, and a later attempt may succeed.

    Args:
        reason: why, in a few words without secrets or personal data.
        after: the least number of seconds to wait.
        in_doubt: whether it may have been done.
    """

    reason: str
    after: NonNegativeFloat = 0.0
    in_doubt: bool = False

    def __post_init__(self) -> None:
        check_fields(self, "outcome.")


class JobFailed(Struct, frozen=True):
    """The job cannot be done. It is a dead letter: a person has to look at it.

    Args:
        reason: why, in a few words without secrets or personal data.
        in_doubt: whether it may have been done.
    """

    reason: str
    in_doubt: bool = False

    def __post_init__(self) -> None:
        check_fields(self, "outcome.")


JobOutcome: TypeAlias = JobDone | JobRetry | JobFailed
"""The outcome of one attempt."""

J = TypeVar("J", bound=OutboxJob)
C = TypeVar("C")

Finish: TypeAlias = Callable[[C, J, JobDone | JobFailed, float], None]
"""Writes the rows that follow from a job, with the connection of the transaction that ends it, and the time."""


class JobHandler(Struct, Generic[J, C], frozen=True):
    """How jobs of one kind are done.

    Args:
        perform: does the job, with `job.key` as the idempotency key. It may be called again for a job that was
            done, also in another process.
        finish: writes the rows that follow, in the transaction that ends the job. It is called again if that transaction
            is repeated, and not at all if another worker has the job by then.
        waits: seconds before each further attempt; there is one attempt more than there are waits.
        time_limit: seconds for one attempt.

    >>> async def send_mail(job):
    ...     return JobDone()
    >>> JobHandler(send_mail, time_limit=0)
    Traceback (most recent call last):
    ...
    holdfast.core.errors.ConfigurationError: handler.time_limit: must be a finite number above 0, got 0
    """

    perform: Callable[[J], Awaitable[JobOutcome]]
    finish: Finish[C, J] | None = None
    waits: tuple[float, ...] = (60.0, 300.0, 1800.0)
    time_limit: float = 20.0

    def __post_init__(self) -> None:
        check_value("handler.waits", self.waits, tuple[NonNegativeFloat, ...])
        check_value("handler.time_limit", self.time_limit, PositiveFloat)


def decide_outcome(attempts: int, waits: tuple[float, ...], outcome: JobOutcome) -> JobOutcome:
    """Return the outcome with the wait that is due, or a failure if this was the last attempt.

    >>> decide_outcome(2, (60.0, 300.0), JobRetry("busy"))
    JobRetry(reason='busy', after=300.0, in_doubt=False)
    >>> decide_outcome(3, (60.0, 300.0), JobRetry("busy"))
    JobFailed(reason='busy', in_doubt=False)
    """
    if not isinstance(outcome, JobRetry):
        return outcome
    if attempts <= len(waits):
        wait = max(waits[attempts - 1], outcome.after)
        return JobRetry(outcome.reason, wait, outcome.in_doubt)
    return JobFailed(outcome.reason, outcome.in_doubt)


def has_ended_processes(attempts: int, waits: tuple[float, ...]) -> bool:
    """Whether a job was begun so often without an outcome that it seems to end the processes that begin it.

    >>> has_ended_processes(7, (60.0, 300.0)), has_ended_processes(6, (60.0, 300.0))
    (True, False)
    """
    return attempts > len(waits) + 1 + DEATHS
