"""The credentials of an API: which parts of a request they fill, and the removal of their values from texts.

No credential is an argument of a tool, or a part of a text or of a repr. This module must never log anything.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Awaitable, Callable, Mapping
from difflib import get_close_matches
from inspect import isawaitable
from typing import Any, Final, Literal, TypeAlias
from urllib.parse import quote

from msgspec import Struct

from holdfast.core.argument_checks import check_value
from holdfast.core.errors import ConfigurationError
from holdfast.core.secret_values import SecretValues
from holdfast.openapi.openapi_document import DocumentError, OpenAPIDocument, extend_place
from holdfast.transport.credentials import find_secrets

Secrets: TypeAlias = str | Mapping[str, str]
"""A bearer token, or the values of security schemes by their names in the file."""

Auth: TypeAlias = Secrets | Callable[[], Secrets | Awaitable[Secrets]]
"""Credentials, or a function that returns them before each request, sync or async."""

HEADER_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_UNSENDABLE = re.compile(r"[^\x20-\x7e]")


class CredentialPart(Struct, frozen=True):
    """A part of a request that a credential fills; its repr has no value.

    Args:
        where: the part.
        name: the name of the header, the parameter or the cookie.
        value: the value.
    """

    where: Literal["header", "query", "cookie"]
    name: str
    value: str

    def __repr__(self) -> str:
        return f"CredentialPart({self.where} {self.name})"


class AuthError(Exception):
    """The credentials cannot be used. The text holds none of them."""


class Credentials:
    """The credentials of one API.

    Args:
        document: the document, for its security schemes.
        auth: the credentials, or a function that returns them; None for none.
        headers: headers of every request, whose values count as secrets.

    Raises:
        ConfigurationError: the file has no such scheme, or a value cannot be sent.
    """

    def __init__(
        self, document: OpenAPIDocument, auth: Auth | None, headers: Mapping[str, str]
    ) -> None:
        check_value("headers", headers, Mapping[str, str])
        self._schemes = _read_schemes(document)
        self._auth = auth
        self._fixed = [CredentialPart("header", name, value) for name, value in headers.items()]
        given: list[CredentialPart] = []
        if auth is not None and not callable(auth):
            check_value("auth", auth, str | Mapping[str, str])
            given = self._make_parts(auth)
        try:
            _check_parts(self._fixed)
        except AuthError as error:
            raise ConfigurationError("headers", str(error)) from None
        self._given = None if callable(auth) else given

    def __repr__(self) -> str:
        return "Credentials()"

    @property
    def hidden(self) -> frozenset[tuple[str, str]]:
        """The parameters that the credentials fill, by place and name; names of headers are in lower case."""
        parts = [*self._fixed, *(self._given or ())]
        parts += [CredentialPart(where, name, "") for where, name, _ in self._schemes.values()]
        return frozenset(
            (one.where, one.name.lower() if one.where == "header" else one.name) for one in parts
        )

    async def find_parts(self) -> list[CredentialPart]:
        """Return the parts of the next request.

        Raises:
            AuthError: the function for the credentials raised, or its result cannot be sent.
        """
        if self._given is not None:
            return [*self._fixed, *self._given]
        function: Any = self._auth
        try:
            found = function()
            if isawaitable(found):
                found = await found
        except Exception as error:
            # Its text may hold what it failed on.
            raise AuthError(f"auth raised {type(error).__name__}") from error
        try:
            check_value("auth", found, str | Mapping[str, str])
            return [*self._fixed, *self._make_parts(found)]
        except ConfigurationError as error:
            raise AuthError(
                f"auth returned what cannot be used: {error.argument} {error.problem}"
            ) from None

    def _make_parts(self, auth: Secrets) -> list[CredentialPart]:
        if isinstance(auth, str):
            parts = [CredentialPart("header", "Authorization", f"Bearer {auth}")]
        else:
            parts = [self._make_part(name, value) for name, value in auth.items()]
        try:
            _check_parts(parts)
        except AuthError as error:
            raise ConfigurationError("auth", str(error)) from None
        if auth == "" or (not isinstance(auth, str) and "" in auth.values()):
            raise ConfigurationError("auth", "is empty", fix="Read the key, or leave auth out")
        return parts

    def _make_part(self, name: str, value: str) -> CredentialPart:
        scheme = self._schemes.get(name)
        if scheme is None:
            near = get_close_matches(name, self._schemes, 1)
            fix = f"Did you mean {near[0]!r}?" if near else "Pass a bearer token as a text"
            known = ", ".join(map(repr, self._schemes)) or "none"
            problem = f"the file has no security scheme {name!r}; its schemes are: {known}"
            raise ConfigurationError("auth", problem, fix=fix)
        where, field, form = scheme
        if form == "basic":
            value = "Basic " + b64encode(value.encode()).decode()
        elif form == "bearer":
            value = f"Bearer {value}"
        return CredentialPart(where, field, value)


def _check_parts(parts: list[CredentialPart]) -> None:
    """Raise AuthError for a value that cannot be sent, without it."""
    for part in parts:
        if part.where == "header" and not HEADER_NAME.fullmatch(part.name):
            raise AuthError(f"{part.name!r} is not the name of a header")
        if part.where != "query" and _UNSENDABLE.search(part.value):
            raise AuthError(
                f"the value for {part.name!r} holds a line break or another character that no header "
                "can hold. A key that was read from a file often ends with one: strip it"
            )


_Scheme: TypeAlias = tuple[Literal["header", "query", "cookie"], str, str]
_PLACES: Final[dict[str, Literal["header", "query", "cookie"]]] = {
    "header": "header",
    "query": "query",
    "cookie": "cookie",
}


def _read_schemes(document: OpenAPIDocument) -> dict[str, _Scheme]:
    """Return where each security scheme of a document stands in a request, and its form."""
    found: dict[str, _Scheme] = {}
    components = document.root.get("components")
    schemes = components.get("securitySchemes") if isinstance(components, dict) else None
    for name, given in schemes.items() if isinstance(schemes, dict) else ():
        place = extend_place("/components/securitySchemes", name)
        try:
            scheme, _ = document.follow(given, place)
        except DocumentError as error:
            raise document.make_error(error) from None
        kind, form = scheme.get("type"), str(scheme.get("scheme", "")).lower()
        where = _PLACES.get(str(scheme.get("in")))
        if kind == "apiKey" and where is not None and isinstance(scheme.get("name"), str):
            found[name] = (where, scheme["name"], "key")
        elif kind == "http" and form in ("basic", "bearer"):
            found[name] = ("header", "Authorization", form)
        elif kind in ("oauth2", "openIdConnect"):
            found[name] = ("header", "Authorization", "bearer")
    return found


def find_values(parts: list[CredentialPart]) -> SecretValues:
    """Return the secrets of the parts of a request, for their removal from texts."""
    headers = [(part.name, part.value) for part in parts if part.where == "header"]
    values = set(find_secrets("", headers).values)
    values.update(part.value for part in parts if part.where != "header")
    return SecretValues({*values, *(quote(value, safe="") for value in values)})
