"""Classifies the exception of a call by the user's function or by the rules for known clients.

If the user's function raises or returns something else than an ErrorInfo, the problem is logged and
the rules for known clients apply.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeAlias

import msgspec

from holdfast.calls import sdk_errors
from holdfast.core.argument_checks import check_arguments
from holdfast.core.detached_errors import detach_for_log
from holdfast.core.errors import ErrorCategory, ErrorInfo
from holdfast.resilience.clock import Clock

Classify: TypeAlias = Callable[[Exception], ErrorInfo]

_log = logging.getLogger("holdfast")


def classify_exception(error: Exception, classify: Classify | None, clock: Clock) -> ErrorInfo:
    """Classify an exception: first by `classify` if there is one, then by the rules for known clients."""
    if classify is not None and (info := _classify_by_user(classify, error)) is not None:
        return info
    return sdk_errors.classify(error, now=clock.now())


def _classify_by_user(
    classify: Callable[[Exception], object], error: Exception
) -> ErrorInfo | None:
    try:
        info = classify(error)
    except Exception as raised:  # noqa: BLE001  # REASON: the user's hook; the original exception counts
        _log.error("classify raised; its result is ignored", exc_info=detach_for_log(raised))
        return None
    if isinstance(info, ErrorInfo):
        return info
    _log.error("classify returned a %s instead of an ErrorInfo", type(info).__name__)
    return None


@check_arguments
def retry_on(*kinds: type[Exception]) -> Classify:
    """Return a `classify` function that retries only these exceptions and known temporary errors.

    Known temporary errors are a lost connection, a timeout, and a 429 or 5xx of a provider. Without
    this function, an unknown exception is retried too. A known permanent error, such as a wrong API
    key, is not retried even if `kinds` holds its class.

    Args:
        kinds: exception classes, including their subclasses.

    >>> class Busy(KeyError):
    ...     pass
    >>> classify = retry_on(Busy)
    >>> [classify(error).category.value for error in (Busy(), ValueError(), ConnectionResetError())]
    ['transient', 'programming', 'transient']
    """

    def classify(error: Exception) -> ErrorInfo:
        info = sdk_errors.classify(error)
        if info.category not in _GUESSED:
            return info
        is_temporary = isinstance(error, kinds)
        category = ErrorCategory.TRANSIENT if is_temporary else ErrorCategory.PROGRAMMING
        return msgspec.structs.replace(info, category=category)

    return classify


_GUESSED = (ErrorCategory.UNKNOWN, ErrorCategory.PROGRAMMING)
