"""What a person reads when a call came to nothing.

The last line of the generic text blames the internet connection only when the connection failed, and
otherwise says what fits. A reply that was blocked, refused or cut gets advice of its own, because to
rephrase a question does not help there. This module must never show a text that was not redacted.
"""

from __future__ import annotations

from holdfast.calls.caught_error import exception_text
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

_LONGEST = 2_000

TASK_COMPLETED = "Task completed using available tools."
"""A whole response that holds nothing but calls of tools."""

ANALYSIS_COMPLETE = "Analysis complete using available tools."
"""A stream that held nothing but calls of tools, when no result of theirs was seen."""


def executed_text(tool: str) -> str:
    """A stream that held nothing but calls of tools, when the result of the last one was seen."""
    return f"Analysis complete. Executed {tool} successfully."


def status_text(error: BaseException) -> str:
    """The status line of a failure.

    >>> status_text(EmptyResponseError("no candidates in response"))
    '⚠️ Empty response: no candidates in response'
    """
    said = _redacted_message(error)
    if isinstance(error, EmptyResponseError):
        return f"⚠️ {said}"
    if isinstance(error, ResponseValidationError):
        return f"❌ {said}"
    return f"❌ Error: {said}"


def failure_text(error: BaseException, info: ErrorInfo, reason: str = "", partial: str = "") -> str:
    """The whole message for a person.

    Args:
        error: what ended the call.
        info: what is known about it.
        reason: the wire's own word for why the reply ended, or "".
        partial: the text that came before.
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
    what, advice = _BLOCKED.get(reason.upper(), _BY_ANY_FILTER)
    lines = "\n".join(f"• {line}" for line in advice)
    details = f"\n\nTechnical details: {reason}" if reason else ""
    return (
        f"The AI did not answer: {what}.\n"
        "Sending the same request again will not help.\n\n"
        f"Please try:\n{lines}{details}"
    )


def _choose_advice(info: ErrorInfo) -> str:
    if info.status is None and info.category in _CONNECTION:
        return "Please check your internet connection and try again."
    return _ADVICE.get(info.category, _REPORT)


def _redacted_message(error: BaseException) -> str:
    return redact(exception_text(error)[:_LONGEST])


_CONNECTION = (ErrorCategory.TRANSIENT, ErrorCategory.TIMEOUT)
_REPORT = "Please try again. If it happens again, report the error above."
_LATER = "The AI service has a problem. Please try again in a moment."
_ADVICE: dict[ErrorCategory, str] = {
    ErrorCategory.TRANSIENT: _LATER,
    ErrorCategory.SERVER_ERROR: _LATER,
    ErrorCategory.TIMEOUT: "The AI service took too long. Please try again.",
    ErrorCategory.RATE_LIMIT_RETRYABLE: "Too many requests were sent. Please wait, then try again.",
    ErrorCategory.RATE_LIMIT_TERMINAL: "The quota is used up. Please check the plan and the billing.",
    ErrorCategory.AUTH_ERROR: "Please check the API key and what it is allowed to use.",
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
    "• Saying what the answer is for\n"
    "• Asking for something that is near to it and allowed"
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
    "Removing what may be taken for harmful or private",
    "Putting the request in other words",
)
_BY_ANY_FILTER = ("a content filter blocked the request or the answer", _CHANGE)
_BLOCKED: dict[str, tuple[str, tuple[str, ...]]] = {
    "SAFETY": ("a safety filter blocked the request or the answer", _CHANGE),
    "PROHIBITED_CONTENT": (
        "the request or the answer holds content that is not allowed",
        ("Asking for something else",),
    ),
    "BLOCKLIST": (
        "the request or the answer holds a word that is on a list of blocked words",
        ("Leaving out or replacing that word",),
    ),
    "SPII": (
        "the answer would have held personal data",
        ("Removing names, addresses and numbers of people from the request",),
    ),
    "RECITATION": (
        "it would have repeated a published text too closely",
        ("Asking for a summary, or for an answer in other words",),
    ),
    "LANGUAGE": (
        "the model does not support the language of the request",
        ("Asking in another language",),
    ),
}
