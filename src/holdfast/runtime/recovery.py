"""Going on with what a crash cut short: every interrupted run of an agent, a few at a time.

It must never stop at a run that fails: each has its own outcome.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Generic

from typing_extensions import TypeVar

from holdfast.core.errors import (
    ErrorCategory,
    ErrorInfo,
    SessionBusyError,
    exception_for,
)
from holdfast.core.limits import check_count
from holdfast.core.run_state import Phase
from holdfast.runtime.result import Result
from holdfast.runtime.run import Run
from holdfast.runtime.waiting import all_waits

T = TypeVar("T", default=str)


@dataclass(frozen=True)
class Recovered(Generic[T]):
    """What became of one interrupted run: its `result`, or the `error` that ended it."""

    run_id: str
    result: Result[T] | None = None
    error: Exception | None = None


def is_interrupted(run: Run) -> bool:
    """Whether a crash cut its turn short, and not a question that nobody has answered yet."""
    if run.machine.phase is Phase.IDLE:
        return False  # somebody else was faster
    return bool(run.machine.questions.due) or not all_waits(run.machine)


async def recover_each(
    runs: Sequence[str], go_on: Callable[[str], Awaitable[Result[T] | None]], parallel: int
) -> list[Recovered[T]]:
    """Go on with each run; those that turn out not to be interrupted are left out.

    Args:
        runs: their ids.
        go_on: resumes one; None when there is nothing to do.
        parallel: how many at once.

    Raises:
        ConfigurationError: parallel is no number from 1.
    """
    check_count("parallel", parallel, at_least=1)
    places = asyncio.Semaphore(parallel)

    async def one(run_id: str) -> Result[T] | None:
        async with places:
            try:
                return await go_on(run_id)
            except SessionBusyError as error:
                if error.session != run_id:
                    raise
                return None  # its driver lives

    ended = await asyncio.gather(*map(one, runs), return_exceptions=True)
    return [
        _recovered(run_id, end) for run_id, end in zip(runs, ended, strict=True) if end is not None
    ]


def _recovered(run_id: str, end: Result[T] | BaseException) -> Recovered[T]:
    if isinstance(end, asyncio.CancelledError):
        # Nobody cancelled the recovery: something in this run did that, and to this run alone.
        info = ErrorInfo(
            category=ErrorCategory.CANCELLED, safe="The turn was cancelled.", code="cancelled"
        )
        error = exception_for(info)
        error.__cause__ = end
        return Recovered(run_id, error=error)
    if isinstance(end, Exception):
        return Recovered(run_id, error=end)
    if isinstance(end, BaseException):
        raise end
    return Recovered(run_id, end)
