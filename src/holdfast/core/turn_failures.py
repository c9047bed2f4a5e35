"""The meaning of a failure for the turn and for the message of the user.

A failure closes a turn during recovery when it is about the turn itself: the same request would be
refused again. A failure of the provider, of the configuration or of the agent's own code leaves the
turn open, and a later recovery continues it. A failure that refuses the message keeps it from being
sent again.
"""

from __future__ import annotations

from holdfast.core.error_info import ErrorCategory, ErrorInfo, Landed
from holdfast.core.limits import Limits, limit_text
from holdfast.core.messages import Opaque, Reply

TURN_CANCELLED = ErrorInfo(
    category=ErrorCategory.CANCELLED, safe="The turn was cancelled.", code="cancelled"
)
"""The error of a turn that was cancelled."""

TURN_IMPORTED = ErrorInfo(
    category=ErrorCategory.CANCELLED,
    safe="The turn had not ended when its session was imported, and does not continue.",
    code="imported",
)
"""The error of a turn that was open when its session was imported."""

INTERRUPTIONS = {"cancelled": TURN_CANCELLED, "imported": TURN_IMPORTED}
"""The error of a turn that was interrupted, by the reason; a deadline is a limit."""

CUT_CALL = "cut_call"
"""The code of the error of a call that the output limit has cut twice."""

CLOSES: dict[ErrorCategory, bool] = {
    # An outage or temporary load. The retries of this recovery were not enough.
    ErrorCategory.TRANSIENT: False,
    ErrorCategory.TIMEOUT: False,
    ErrorCategory.SERVER_ERROR: False,
    ErrorCategory.RATE_LIMIT_RETRYABLE: False,
    ErrorCategory.EMPTY_RESPONSE: False,
    ErrorCategory.INVALID_RESPONSE: False,
    ErrorCategory.UNKNOWN: False,
    # The account or the deployment has to change.
    ErrorCategory.RATE_LIMIT_TERMINAL: False,
    ErrorCategory.AUTH_ERROR: False,
    ErrorCategory.MODEL_NOT_FOUND: False,
    # The code of the agent has to change: a hook, a validator or a model object raised.
    ErrorCategory.PROGRAMMING: False,
    # The turn itself: its request, its length, its content.
    ErrorCategory.CLIENT_ERROR: True,
    ErrorCategory.CONTEXT_WINDOW: True,
    ErrorCategory.CONTENT_FILTERED: True,
    ErrorCategory.TRUNCATED: True,
    ErrorCategory.LIMIT: True,
    ErrorCategory.CANCELLED: True,
}
"""Whether a failure of this category ends the turn, unless one of the tables below says otherwise."""

CLOSES_BY_CODE: dict[tuple[ErrorCategory, str], bool] = {
    (ErrorCategory.CLIENT_ERROR, "configuration"): False,
    (ErrorCategory.CLIENT_ERROR, "bad_url"): False,
    (ErrorCategory.CLIENT_ERROR, "bad_header"): False,
    (ErrorCategory.CLIENT_ERROR, "tls"): False,
    (ErrorCategory.CLIENT_ERROR, "journal"): False,
    (ErrorCategory.CLIENT_ERROR, "busy"): False,
    # No retries of the output are left: `core.output_retries.output_error_info`.
    (ErrorCategory.INVALID_RESPONSE, "output"): True,
}
"""Failures that were found locally, without a response of a provider."""

ABSENT_ENDPOINT = frozenset({*range(300, 400), 404, 405, 410, 421, 426, 501, 505})
"""Statuses of a CLIENT_ERROR that mean a wrong base URL: no model is served at this address."""


def closes_turn(error: ErrorInfo) -> bool:
    """Whether this failure ends a turn that is being recovered.

    >>> closes_turn(ErrorInfo(category=ErrorCategory.AUTH_ERROR, safe="openai: 401 bad key"))
    False
    >>> closes_turn(ErrorInfo(category=ErrorCategory.CONTENT_FILTERED, safe="openai: filtered"))
    True
    """
    if error.category is ErrorCategory.CLIENT_ERROR and error.status in ABSENT_ENDPOINT:
        return False
    default = CLOSES[error.category]
    if error.status is not None or error.code is None:
        return default
    return CLOSES_BY_CODE.get((error.category, error.code), default)


def refuses_request(error: ErrorInfo, partial: Reply | None) -> bool:
    """Whether a provider's filter refused the request itself, and not the text of the model.

    Some providers say so with an error response, others with a reply that holds nothing.

    Args:
        error: the error of the model call.
        partial: the part of the reply that arrived.

    >>> refuses_request(ErrorInfo(category=ErrorCategory.CONTENT_FILTERED, safe="no", status=400), None)
    True
    >>> from holdfast.core.messages import Text
    >>> written = Reply((Text("First, "),))
    >>> cut = ErrorInfo(category=ErrorCategory.CONTENT_FILTERED, safe="no", code="filtered")
    >>> refuses_request(cut, written), refuses_request(cut, None)
    (False, True)
    """
    if error.category is not ErrorCategory.CONTENT_FILTERED:
        return False
    if error.status is not None or partial is None:
        return True
    return all(isinstance(part, Opaque) for part in partial.parts)


_ABOUT_THE_MESSAGE = frozenset(
    {ErrorCategory.CLIENT_ERROR, ErrorCategory.CONTEXT_WINDOW, ErrorCategory.CONTENT_FILTERED}
)


def refuses_message(error: ErrorInfo) -> bool:
    """Whether this failure says that a model will not accept the user's message.

    It is too long, it has content that the provider filters, or it has a part that the provider
    cannot read. An outage, a wrong key, a limit and a cancellation say nothing about the message.

    >>> refuses_message(ErrorInfo(category=ErrorCategory.CONTENT_FILTERED, safe="openai: filtered"))
    True
    >>> refuses_message(ErrorInfo(category=ErrorCategory.LIMIT, safe="10 iterations"))
    False
    """
    return error.category in _ABOUT_THE_MESSAGE and closes_turn(error)


def parked_error_info(why: str) -> ErrorInfo:
    """Return the error of a turn that a queue has parked: it is not begun again by itself.

    Args:
        why: the reason of the queue.
    """
    return ErrorInfo(category=ErrorCategory.PROGRAMMING, safe=why, code="parked")


def limit_error_info(limits: Limits, name: str, waited_for: str = "") -> ErrorInfo:
    """Return the error of a turn that has reached one of its limits.

    Args:
        limits: the limits of the turn.
        name: the limit that is reached.
        waited_for: which server was silent.
    """
    safe = f"{limit_text(limits, name)} {waited_for}".rstrip()
    return ErrorInfo(category=ErrorCategory.LIMIT, safe=safe, code=name, landed=Landed.NO)
