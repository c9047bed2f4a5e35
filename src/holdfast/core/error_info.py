"""The details of a failure, as a value: its category, whether it landed, when to try again.

`landed` says whether the request may have taken effect. `private` holds details for logs and must
never enter a message, an event, a notice or a `repr`.
"""

from __future__ import annotations

import math
from enum import StrEnum

import msgspec
from msgspec import Struct
from msgspec.structs import force_setattr


class ErrorCategory(StrEnum):
    """The kind of a failure; it alone decides whether a retry is made."""

    UNKNOWN = "unknown"
    TRANSIENT = "transient"
    TIMEOUT = "timeout"
    RATE_LIMIT_RETRYABLE = "rate_limit_retryable"
    RATE_LIMIT_TERMINAL = "rate_limit_terminal"
    CLIENT_ERROR = "client_error"
    AUTH_ERROR = "auth_error"
    CONTEXT_WINDOW = "context_window"
    SERVER_ERROR = "server_error"
    MODEL_NOT_FOUND = "model_not_found"
    EMPTY_RESPONSE = "empty_response"
    INVALID_RESPONSE = "invalid_response"
    CONTENT_FILTERED = "content_filtered"
    TRUNCATED = "truncated"
    PROGRAMMING = "programming"
    LIMIT = "limit"
    CANCELLED = "cancelled"

    @property
    def is_retryable(self) -> bool:
        """Whether the same call may succeed later.

        UNKNOWN counts as retryable for a tool, and it is the category that an unclassified exception of a tool
        gets; the wires never answer UNKNOWN for a refusal.
        """
        return self in _RETRYABLE


_RETRYABLE = frozenset(
    {
        ErrorCategory.UNKNOWN,
        ErrorCategory.TRANSIENT,
        ErrorCategory.TIMEOUT,
        ErrorCategory.RATE_LIMIT_RETRYABLE,
        ErrorCategory.SERVER_ERROR,
        ErrorCategory.EMPTY_RESPONSE,
        ErrorCategory.INVALID_RESPONSE,
    }
)


ADVICE: dict[ErrorCategory, str] = {
    ErrorCategory.TRANSIENT: "This is usually temporary: try again in a moment.",
    ErrorCategory.TIMEOUT: "Try again, or allow more time.",
    ErrorCategory.RATE_LIMIT_RETRYABLE: "Wait, send fewer requests at once, or ask the provider for a higher limit.",
    ErrorCategory.RATE_LIMIT_TERMINAL: "Waiting does not help: check the plan and the billing.",
    ErrorCategory.AUTH_ERROR: "Check the API key and its permissions.",
    ErrorCategory.CONTEXT_WINDOW: "Shorten the conversation, or use a model with a larger context window.",
    ErrorCategory.SERVER_ERROR: "The provider has an internal error: try again in a moment.",
    ErrorCategory.MODEL_NOT_FOUND: "Check the model's name and that your account can use it.",
    ErrorCategory.EMPTY_RESPONSE: "Try again, or rephrase the request.",
    ErrorCategory.INVALID_RESPONSE: "Try again; if the error persists, check the base URL.",
    ErrorCategory.CONTENT_FILTERED: "Trying again does not help: change the request.",
    ErrorCategory.TRUNCATED: "Raise the output limit, or ask for less at once.",
    ErrorCategory.CLIENT_ERROR: "The request itself must change before it can succeed.",
    ErrorCategory.LIMIT: "Raise the limit if the work needs it.",
}
"""The advice to a user for a failure of each category."""


class Landed(StrEnum):
    """Whether the operation may have taken effect: NO means certainly not, UNKNOWN that it might."""

    NO = "no"
    UNKNOWN = "unknown"


class ErrorInfo(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The details of one failure, as a value.

    `safe` may be shown to a user; `private` is redacted text for logs only. `retry_after` is the wait
    in seconds that the provider asked for, or None. `code` is the provider's most specific code, and
    `type` the type that it names beside the code.
    """

    category: ErrorCategory
    safe: str
    landed: Landed = Landed.UNKNOWN
    retry_after: float | None = None
    private: str = ""
    status: int | None = None
    code: str | None = None
    request_id: str | None = None
    provider: str | None = None
    type: str | None = None

    def __post_init__(self) -> None:
        for name, kinds, wanted in _FIELDS:
            value = getattr(self, name)
            if not isinstance(value, kinds):
                got = type(value).__name__
                raise TypeError(f"ErrorInfo.{name} must be {wanted}, got {got}")
            if wanted in _TEXTS and isinstance(value, str) and type(value) is not str:
                force_setattr(self, name, str.__str__(value))  # an event holds plain texts only
        if self.status is not None:
            force_setattr(self, "status", int(self.status))
        wait = self.retry_after
        if wait is not None and (not math.isfinite(wait) or wait < 0):
            raise ValueError("retry_after must be a finite number of seconds, at least 0")

    def to_public(self) -> ErrorInfo:
        """Return it without the private half: the only form that events and notices may carry."""
        return msgspec.structs.replace(self, private="") if self.private else self

    def __repr__(self) -> str:
        names = ("status", "code", "type", "retry_after", "request_id", "provider")
        known = [f"category={self.category.value}", f"landed={self.landed.value}"]
        known += [
            f"{name}={value!r}" for name in names if (value := getattr(self, name)) is not None
        ]
        return f"ErrorInfo({', '.join(known)}, safe={self.safe!r})"


_TEXTS = ("a text", "a text or None")
_TEXT_OR_NONE = (str, type(None))
_FIELDS: tuple[tuple[str, type | tuple[type, ...], str], ...] = (
    ("safe", str, "a text"),
    ("private", str, "a text"),
    ("category", ErrorCategory, "an ErrorCategory, such as ErrorCategory.TRANSIENT"),
    ("landed", Landed, "Landed.NO or Landed.UNKNOWN"),
    ("retry_after", (int, float, type(None)), "a number of seconds or None"),
    ("status", (int, type(None)), "an HTTP status or None"),
    *(
        (name, _TEXT_OR_NONE, "a text or None")
        for name in ("code", "request_id", "provider", "type")
    ),
)
