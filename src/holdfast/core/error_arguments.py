"""Checks what a user's code makes an error of, and reads the details of an error that it has spoiled.

An event saves the details of an error, so a value of a wrong type in them would spoil a record. This
module must never raise: `core.errors` raises, and names the argument.
"""

from __future__ import annotations

from holdfast.core.error_info import ErrorCategory, ErrorInfo
from holdfast.core.messages import Reply
from holdfast.core.redaction import redact


def find_wrong_argument(
    error: str, message: object, info: object = None, partial: object = None
) -> tuple[str, str, str] | None:
    """Return the name of a wrong argument of an error, the problem and the fix; None if all are right.

    Args:
        error: the name of the error's class, for the fix.
        message: must be a text.
        info: must be an ErrorInfo or None.
        partial: must be a Reply or None.

    >>> find_wrong_argument("ProviderError", TimeoutError())
    ('message', 'must be a text, got TimeoutError', 'Write ProviderError(str(error))')
    """
    if not isinstance(message, str):
        fix = f'Write {error}("what happened")'
        if isinstance(message, ErrorInfo):
            fix = f"Write {error}(info.safe, info=info)"
        elif isinstance(message, BaseException):
            fix = f"Write {error}(str(error))"
        return "message", f"must be a text, got {type(message).__name__}", fix
    if info is not None and not isinstance(info, ErrorInfo):
        fix = f"Write {error}(message, info=ErrorInfo(category=..., safe=message))"
        return "info", f"must be an ErrorInfo, got {type(info).__name__}", fix
    if partial is not None and not isinstance(partial, Reply):
        return "partial", f"must be a Reply, got {type(partial).__name__}", "Leave it out"
    return None


def read_error_info(error: BaseException) -> ErrorInfo:
    """Return the details of an error of Holdfast, also of one that has lost them.

    A subclass may not have called `HoldfastError.__init__`, and anybody may set an attribute.

    >>> read_error_info(KeyError("x")).safe
    'KeyError'
    """
    info = _read(error, "info")
    if type(info) is ErrorInfo:
        return info
    category = _read(error, "default_category")
    if not isinstance(category, ErrorCategory):
        category = ErrorCategory.UNKNOWN
    name = type(error).__name__
    return ErrorInfo(category=category, safe=name, private=redact(_read_text(error)), code=name)


def _read(error: BaseException, name: str) -> object:
    try:
        return getattr(error, name, None)
    except Exception:  # noqa: BLE001  # REASON: a property is the user's code
        return None


def _read_text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # noqa: BLE001  # REASON: `__str__` is the user's code
        return "(its text cannot be read)"
