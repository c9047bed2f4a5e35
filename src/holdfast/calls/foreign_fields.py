"""Reads objects of foreign clients: the fields of exceptions, and the secrets of their requests.

Values are read from the object's `__dict__`: this module never runs a property or `__str__` of a
foreign object, and never reads from a connection.
"""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.calls.caught_error import exception_text
from holdfast.core.redaction import redact
from holdfast.core.secret_values import NO_SECRETS, SecretValues
from holdfast.transport.credentials import find_secrets

_LONGEST_CHAIN = 5


def redact_exception(error: BaseException) -> str:
    """Return the text of an exception without secrets, those of its request by their values."""
    return redact(find_request_secrets(error).remove_from(exception_text(error)))


def find_request_secrets(exception: BaseException) -> SecretValues:
    """Return the secrets of the requests that an exception and its causes hold.

    The exceptions of most clients hold the request with its headers, and so the API key.
    """
    secrets = NO_SECRETS
    for error in walk_causes(exception):
        response = first_field(error, "response", "_response")
        requests = (
            first_field(error, "request", "_request"),
            first_field(response, "request", "_request", "request_info", "_request_info"),
            read_field(error, "request_info"),
        )
        for request in filter(None, requests):
            secrets |= _find_secrets(request)
    return secrets


def find_response_secrets(response: object) -> SecretValues:
    """Return the secrets of the request to which an HTTP client's response belongs."""
    names = ("request", "_request", "request_info", "_request_info")
    return _find_secrets(first_field(response, *names))


def _find_secrets(request: object) -> SecretValues:
    url = read_field(request, "url")
    headers = normalise_headers(read_field(request, "headers"))
    return find_secrets("" if url is None else url_text(url), headers.items())


def walk_causes(exception: BaseException) -> Iterator[BaseException]:
    """Yield the exception and the chain of its causes."""
    error: BaseException | None = exception
    for _ in range(_LONGEST_CHAIN):
        if error is None:
            return
        yield error
        members = error.exceptions if isinstance(error, BaseExceptionGroup) else ()
        error = members[0] if len(members) == 1 else error.__cause__


def first_field(holder: object, *names: str) -> object:
    """Return the first of these attributes that is not None."""
    return next((value for name in names if (value := read_field(holder, name)) is not None), None)


def read_field(holder: object, name: str) -> object:
    """Return an attribute from the object's `__dict__`, or a plain one of its class; no property is run."""
    try:
        attributes = object.__getattribute__(holder, "__dict__")
    except AttributeError:
        attributes = {}
    if name in attributes:
        return attributes[name]
    names = getattr(type(holder), "_fields", None)
    if isinstance(holder, tuple) and isinstance(names, tuple) and name in names:
        return holder[names.index(name)]
    for kind in type(holder).__mro__:
        value = vars(kind).get(name)
        if isinstance(value, (int, str)):
            return value
    return None


def normalise_headers(value: object) -> dict[str, str]:
    """Return headers of any form with their names in lower case; none if it is no mapping."""
    items = getattr(value, "items", None)
    if not callable(items):
        return {}
    return {str(name).lower(): str(value_text) for name, value_text in list(items())[:200]}


def url_text(url: object) -> str:
    """Return the text of a URL, which may be an object of an HTTP client."""
    return url if isinstance(url, str) else str(url)
