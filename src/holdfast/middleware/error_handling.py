"""Six middlewares about errors at once, in an order that works.

It must never leave one out or add one: who wants others registers them beside these.
"""

from __future__ import annotations

from typing import Any

from holdfast.core.argument_checks import check_instance
from holdfast.core.limits import check_seconds
from holdfast.middleware.error_formatting import ErrorFormatting
from holdfast.middleware.error_tracking import ErrorTracking
from holdfast.middleware.function_retry import FunctionRetry
from holdfast.middleware.function_timeout import FunctionTimeout
from holdfast.middleware.hooks import Middleware
from holdfast.middleware.repetition_guard import RepetitionGuard
from holdfast.middleware.total_error_threshold import TotalErrorThreshold


def error_handling_middlewares(
    max_consecutive_calls: int = 5,
    max_consecutive_errors: int = 3,
    max_total_errors: int = 10,
    *,
    retry: FunctionRetry | None = None,
    timeout: float | None = None,
    include_detailed_errors: bool | None = None,
) -> list[Middleware[Any]]:
    """The six middlewares that handle errors and repetition; pass them as `middleware=`.

    Args:
        max_consecutive_calls: the equal call with this number does not run.
        max_consecutive_errors: iterations in a row in which a tool failed.
        max_total_errors: failed tools of one turn.
        retry: how tools are retried; the agent's settings by default.
        timeout: seconds for one attempt of a tool; the agent's setting by default, and else 30.
        include_detailed_errors: show the model what an exception says; the agent's setting by default.

    >>> [one.name for one in error_handling_middlewares()][:3]
    ['RepetitionGuard', 'ErrorTracking', 'TotalErrorThreshold']
    """
    check_seconds("timeout", timeout)
    check_instance("retry", retry, FunctionRetry, optional=True)
    return [
        RepetitionGuard(max_consecutive_calls),
        ErrorTracking(max_consecutive_errors),
        TotalErrorThreshold(max_total_errors),
        retry or FunctionRetry(),
        FunctionTimeout(timeout),
        ErrorFormatting(include_detailed_errors),
    ]
