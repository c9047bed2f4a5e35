"""Decides what counts as a failed tool, for the middlewares that count failures.

The result of a failed tool has `is_error`, so its text need not be searched. Searching the text is for
tools that return "Error: ..." as a normal result. A search result that mentions a rate limit would
count too, so this must never be the default.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from holdfast.core.events import ToolFinished
from holdfast.core.messages import ToolResult

Detector: TypeAlias = Callable[[ToolResult], bool]
"""Whether a result counts as a failure. The function must be pure."""

NOT_FAILURES = frozenset({"denied", "stopped"})

_STARTS = ("error:", "failed:")
_PHRASES = (
    "exception occurred",
    "unhandled exception",
    "exception was thrown",
    "rate limit exceeded",
    "rate limited",
    "quota exceeded",
    "quota reached",
)


def is_error_result(result: ToolResult) -> bool:
    """Whether the result is marked as an error."""
    return result.is_error


def looks_like_error(result: ToolResult) -> bool:
    """Whether the result is marked as an error, or reads like one.

    >>> from holdfast.core.messages import Text
    >>> looks_like_error(ToolResult("1", "f", (Text("FAILED: no route"),)))
    True
    """
    if result.is_error:
        return True
    text = result.text.lower()
    return text.startswith(_STARTS) or any(phrase in text for phrase in _PHRASES)


def is_failure(event: ToolFinished, detector: Detector) -> bool:
    """Whether the call failed. A denied call did not, and a call that its reply has twice fails once."""
    if event.same_as:
        return False
    if detector is is_error_result and not event.result.is_error:
        return False
    if event.error is not None and event.error.code in NOT_FAILURES:
        return False
    return detector(event.result)
