"""Combines the six middlewares that handle errors, in a working order.

It must always return exactly these six; register any others beside them.
"""

from __future__ import annotations

from typing import Any

from holdfast.core.argument_checks import check_arguments
from holdfast.core.constraints import PositiveFloat
from holdfast.middleware.error_formatting import ErrorFormatting
from holdfast.middleware.error_tracking import ErrorTracking
from holdfast.middleware.function_retry import FunctionRetry
from holdfast.middleware.function_timeout import FunctionTimeout
from holdfast.middleware.hooks import Middleware
from holdfast.middleware.repetition_guard import RepetitionGuard
from holdfast.middleware.total_error_threshold import TotalErrorThreshold


@check_arguments
def error_handling_middlewares(
    max_consecutive_calls: int | RepetitionGuard = 5,
    max_consecutive_errors: int | ErrorTracking = 3,
    max_total_errors: int | TotalErrorThreshold = 10,
    *,
    retry: FunctionRetry | None = None,
    timeout: PositiveFloat | None = None,
    include_detailed_errors: bool | None = None,
) -> list[Middleware[Any]]:
    """The six middlewares that handle errors and repetition; pass them as `middleware=`.

    Args:
        max_consecutive_calls: the number of the equal call that does not run any more; or a guard
            with other settings too.
        max_consecutive_errors: how many iterations in a row may have a failed tool; or an
            `ErrorTracking`, for example with a detector of your own.
        max_total_errors: how many tools may fail in one turn; or a `TotalErrorThreshold`.
        retry: how tools are retried; the agent's settings by default.
        timeout: seconds for one attempt of a tool; by default the agent's setting, or 30 without one.
        include_detailed_errors: whether the model sees the text of exceptions; by default the agent's
            setting.

    >>> [middleware.name for middleware in error_handling_middlewares()][:3]
    ['RepetitionGuard', 'ErrorTracking', 'TotalErrorThreshold']
    """
    calls, errors, total = max_consecutive_calls, max_consecutive_errors, max_total_errors
    return [
        RepetitionGuard(calls) if isinstance(calls, int) else calls,
        ErrorTracking(errors) if isinstance(errors, int) else errors,
        TotalErrorThreshold(total) if isinstance(total, int) else total,
        retry or FunctionRetry(),
        FunctionTimeout(timeout),
        ErrorFormatting(include_detailed_errors),
    ]
