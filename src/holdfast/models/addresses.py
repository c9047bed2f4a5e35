"""Checks, shows and extends the base URLs of models, which may hold a password or a key.

An error never repeats a base URL: it may be a key that was written into the wrong argument.
"""

from __future__ import annotations

import re

from holdfast.core.errors import ConfigurationError
from holdfast.core.redaction import MARK, redact

_SCHEME = re.compile(r"([a-z][a-z0-9+.-]{0,15}://)", re.IGNORECASE)
_PUBLIC_PARAMETERS = frozenset({"api-version", "alt"})


def check_base_url(url: str) -> str:
    """Return the base URL without a slash at its end.

    Raises:
        ConfigurationError: it is not an http or https URL, or cannot be sent as it is written.

    >>> check_base_url("http://gpu:11434/v1/")
    'http://gpu:11434/v1'
    """
    if not url.startswith(("https://", "http://")):
        scheme = _SCHEME.match(url)
        given = f"an address with {scheme[1]}" if scheme else "a text without a scheme"
        raise ConfigurationError(
            "base_url", f"must begin with https:// or http://, and this is {given}"
        )
    if "#" in url:
        raise ConfigurationError(
            "base_url", "contains '#', which is not sent", fix="Write %23 for a '#' in a password"
        )
    rest = url.partition("://")[2].partition("?")[0]
    if "@" in rest.partition("/")[2]:
        raise ConfigurationError(
            "base_url",
            "contains '@' after its host",
            fix="In a user or a password write %2F for '/', and in a path %40 for '@'",
        )
    path, question, query = url.partition("?")
    return path.rstrip("/") + question + query


def join_address(base_url: str, path: str) -> str:
    """Return the base URL with a path below it; its query is sent with every request.

    >>> join_address("https://gateway.example/v1?key=k", "models/a:streamGenerateContent?alt=sse")
    'https://gateway.example/v1/models/a:streamGenerateContent?alt=sse&key=k'
    """
    base, _, query = base_url.partition("?")
    url = f"{base}/{path.lstrip('/')}"
    if not query:
        return url
    return f"{url}{'&' if '?' in path else '?'}{query}"


def show_address(url: str) -> str:
    """Return a base URL without its user, its password and the values of its query.

    An address that is not http or https is not shown at all.

    >>> show_address("https://bob:secret@gateway.example/v1?key=secret&api-version=2")
    'https://[redacted]@gateway.example/v1?key=[redacted]&api-version=2'
    """
    if not url.startswith(("https://", "http://")) or "#" in url:
        return MARK if url else ""  # it is refused, and may be anything
    address, question, query = url.partition("?")
    scheme, separator, rest = address.partition("://")
    if "@" in rest:
        rest = f"{MARK}@{rest.rpartition('@')[2]}"
    parameters = "&".join(map(_show_parameter, query.split("&"))) if question else ""
    return redact(scheme + separator + rest) + question + parameters


def _show_parameter(parameter: str) -> str:
    name, equals, _ = parameter.partition("=")
    if name.lower() in _PUBLIC_PARAMETERS:
        return parameter
    return f"{name}={MARK}" if equals else MARK
