"""The texts that a person reads during and after a call.

The status lines are for a person who waits for the answer; an exception of their callback is logged and does not affect
the answer, and the work for one status never grows with the length of the answer.
The generic text mentions the internet connection only if the connection failed; otherwise its last
line depends on the category. A reply that was blocked, refused or cut has its own advice, because
rephrasing the question does not help. This module never shows a text that was not redacted.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeAlias

from holdfast.calls.caught_error import ErrorCatcher
from holdfast.calls.foreign_fields import redact_exception
from holdfast.core.errors import (
    EmptyResponseError,
    ErrorCategory,
    ErrorInfo,
    FilteredError,
    RefusedError,
    ResponseValidationError,
    TruncatedError,
    UnterminatedError,
)
from holdfast.core.redaction import redact

StatusCallback: TypeAlias = Callable[[str], object]

PreviewCallback: TypeAlias = Callable[[object], object]
"""Called with a preview of a typed answer: one object that grows, and None when it became invalid."""

SENDING = "⏳ Sending message to AI..."
_SHOWN = 50
_LONGEST = 2_000

logger = logging.getLogger(__name__)

TASK_COMPLETED = "Task completed using available tools."
"""The text for a whole response with only tool calls."""

ANALYSIS_COMPLETE = "Analysis complete using available tools."
"""The text for a stream with only tool calls and without results."""


class StatusLine:
    r"""Calls a callback with each status: one for each piece of text and each tool.

    Args:
        callback: called with each status, or None.

    >>> said = []
    >>> line = StatusLine(said.append)
    >>> line.show_text("Hello,\n"); line.show_text("world"); line.show_tool("search")
    >>> said
    ['💭 Hello, ', '💭 Hello, world', '🔧 Using search...']
    """

    __slots__ = ("_beginning", "_is_full", "callback")

    def __init__(self, callback: StatusCallback | None) -> None:
        self.callback = callback
        self._beginning = ""
        self._is_full = False

    def show_text(self, piece: str) -> None:
        """Add text, and show the beginning of the whole text."""
        if self.callback is None:
            return
        if not self._is_full:
            self._beginning += piece[: _SHOWN + 1 - len(self._beginning)]
            self._is_full = len(self._beginning) > _SHOWN
        preview = self._beginning[:_SHOWN].replace("\n", " ")
        self.show_status(f"💭 {preview}..." if self._is_full else f"💭 {preview}")

    def show_tool(self, name: str) -> None:
        """Show that the model uses a tool."""
        self.show_status(f"🔧 Using {name}...")

    def show_status(self, status: str) -> None:
        """Show this status."""
        if self.callback is None:
            return
        with ErrorCatcher() as caught:
            self.callback(status)
        if caught.error is not None:
            kind = type(caught.error).__name__
            logger.warning("A status callback raised %s: %s", kind, redact_exception(caught.error))


def executed_text(tool: str) -> str:
    """Return the text for a stream with only tool calls and the result of the last one."""
    return f"Analysis complete. Executed {tool} successfully."


def status_text(error: BaseException) -> str:
    """Return the status line of a failure.

    >>> status_text(EmptyResponseError("no candidates in response"))
    '⚠️ Empty response: no candidates in response'
    """
    message = _redacted_message(error)
    if isinstance(error, EmptyResponseError):
        return f"⚠️ {message}"
    if isinstance(error, ResponseValidationError):
        return f"❌ {message}"
    return f"❌ Error: {message}"


def failure_text(error: BaseException, info: ErrorInfo, reason: str = "", partial: str = "") -> str:
    """Return the whole message for a person.

    Args:
        error: the exception that ended the call.
        info: the classified error.
        reason: the wire's name of the finish reason, or "".
        partial: the text that came before the failure.
    """
    text = _failure_text(error, info, reason)
    if not partial.strip():
        return text
    return f"{text}\n\nThe part of the answer that was received before:\n{partial}"


def _failure_text(error: BaseException, info: ErrorInfo, reason: str) -> str:
    match error:
        case EmptyResponseError():
            return _empty_text(error)
        case ResponseValidationError():
            return _invalid_text(error)
        case FilteredError():
            return _blocked_text(reason)
        case RefusedError():
            return _REFUSED
        case TruncatedError():
            return _TRUNCATED
        case UnterminatedError():
            return _UNTERMINATED
        case _:
            return _generic_text(error, info)


def _empty_text(error: EmptyResponseError) -> str:
    return (
        "The AI returned an empty response. This can happen if:\n"
        "• The request was unclear or too complex\n"
        "• The model encountered an internal error\n"
        "• Rate limiting or quota issues\n\n"
        "Please try:\n"
        "• Rephrasing your request more clearly\n"
        "• Breaking complex requests into smaller steps\n"
        f"\nTechnical details: {redact(error.reason)}"
    )


def _invalid_text(error: ResponseValidationError) -> str:
    return (
        "Received an unexpected response format from the AI.\n"
        f"Expected: {redact(error.expected)}\n"
        f"Got: {redact(error.got)}\n\n"
        "This may be a temporary API issue. Please try again."
    )


def _generic_text(error: BaseException, info: ErrorInfo) -> str:
    return (
        "An error occurred while communicating with the AI:\n"
        f"{type(error).__name__}: {_redacted_message(error)}\n\n"
        f"{_choose_advice(info)}"
    )


def _blocked_text(reason: str) -> str:
    cause, advice = _BLOCKED.get(reason.upper(), _BY_ANY_FILTER)
    lines = "\n".join(f"• {line}" for line in advice)
    details = f"\n\nTechnical details: {reason}" if reason else ""
    return (
        f"The AI did not answer: {cause}.\n"
        "Sending the same request again will not help.\n\n"
        f"Please try:\n{lines}{details}"
    )


def _choose_advice(info: ErrorInfo) -> str:
    if info.status is None and info.category in _CONNECTION:
        return "Please check your internet connection and try again."
    return _ADVICE.get(info.category, _REPORT)


def _redacted_message(error: BaseException) -> str:
    return redact_exception(error)[:_LONGEST]


_CONNECTION = (ErrorCategory.TRANSIENT, ErrorCategory.TIMEOUT)
_REPORT = "Please try again. If it happens again, report the error above."
_LATER = "The AI service has a problem. Please try again in a moment."
_ADVICE: dict[ErrorCategory, str] = {
    ErrorCategory.TRANSIENT: _LATER,
    ErrorCategory.SERVER_ERROR: _LATER,
    ErrorCategory.TIMEOUT: "The AI service took too long. Please try again.",
    ErrorCategory.RATE_LIMIT_RETRYABLE: "Too many requests were sent. Please wait, then try again.",
    ErrorCategory.RATE_LIMIT_TERMINAL: "The quota is used up. Please check the plan and the billing.",
    ErrorCategory.AUTH_ERROR: "Please check the API key and its permissions.",
    ErrorCategory.CONTEXT_WINDOW: "The conversation is too long. Please shorten it or begin anew.",
    ErrorCategory.MODEL_NOT_FOUND: "Please check the name of the model.",
    ErrorCategory.CLIENT_ERROR: "The request must change before it can succeed.",
    ErrorCategory.CONTENT_FILTERED: "The request was blocked. Please change it.",
    ErrorCategory.INVALID_RESPONSE: "The model's answer was malformed. Please try again.",
}
_REFUSED = (
    "The AI declined to answer this request.\n"
    "Sending the same request again will not help.\n\n"
    "Please try:\n"
    "• Explaining the purpose of the request\n"
    "• Asking for something similar that is allowed"
)
_TRUNCATED = (
    "The answer was cut because it reached the output limit.\n\n"
    "Please try:\n"
    "• Asking for a shorter answer\n"
    "• Breaking the request into smaller steps\n"
    "• Raising the output limit"
)
_UNTERMINATED = (
    "The answer stopped before its end: the connection or the AI service cut it.\n\n"
    "Please try again."
)
_CHANGE = (
    "Removing content that may be considered harmful or private",
    "Rephrasing the request",
)
_BY_ANY_FILTER = ("a content filter blocked the request or the answer", _CHANGE)
_BLOCKED: dict[str, tuple[str, tuple[str, ...]]] = {
    "SAFETY": ("a safety filter blocked the request or the answer", _CHANGE),
    "PROHIBITED_CONTENT": (
        "the request or the answer contains content that is not allowed",
        ("Asking for something else",),
    ),
    "BLOCKLIST": (
        "the request or the answer contains a blocked word",
        ("Removing or replacing that word",),
    ),
    "SPII": (
        "the answer would have contained personal data",
        ("Removing names, addresses and numbers of people from the request",),
    ),
    "RECITATION": (
        "the answer would have repeated a published text too closely",
        ("Asking for a summary or a paraphrase",),
    ),
    "LANGUAGE": (
        "the model does not support the language of the request",
        ("Asking in another language",),
    ),
}
