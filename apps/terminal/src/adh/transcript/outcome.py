"""The outcome of a turn: one kind and one text.

The texts are those of the library, word for word. This module must never claim that something was done.
"""

from __future__ import annotations

import re
from enum import StrEnum

from msgspec import Struct

from holdfast import ErrorCategory, ErrorInfo, HoldfastError, LimitError, ProviderError, Status
from holdfast.calls import ResponseHandler
from holdfast.errors import (
    EmptyResponseError,
    FilteredError,
    RefusedError,
    ResponseError,
    ResponseValidationError,
    TransportError,
    TruncatedError,
    UnterminatedError,
)
from holdfast.middleware import escape_invisible


class OutcomeKind(StrEnum):
    """How a turn ended."""

    DONE = "done"
    EMPTY = "empty"
    WRONG_STRUCTURE = "wrong_structure"
    BLOCKED_BY_POLICY = "blocked_by_policy"
    REFUSED = "refused"
    FILTERED = "filtered"
    CUT = "cut"
    BROKEN_OFF = "broken_off"
    FAILED = "failed"
    CANCELLED = "cancelled"
    WAITING = "waiting"
    LIMIT = "limit"


class Outcome(Struct, frozen=True, kw_only=True):
    """The outcome of a turn.

    Args:
        kind: how it ended.
        text: the answer; of another kind, the event and the advice, for a person.
        error: the failure, if there was one.
        partial: the text of an answer that broke off.
        status: the status line, such as "❌ Error: ..."; empty for an answer.
    """

    kind: OutcomeKind
    text: str
    error: ErrorInfo | None = None
    partial: str = ""
    status: str = ""


STOPPED_TEXT = "Stopped. What was done until then stays."
WAITING_TEXT = "The turn waits for an answer. It continues with `adh --resume`."

UNSAVED_TEXT = (
    "The conversation cannot be saved, so the turn ended: {problem}\n\n"
    "Nothing runs that cannot be recorded. What was saved stays, and no tool runs twice. Once the problem is "
    "gone, send the message again."
)
UNSAVED_STATUS = "❌ Error: The conversation cannot be saved."
"""The text for a record that could not be saved: that has nothing to do with the model."""

LIMIT_ADVICE = "Begin another session, or raise session.token_limit in the settings."

_JOURNAL = "journal"
_STRUCTURE = re.compile(r"Invalid response structure: expected (.*), got (.*)", re.DOTALL)
_BY_CODE: dict[str, type[ResponseError]] = {
    "truncated": TruncatedError,
    "reply_limits": TruncatedError,
    "filtered": FilteredError,
    "refused": RefusedError,
    "unterminated": UnterminatedError,
}
_KINDS: tuple[tuple[type[HoldfastError], OutcomeKind], ...] = (
    (EmptyResponseError, OutcomeKind.EMPTY),
    (ResponseValidationError, OutcomeKind.WRONG_STRUCTURE),
    (FilteredError, OutcomeKind.FILTERED),
    (RefusedError, OutcomeKind.REFUSED),
    (TruncatedError, OutcomeKind.CUT),
    (UnterminatedError, OutcomeKind.BROKEN_OFF),
    (LimitError, OutcomeKind.LIMIT),
)


def make_exception(info: ErrorInfo) -> HoldfastError:
    """Return the exception that a saved failure stands for.

    >>> info = ErrorInfo(category=ErrorCategory.EMPTY_RESPONSE, safe="Empty response: no text")
    >>> make_exception(info)
    EmptyResponseError('Empty response: no text')
    """
    by_code = _BY_CODE.get((info.code or "").partition(".")[0])
    if by_code is not None:
        return by_code(info.safe, info=info)
    if info.category is ErrorCategory.LIMIT:
        return LimitError(info.safe, limit=info.code or "")
    if info.category is ErrorCategory.EMPTY_RESPONSE:
        return EmptyResponseError(info.safe.removeprefix("Empty response: "), info=info)
    if structure := _STRUCTURE.fullmatch(info.safe):
        return ResponseValidationError(*structure.groups(), info=info)
    if info.category is ErrorCategory.INVALID_RESPONSE:
        return ResponseError(info.safe, info=info)
    if info.category in (ErrorCategory.TRANSIENT, ErrorCategory.TIMEOUT):
        return TransportError(info.safe, info=info)
    return ProviderError(info.safe, info=info)


def describe_failure(info: ErrorInfo, partial: str = "") -> Outcome:
    """Return the outcome of a turn that failed.

    Args:
        info: the failure.
        partial: the text of the answer that broke off.
    """
    if info.code == _JOURNAL:
        return _describe_unsaved(info, partial)
    error = make_exception(info)
    kind = next((kind for cls, kind in _KINDS if isinstance(error, cls)), OutcomeKind.FAILED)
    result = ResponseHandler().result(error)
    text = info.safe if kind is OutcomeKind.LIMIT else result.user_message
    return Outcome(
        kind=kind,
        text=escape_invisible(text),
        error=info,
        partial=partial,
        status=escape_invisible(_status_line(error)),
    )


def _describe_unsaved(info: ErrorInfo, partial: str) -> Outcome:
    problem = info.safe.rstrip(".") + "."
    return Outcome(
        kind=OutcomeKind.FAILED,
        text=escape_invisible(UNSAVED_TEXT.format(problem=problem)),
        error=info,
        partial=partial,
        status=UNSAVED_STATUS,
    )


def describe_end(
    status: Status,
    info: ErrorInfo | None,
    text: str,
    partial: str = "",
    *,
    by_limit: bool = False,
) -> Outcome:
    """Return the outcome of a turn with this status.

    Args:
        status: how the turn was closed.
        info: the failure that it was closed with.
        text: the text of its last reply, or of the middleware that stopped it.
        partial: the text of a reply that broke off.
        by_limit: whether a limit of the session stopped it.
    """
    if by_limit:
        return Outcome(kind=OutcomeKind.LIMIT, text=f"{text} {LIMIT_ADVICE}", partial=partial)
    if status is Status.COMPLETED:
        return Outcome(kind=OutcomeKind.DONE, text=text)
    if status is Status.CANCELLED:
        return Outcome(kind=OutcomeKind.CANCELLED, text=STOPPED_TEXT, partial=partial)
    if status is Status.WAITING:
        return Outcome(kind=OutcomeKind.WAITING, text=WAITING_TEXT)
    if status is Status.STOPPED and info is None:
        blocked = f"⛔ Action blocked by policy: {text}"
        return Outcome(kind=OutcomeKind.BLOCKED_BY_POLICY, text=blocked, partial=partial)
    if info is None:
        info = ErrorInfo(category=ErrorCategory.UNKNOWN, safe=f"The turn ended as {status.value}.")
    return describe_failure(info, partial)


def _status_line(error: HoldfastError) -> str:
    if isinstance(error, EmptyResponseError):
        return f"⚠️ {error}"
    if isinstance(error, ResponseValidationError):
        return f"❌ {error}"
    return f"❌ Error: {error}"
