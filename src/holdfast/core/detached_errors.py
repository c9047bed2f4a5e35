"""Removes known secrets from errors: from their texts, their details, and the chain of their causes.

An exception of a library may hold a whole request: its headers, its address, its connection. Such an
exception is replaced by one of the same name that holds only text. The text of a model (`partial`,
`raw`) is never changed.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from msgspec.structs import replace

from holdfast.core.error_info import ErrorInfo
from holdfast.core.errors import HoldfastError, read_error_info
from holdfast.core.messages import Reply
from holdfast.core.redaction import redact, shorten
from holdfast.core.secret_values import SecretValues

_LONGEST_CHAIN = 32
_LONGEST_TEXT = 4_000
_MODEL_TEXT = frozenset({"raw"})
_NO_SECRETS = SecretValues()


class DetachedError(Exception):
    """The text of another exception, without its attributes. It has the name of the other's class."""


def change_texts(info: ErrorInfo, change: Callable[[str], str]) -> ErrorInfo:
    """Return the details of a failure with `change` applied to each of their texts."""
    changes = {
        name: changed
        for name in ("safe", "private", "code", "type", "request_id")
        if (text := getattr(info, name)) and (changed := change(text)) != text
    }
    return replace(info, **changes) if changes else info


def clean_info(info: ErrorInfo, secrets: SecretValues) -> ErrorInfo:
    """Return the details of a failure without the secrets."""
    return change_texts(info, secrets.remove_from)


def clean_reply(reply: Reply, secrets: SecretValues) -> Reply:
    """Return a partial reply without the secrets in the provider's notes about it.

    The text of the model is not changed.
    """
    names = ("id", "model", "raw_finish")
    changes = {name: secrets.remove_from(getattr(reply, name)) for name in names}
    return replace(reply, **changes)


def clean_error(error: HoldfastError, secrets: SecretValues) -> None:
    """Remove the secrets from an error, in place.

    An exception of other code below it is replaced if its text contains a secret.
    """
    _Cleaner(secrets, keeps_harmless=True).clean(error)


def clean_client_error(error: HoldfastError, secrets: SecretValues) -> None:
    """Remove the secrets from an error, in place, and replace every exception of other code below it."""
    _Cleaner(secrets, keeps_harmless=False).clean(error)


def detach_error(error: BaseException, secrets: SecretValues) -> DetachedError:
    """Return an exception with the name, the text and the traceback of `error`, and nothing else."""
    return _Cleaner(secrets, keeps_harmless=False).detach(error)


def detach_for_log(error: BaseException, secrets: SecretValues = _NO_SECRETS) -> DetachedError:
    """Return an exception of the user's own code as a log may show it: redacted, with its traceback.

    The code of a hook may raise its argument, such as the error of a provider that
    repeats a key.

    Args:
        error: the exception.
        secrets: the secrets that are known here; others are found by their forms.
    """
    return detach_error(error, secrets)


class _Cleaner:
    """Walks the chain of an error's causes.

    Args:
        secrets: the secrets to remove.
        keeps_harmless: whether an exception of other code stays if no secret is in its text. It must
            not stay if it may hold a request.
    """

    __slots__ = ("_cleaned", "_keeps_harmless", "_secrets")

    def __init__(self, secrets: SecretValues, *, keeps_harmless: bool) -> None:
        self._secrets = secrets
        self._keeps_harmless = keeps_harmless
        self._cleaned: dict[int, BaseException] = {}

    def clean(self, error: HoldfastError) -> None:
        """Clean an error of Holdfast in place."""
        self._cleaned[id(error)] = error
        remove = self._secrets.remove_from
        error.info = clean_info(read_error_info(error), self._secrets)
        partial: object = getattr(error, "partial", None)
        error.partial = clean_reply(partial, self._secrets) if isinstance(partial, Reply) else None
        error.args = tuple(remove(arg) if isinstance(arg, str) else arg for arg in error.args)
        for name, value in vars(error).items():
            if isinstance(value, str) and name not in _MODEL_TEXT:
                setattr(error, name, remove(value))
        self._clean_causes(error, error)

    def detach(self, error: BaseException) -> DetachedError:
        """Return a copy of an exception that holds only text."""
        kind = type(error)
        detached = _detached_class(kind.__module__, kind.__name__)(self._text_of(error))
        self._cleaned[id(error)] = detached
        self._clean_causes(detached, error)
        return detached.with_traceback(error.__traceback__)

    def _clean_causes(self, error: BaseException, source: BaseException) -> None:
        """Give `error` the cleaned causes of `source`, which may be the same exception."""
        is_suppressed = source.__suppress_context__
        cause, context = source.__cause__, source.__context__
        error.__cause__ = self._clean_cause(cause)
        error.__context__ = self._clean_cause(context)
        error.__suppress_context__ = is_suppressed

    def _clean_cause(self, cause: BaseException | None) -> BaseException | None:
        if cause is None:
            return None
        if (cleaned := self._cleaned.get(id(cause))) is not None:
            return cleaned
        if len(self._cleaned) >= _LONGEST_CHAIN:
            return None
        if isinstance(cause, HoldfastError):
            self.clean(cause)
        elif self._needs_copy(cause):
            return self.detach(cause)
        else:
            self._cleaned[id(cause)] = cause
            self._clean_causes(cause, cause)
        return cause

    def _needs_copy(self, error: BaseException) -> bool:
        if not (isinstance(error, DetachedError) or self._keeps_harmless):
            return True
        text = f"{_read_text(error)} {_read_text(error.args)}"
        return self._secrets.remove_from(text) != shorten(text)

    def _text_of(self, error: BaseException) -> str:
        return redact(self._secrets.remove_from(_read_text(error)))[:_LONGEST_TEXT]


@lru_cache(maxsize=256)
def _detached_class(module: str, name: str) -> type[DetachedError]:
    return type(name, (DetachedError,), {"__module__": module, "__doc__": DetachedError.__doc__})


def _read_text(value: object) -> str:
    try:
        return str(value)
    except Exception:  # noqa: BLE001  # REASON: `__str__` is the code of a library
        return "(its text cannot be read)"
