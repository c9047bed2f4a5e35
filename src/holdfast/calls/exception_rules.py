"""What an exception of a call means: by the user's own function, or by what is known of other clients.

A function of the user that raises or answers nonsense must never hide the exception that it was
asked about: the log tells of it, and the exception is read as if nobody had been asked.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeAlias

import msgspec

from holdfast.calls import sdk_errors
from holdfast.core.errors import ConfigurationError, ErrorCategory, ErrorInfo
from holdfast.resilience.clock import Clock

Classify: TypeAlias = Callable[[Exception], ErrorInfo]

_log = logging.getLogger("holdfast")


def classify_exception(error: Exception, classify: Classify | None, clock: Clock) -> ErrorInfo:
    """What an exception means; `classify` is asked first, when there is one."""
    if classify is not None and (info := _classify_by_user(classify, error)) is not None:
        return info
    return sdk_errors.classify(error, now=clock.now())


def _classify_by_user(
    classify: Callable[[Exception], object], error: Exception
) -> ErrorInfo | None:
    try:
        info = classify(error)
    except Exception:  # noqa: BLE001  # REASON: the user's hook; the exception it was asked about counts
        _log.exception("classify raised; the exception is read without it")
        return None
    if isinstance(info, ErrorInfo):
        return info
    _log.error("classify gave a %s and no ErrorInfo", type(info).__name__)
    return None


def retry_on(*kinds: type[Exception]) -> Classify:
    """Make a `classify` that retries these exceptions and known temporary failures.

    Known to pass are a lost connection, a timeout, a 429 or a 5xx of a provider. Without this, an
    exception that nobody knows is retried too. What is known to be final, such as a bad key, is not
    retried even when its class is named.

    Args:
        kinds: classes of exceptions; their subclasses count.

    >>> class Busy(KeyError):
    ...     pass
    >>> classify = retry_on(Busy)
    >>> [classify(error).category.value for error in (Busy(), ValueError(), ConnectionResetError())]
    ['transient', 'programming', 'transient']
    """
    for kind in kinds:
        _check_exception_class(kind)

    def classify(error: Exception) -> ErrorInfo:
        known = sdk_errors.classify(error)
        if known.category not in _GUESSED:
            return known
        passes = isinstance(error, kinds)
        category = ErrorCategory.TRANSIENT if passes else ErrorCategory.PROGRAMMING
        return msgspec.structs.replace(known, category=category)

    return classify


_GUESSED = (ErrorCategory.UNKNOWN, ErrorCategory.PROGRAMMING)


def _check_exception_class(kind: object) -> None:
    if not isinstance(kind, type) or not issubclass(kind, Exception):
        raise ConfigurationError("kinds", f"must be classes of exceptions, got {kind!r}")
