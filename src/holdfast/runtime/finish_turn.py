"""Makes the result of a turn that is over or waits, or the exception of one that did not complete.

This module must never change the turn.
"""

from __future__ import annotations

from typing import Any

from holdfast.core.errors import (
    ErrorCategory,
    ErrorInfo,
    HoldfastError,
    StoppedError,
    exception_for,
)
from holdfast.core.events import Status
from holdfast.runtime.active_turn import ActiveTurn
from holdfast.runtime.result import Result


def finish_turn(run: ActiveTurn) -> Result[Any]:
    """Return the result of a turn.

    Raises:
        HoldfastError: the turn did not complete; `.result` is its result.
    """
    result = run.build_result()
    if result.status is Status.COMPLETED:
        return result
    end = run.machine.stop_event
    refused = end is not None and end.refused
    stopped = result.status is Status.STOPPED and run.plan.output is None
    if (stopped and not refused) or result.status is Status.WAITING:
        return result
    raise _build_failure(run, result)


def _build_failure(run: ActiveTurn, result: Result[Any]) -> HoldfastError:
    """Build the exception of a turn that did not complete, with its result and its cause."""
    cause = run.error
    if result.status is Status.STOPPED:
        stopped = StoppedError(result.text, reason=result.stop_reason)
        stopped.result = result
        return stopped
    info = result.error or ErrorInfo(category=ErrorCategory.UNKNOWN, safe="The turn failed.")
    if isinstance(cause, HoldfastError) and info.category is cause.info.category:
        error = cause
    else:
        error = exception_for(info, run.machine.partial)
        error.__cause__ = cause
    if run.plan.output is not None:
        from holdfast.runtime.output_check import add_output_details  # only for typed output

        error = add_output_details(run, error)
    error.result = result
    return error
