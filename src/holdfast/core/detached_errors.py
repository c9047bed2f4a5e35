"""Removes known secrets from errors: from their texts, their details, and the chain of their causes.

An exception of a library may hold a whole request: its headers, its address, its connection. Such an
exception is replaced by one of the same name that holds only text. What a model wrote (`partial`,
`raw`) is never changed.
"""

from __future__ import annotations

from functools import lru_cache

from msgspec.structs import replace

from holdfast.core.error_info import ErrorInfo
from holdfast.core.errors import HoldfastError
from holdfast.core.redaction import redact
from holdfast.core.secret_values import SecretValues

_LONGEST_CHAIN = 16
_LONGEST_TEXT = 4_000
_MODEL_TEXT = frozenset({"raw"})


class DetachedError(Exception):
    """The text of another exception, without its attributes. It has the name of the other's class."""


def clean_info(info: ErrorInfo, secrets: SecretValues) -> ErrorInfo:
    """Return the details of a failure without the secrets."""
    changes = {
        name: cleaned
        for name in ("safe", "private", "code", "request_id")
        if (text := getattr(info, name)) and (cleaned := secrets.remove_from(text)) != text
    }
    return replace(info, **changes) if changes else info


def clean_error(error: HoldfastError, secrets: SecretValues) -> HoldfastError:
    """Remove the secrets from an error, in place, and detach the exceptions of libraries below it."""
    _clean_chain(error, secrets, _LONGEST_CHAIN)
    return error


def detach_error(error: BaseException, secrets: SecretValues) -> DetachedError:
    """Return an exception with the name, the text and the traceback of `error`, and nothing else."""
    return _detach(error, secrets, _LONGEST_CHAIN)


def _clean_chain(error: HoldfastError, secrets: SecretValues, depth: int) -> None:
    error.info = clean_info(error.info, secrets)
    error.args = tuple(
        secrets.remove_from(value) if isinstance(value, str) else value for value in error.args
    )
    for name, value in vars(error).items():
        if isinstance(value, str) and name not in _MODEL_TEXT:
            setattr(error, name, secrets.remove_from(value))
    _clean_causes(error, error, secrets, depth)


def _clean_causes(
    error: BaseException, source: BaseException, secrets: SecretValues, depth: int
) -> None:
    """Give `error` the cleaned causes of `source`, which may be the same."""
    suppressed = source.__suppress_context__
    cause, context = source.__cause__, source.__context__
    error.__cause__ = _clean_cause(cause, secrets, depth)
    error.__context__ = (
        error.__cause__ if context is cause else _clean_cause(context, secrets, depth)
    )
    error.__suppress_context__ = suppressed


def _clean_cause(
    cause: BaseException | None, secrets: SecretValues, depth: int
) -> BaseException | None:
    if cause is None or depth <= 0 or isinstance(cause, DetachedError):
        return cause if isinstance(cause, DetachedError) else None
    if isinstance(cause, HoldfastError):
        _clean_chain(cause, secrets, depth - 1)
        return cause
    return _detach(cause, secrets, depth - 1)


def _detach(error: BaseException, secrets: SecretValues, depth: int) -> DetachedError:
    kind = type(error)
    detached = _detached_class(kind.__module__, kind.__name__)(_text_of(error, secrets))
    _clean_causes(detached, error, secrets, depth)
    return detached.with_traceback(error.__traceback__)


@lru_cache(maxsize=256)
def _detached_class(module: str, name: str) -> type[DetachedError]:
    return type(name, (DetachedError,), {"__module__": module, "__doc__": DetachedError.__doc__})


def _text_of(error: BaseException, secrets: SecretValues) -> str:
    try:
        text = str(error)
    except Exception:  # noqa: BLE001  # REASON: __str__ is the code of a library
        return "(its text cannot be read)"
    return redact(secrets.remove_from(text))[:_LONGEST_TEXT]
