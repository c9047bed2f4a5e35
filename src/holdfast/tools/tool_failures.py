"""The failures of a call: why it cannot run, or the category of an exception and whether it may have taken effect.

The text of a call that cannot run quotes only the schema and the model's own arguments.
An exception of Holdfast has its own `ErrorInfo`; otherwise an HTTP status decides, then the table of
`tools.connection_failures`, and then the type. The `safe` text contains only the type's name.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Mapping, Sequence
from typing import cast

from msgspec import Struct
from msgspec.structs import replace

from holdfast.core.detached_errors import change_texts
from holdfast.core.errors import (
    ConfigurationError,
    ErrorCategory,
    ErrorInfo,
    HoldfastError,
    Landed,
    find_wrong_argument,
    read_error_info,
)
from holdfast.core.output import OutputRejected
from holdfast.core.problems import Problem
from holdfast.core.redaction import redact
from holdfast.tools.connection_failures import ConnectionFailure, find_connection_failure
from holdfast.tools.results import replace_surrogates

SEND_AGAIN = "Send the whole call again, with its arguments as one complete JSON object."


class RefusedCall(Struct, frozen=True):
    """Why a call cannot run: a text for the model, and a code."""

    text: str
    code: str


def refuse_unfinished(text: str) -> RefusedCall:
    """Return the refusal of a call whose reply was cut, so that its arguments may be incomplete."""
    end = f", after `{text[-60:]}`" if text else ""
    return RefusedCall(
        f"its arguments were cut off by the output limit{end}. {SEND_AGAIN} "
        "If they are long, make them shorter or split the work into several calls.",
        "unfinished_arguments",
    )


def refuse_arguments(problems: Sequence[Problem], more: int = 0) -> RefusedCall:
    """Return the refusal of a call with invalid arguments.

    Args:
        problems: the problems.
        more: how many problems there are beside these.
    """
    lines = "\n".join(f"- {problem}" for problem in problems)
    rest = f"\n- and {more} more" if more else ""
    return RefusedCall(
        f"its arguments are invalid:\n{lines}{rest}\nCorrect them and call it again.",
        "invalid_arguments",
    )


class ToolError(Exception):
    """Raise this in a tool to send a message to the model, which sees it unchanged.

    The call counts as failed and is not retried: the model decides about the next step. Every other
    exception is hidden from the model, because its text may hold secrets. (The name and the meaning
    are those of the MCP SDK.)

    >>> raise ToolError("No flights on that day. Try the day after.")
    Traceback (most recent call last):
    ...
    holdfast.tools.tool_failures.ToolError: No flights on that day. Try the day after.
    """

    def __init__(self, *texts: str) -> None:
        for text in texts:
            if (wrong := find_wrong_argument(type(self).__name__, text)) is not None:
                raise ConfigurationError(wrong[0], wrong[1], fix=wrong[2])
        super().__init__(*texts)


class ServiceFailedError(ToolError):
    """A service that a tool calls has answered with an error that may be temporary.

    The model sees the text, as that of any `ToolError`, once the call is not repeated: the status says
    whether it may be, and the effect of the tool.

    Args:
        text: the text for the model.
        status: the HTTP status.
        headers: the headers of the response, which may name a wait.
    """

    def __init__(self, text: str, status: int, headers: Mapping[str, str]) -> None:
        super().__init__(text)
        self.status_code = status
        self.headers = headers


_PROGRAMMING = (
    AssertionError,
    AttributeError,
    ImportError,
    IndexError,
    KeyError,
    MemoryError,
    NameError,
    NotImplementedError,
    RecursionError,
    StopAsyncIteration,
    StopIteration,
    SyntaxError,
    TypeError,
    ZeroDivisionError,
)
"""Errors in the code: the same call would fail again."""

_WRONG_FILE = (
    FileExistsError,
    FileNotFoundError,
    IsADirectoryError,
    NotADirectoryError,
    PermissionError,
)
"""Permanent errors of the file system."""

_MEANINGS = {
    ConnectionFailure.TIMED_OUT: (ErrorCategory.TIMEOUT, Landed.UNKNOWN),
    ConnectionFailure.LOST: (ErrorCategory.TRANSIENT, Landed.UNKNOWN),
    ConnectionFailure.NOT_SENT: (ErrorCategory.TRANSIENT, Landed.NO),
}

_BY_STATUS = {
    401: ErrorCategory.AUTH_ERROR,
    402: ErrorCategory.RATE_LIMIT_TERMINAL,
    403: ErrorCategory.AUTH_ERROR,
    408: ErrorCategory.TIMEOUT,
    425: ErrorCategory.TRANSIENT,
    429: ErrorCategory.RATE_LIMIT_RETRYABLE,
    503: ErrorCategory.TRANSIENT,
    504: ErrorCategory.TIMEOUT,
}
_QUOTA = re.compile(
    r"insufficient_quota|exceeded your current quota|quota has been exceeded", re.IGNORECASE
)
_STATUS_IN_TEXT = re.compile(r"Status:\s{0,5}([45]\d\d)\b|\(([45]\d\d)\)", re.IGNORECASE)
_LONGEST_TEXT = 4_000


def failure_info(error: BaseException, name: str) -> ErrorInfo:
    """Classify an exception that the tool `name` raised.

    >>> failure_info(ConnectionResetError(), "pay").category.value
    'transient'
    >>> failure_info(KeyError("amount"), "pay").category.is_retryable
    False
    """
    if isinstance(error, HoldfastError):
        info = read_error_info(error)
        if isinstance(error, ConfigurationError) and info.landed is Landed.NO:
            # The call that it is about did nothing; the tool may have.
            info = replace(info, landed=Landed.UNKNOWN)
        return change_texts(info, redact)  # the tool may have built it from any text
    text = error_text(error)
    category, landed, status = _classify_error(error, text)
    kind = type(error).__name__
    return ErrorInfo(
        category=category,
        landed=landed,
        retry_after=_find_retry_after(error, category, text),
        safe=f"Function '{name}' failed with {kind}.",
        private=redact(f"{kind}: {text}")[:_LONGEST_TEXT],
        status=status,
        code=kind,
    )


def is_for_model(error: BaseException) -> bool:
    """Whether an exception is the result of its call, which the model reads and which is not repeated."""
    is_result = isinstance(error, ToolError | OutputRejected)
    return is_result and not isinstance(error, ServiceFailedError)


def error_text(error: BaseException) -> str:
    """Return `str(error)` without unpaired surrogates; a fixed text if `__str__` raises."""
    try:
        return replace_surrogates(str(error))
    except Exception:  # noqa: BLE001  # REASON: __str__ is the user's code
        return "(its text cannot be read)"


def _classify_error(error: BaseException, text: str) -> tuple[ErrorCategory, Landed, int | None]:
    if isinstance(error, BaseExceptionGroup):
        return _classify_group(error)
    if is_for_model(error):
        return ErrorCategory.CLIENT_ERROR, Landed.UNKNOWN, None
    status = _find_status(error)
    lost = find_connection_failure(error)
    if status is None:
        if (meaning := _classify_type(error, lost)) is not None:
            return *meaning, None
        if match := _STATUS_IN_TEXT.search(text[:_LONGEST_TEXT]):
            status = int(match[1] or match[2])
    if status is None:
        return ErrorCategory.UNKNOWN, Landed.UNKNOWN, None
    category = _classify_status(status, text)
    # A 4xx status proves that the request had no effect, except 408, or if an earlier one got none.
    rejected = 400 <= status < 500 and status != 408 and not (lost is not None and lost.is_in_doubt)
    return category, Landed.NO if rejected else Landed.UNKNOWN, status


def _classify_group(
    group: BaseExceptionGroup[BaseException],
) -> tuple[ErrorCategory, Landed, int | None]:
    """Classify an exception group; it is retryable only if all its members are."""
    members = [_classify_error(member, error_text(member)) for member in group.exceptions]
    worst = min(members, key=lambda meaning: meaning[0].is_retryable)
    landed = {meaning[1] for meaning in members}
    return worst[0], Landed.NO if landed == {Landed.NO} else Landed.UNKNOWN, worst[2]


def _classify_type(
    error: BaseException, lost: ConnectionFailure | None
) -> tuple[ErrorCategory, Landed] | None:
    if isinstance(error, _PROGRAMMING) or _is_iterator_exhausted(error):
        return ErrorCategory.PROGRAMMING, Landed.UNKNOWN
    if lost is not None:
        return _MEANINGS[lost]
    if isinstance(error, _WRONG_FILE):
        return ErrorCategory.CLIENT_ERROR, Landed.UNKNOWN
    return None


def _is_iterator_exhausted(error: BaseException) -> bool:
    """Whether a coroutine raised StopIteration, which Python turns into a RuntimeError."""
    return isinstance(error, RuntimeError) and isinstance(
        error.__cause__, StopIteration | StopAsyncIteration
    )


def _classify_status(status: int, text: str) -> ErrorCategory:
    if status == 429 and _QUOTA.search(text[:_LONGEST_TEXT]):
        return ErrorCategory.RATE_LIMIT_TERMINAL
    if (category := _BY_STATUS.get(status)) is not None:
        return category
    if 400 <= status < 500:
        return ErrorCategory.CLIENT_ERROR
    return ErrorCategory.SERVER_ERROR if status >= 500 else ErrorCategory.UNKNOWN


def _read_attribute(holder: object, attribute: str) -> object:
    """Return an attribute of a foreign object, whose properties may raise."""
    try:
        return getattr(holder, attribute, None)
    except Exception:  # noqa: BLE001  # REASON: a property is the user's code
        return None


def _find_status(error: BaseException) -> int | None:
    """Return the HTTP status of an exception of an HTTP client or a vendor's SDK."""
    response = _read_attribute(error, "response")
    for holder, attribute in (
        (error, "status_code"),
        (error, "status"),
        (error, "code"),
        (response, "status_code"),
        (response, "status"),
    ):
        value = _read_attribute(holder, attribute)
        if isinstance(value, int) and not isinstance(value, bool) and 300 <= value <= 599:
            return int(value)
    return None


def _find_retry_after(error: BaseException, category: ErrorCategory, text: str) -> float | None:
    if not category.is_retryable:
        return None
    seconds = _read_attribute(error, "retry_after")
    # 0 names no wait, so the headers are read.
    if isinstance(seconds, int | float) and not isinstance(seconds, bool) and seconds != 0:
        return float(seconds) if math.isfinite(seconds) and seconds > 0 else None
    headers = _read_headers(_read_attribute(error, "headers")) or _read_headers(
        _read_attribute(_read_attribute(error, "response"), "headers")
    )
    if not headers:
        return None
    # Imported here because the module compiles many patterns.
    from holdfast.codecs.retry_after import parse_requested_wait

    return parse_requested_wait(headers, text=text, now=time.time())


def _read_headers(headers: object) -> dict[str, str]:
    items = _read_attribute(headers, "items")
    if not isinstance(headers, Mapping) and not callable(items):
        return {}
    try:
        pairs = list(cast("Mapping[object, object]", headers).items())[:200]
        return {str(name).lower(): str(value) for name, value in pairs}
    except Exception:  # noqa: BLE001  # REASON: the object is not ours
        return {}
