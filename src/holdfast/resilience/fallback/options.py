"""The options of fallback: the targets, and the failures for which the next one is asked."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from msgspec import Struct

from holdfast.core.errors import ErrorCategory

ELSEWHERE: frozenset[ErrorCategory] = frozenset(
    {
        ErrorCategory.UNKNOWN,
        ErrorCategory.TRANSIENT,
        ErrorCategory.TIMEOUT,
        ErrorCategory.SERVER_ERROR,
        ErrorCategory.RATE_LIMIT_RETRYABLE,
        ErrorCategory.RATE_LIMIT_TERMINAL,
        ErrorCategory.AUTH_ERROR,
        ErrorCategory.MODEL_NOT_FOUND,
        ErrorCategory.EMPTY_RESPONSE,
        ErrorCategory.INVALID_RESPONSE,
        ErrorCategory.CONTEXT_WINDOW,
    }
)
"""Failures that another model may not have."""


class FallbackTarget(Struct, frozen=True):
    """Another target to ask.

    Args:
        name: for records and errors, such as "anthropic:claude-sonnet-4-5".
        operation: asks it; the strategies of this target are wrapped around it already.
        model: put into the payload's field `model`; None leaves the payload alone.
    """

    name: str
    operation: Callable[..., Awaitable[object]]
    model: str | None = None
