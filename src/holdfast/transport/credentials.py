"""Finds the secrets of a request: in its headers, and in the user, password and query of its address.

The result removes them from errors. Every header counts as secret unless it is known to hold none,
because the names of gateways' headers cannot be known.
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Iterable, Iterator
from urllib.parse import parse_qsl, unquote

from holdfast.core.secret_values import SecretValues

_PUBLIC_HEADERS = frozenset(
    (
        *("accept", "accept-encoding", "accept-language", "content-type", "content-length", "host"),
        *("anthropic-beta", "anthropic-version", "openai-beta", "user-agent", "http-referer"),
        *("referer", "x-title", "idempotency-key", "x-request-id", "x-client-request-id"),
        *("openai-organization", "openai-project", "x-goog-user-project", "traceparent"),
    )
)
_PUBLIC_PARAMETERS = frozenset({"api-version", "alt"})
_SECRET_NAME = re.compile(r"auth|cookie|key|token|secret|pass|cred|sig", re.IGNORECASE)
_PART = re.compile(r"[^\s,;\"']+")
_AUTHORITY = re.compile(r"[^/?#]*://([^/?#]*)@")
_LONGEST_AUTHORITY = 2_000


def find_secrets(address: str, headers: Iterable[tuple[str, str]] = ()) -> SecretValues:
    """Return the secrets of an address and of headers.

    >>> find_secrets("https://bob:longpassword@host/?key=0123456789", [("x-api-key", "abcdefghij")])
    SecretValues(4 secrets)
    """
    values = set(_secrets_of_address(address))
    for name, value in headers:
        if name.lower() not in _PUBLIC_HEADERS and not name.lower().endswith("-version"):
            values.update(_secrets_of_header(name, value))
    return SecretValues(values)


def _secrets_of_address(address: str) -> Iterator[str]:
    if match := _AUTHORITY.match(address[:_LONGEST_AUTHORITY]):
        yield from _secrets_of_user(match[1])
        yield from _secrets_of_user(unquote(match[1]))
    query = address.partition("#")[0].partition("?")[2]
    for name, value in parse_qsl(query):
        if name.lower() not in _PUBLIC_PARAMETERS:
            yield value


def _secrets_of_user(user_and_password: str) -> Iterator[str]:
    user, colon, password = user_and_password.partition(":")
    yield password if colon else user
    yield user_and_password


def _secrets_of_header(name: str, value: str) -> Iterator[str]:
    scheme, _, credentials = value.strip().partition(" ")
    if not _SECRET_NAME.search(name):
        yield value
        return
    yield credentials.strip() or value
    for part in _PART.findall(value):
        yield part
        yield part.partition("=")[2]
    if scheme.lower() == "basic":
        yield from _secrets_of_user(_decode_base64(credentials))


def _decode_base64(text: str) -> str:
    try:
        return b64decode(text).decode("utf-8", "replace")
    except ValueError:
        return ""
