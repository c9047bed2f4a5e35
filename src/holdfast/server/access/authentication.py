"""Finds out who sends a request: the holder of a key, somebody signed in, or the local user.

A sign-in to the console is a cookie with a secret, and a token against requests that other sites cause.
The token is computed from the secret, so it counts for that sign-in alone, and the server stores
nothing for it.
"""

from __future__ import annotations

import hmac
import re
import secrets

from msgspec import Struct

from holdfast.journal.service_store.service_store import SignIn
from holdfast.server.access.asgi import Headers, Scope, count_header, find_header
from holdfast.server.access.budgets import Rate, RateTable
from holdfast.server.access.callers import make_key_problem
from holdfast.server.access.client_addresses import has_forwarded, is_loopback, name_caller
from holdfast.server.access.key_ring import Credential, KeyRing
from holdfast.server.access.keys import digest_secret
from holdfast.server.access.options import AccessOptions
from holdfast.server.access.origin_rules import SAFE_METHODS
from holdfast.server.access.principals import LOCAL, Principal
from holdfast.server.problem_body import ProblemBody
from holdfast.server.problem_responses import ProblemError, make_problem, make_wait_problem

_BEARER = "bearer "

SIGN_IN_SECONDS = 43_200.0
"""Seconds after which a person signs in again."""

SESSION_COOKIE, CSRF_COOKIE = "holdfast_session", "holdfast_csrf"
_SECRET = re.compile(r"[A-Za-z0-9_-]{43}")


class Identity(Struct, frozen=True):
    """Who sends a request.

    Args:
        principal: who it is.
        credential: the key or the sign-in that it has shown; None if there is none of the store.
    """

    principal: Principal
    credential: Credential | None = None

    @property
    def by_cookie(self) -> bool:
        """Whether a browser sent its cookie, which a page of another site could cause."""
        return self.credential is not None and self.credential.kind == "sign_in"


class Authenticator:
    """Finds out who sends a request.

    Args:
        options: who may call.
        keys: recognizes keys and sign-ins.
    """

    def __init__(self, options: AccessOptions, keys: KeyRing) -> None:
        self._options = options
        self._keys = keys
        self._tries = RateTable(Rate(options.limits.failed_tries))

    async def is_local(self) -> bool:
        """Whether the service has no keys, and so answers this machine alone. Raises JournalError."""
        return self._options.auth == "auto" and not await self._keys.has_keys()

    async def identify(self, scope: Scope, *, is_local: bool) -> Identity:
        """Return who sends a request.

        Args:
            scope: the request.
            is_local: whether the service has no keys.

        Raises:
            ProblemError: nobody who may call; or too many tries with a wrong key.
            JournalError: the keys cannot be read.
        """
        if callable(self._options.auth):
            principal = await self._options.auth(scope)
            if principal is None:
                raise ProblemError(make_key_problem("The caller is not known."))
            return Identity(principal)
        if is_local:
            return _identify_local(scope)
        return await self._identify_by_key(scope)

    async def _identify_by_key(self, scope: Scope) -> Identity:
        headers: Headers = scope["headers"]
        given = find_header(headers, b"authorization")
        if count_header(headers, b"authorization") > 1:
            raise ProblemError(make_key_problem("There is more than one Authorization."))
        if given:
            key = _read_bearer(given)
            principal = await self.check_key(scope, key)
            return Identity(principal, Credential("key", digest_secret(key)))
        secret = find_sign_in_secret(headers)
        signed_in = await self._keys.find_signed_in(secret) if secret else None
        if signed_in is None:
            raise ProblemError(make_key_problem())
        token = find_header(headers, b"x-csrf-token")
        if scope["method"] not in SAFE_METHODS and not is_csrf_token(token, secret):
            raise ProblemError(_csrf_problem())
        return Identity(signed_in, Credential("sign_in", digest_secret(secret)))

    async def check_key(self, scope: Scope, key: str) -> Principal:
        """Return whom a key stands for.

        Raises:
            ProblemError: 401 for a wrong key, 429 after too many of them from one address.
            JournalError: the keys cannot be read.
        """
        address = name_caller(find_address(scope))
        if self._keys.is_familiar(key):
            principal = await self._keys.find_holder(key)
            if principal is not None:
                return principal
        # Counted before the search, so that many tries at once are counted too.
        wait = self._tries.take(address, self._keys.monotonic())
        if wait:
            detail = "There were too many tries with a wrong key from this address."
            raise ProblemError(make_wait_problem(429, "failed_tries", detail, wait))
        principal = await self._keys.find_holder(key)
        if principal is None:
            raise ProblemError(make_key_problem("The key is wrong, has expired or was revoked."))
        self._tries.give_back(address)
        return principal


def find_address(scope: Scope) -> str:
    """Return the address that a request came from; "" if there is none."""
    client = scope.get("client")
    return str(client[0]) if client else ""


def _read_bearer(given: str) -> str:
    if given[: len(_BEARER)].lower() != _BEARER:
        raise ProblemError(make_key_problem("Authorization must begin with Bearer."))
    return given[len(_BEARER) :].strip()


def _identify_local(scope: Scope) -> Identity:
    if is_loopback(find_address(scope)) and not has_forwarded(scope["headers"]):
        return Identity(LOCAL)
    raise ProblemError(
        make_problem(
            403,
            "keys_needed",
            "A service without keys answers only on this machine, and to no proxy.",
            fix="Make a key with `holdfast keys create`",
        )
    )


def _csrf_problem() -> ProblemBody:
    return make_problem(
        403,
        "csrf",
        "The token of the sign-in is missing or wrong.",
        field="X-CSRF-Token",
        fix="Send the csrf_token of GET /console/session",
    )


def make_sign_in(key_id: str, now: float) -> tuple[str, SignIn]:
    """Return the secret of a new sign-in, and its stored form.

    Args:
        key_id: the key that the person has.
        now: the time, in seconds since the epoch.
    """
    secret = secrets.token_urlsafe(32)
    return secret, SignIn(
        digest=digest_secret(secret),
        key_id=key_id,
        created_at=now,
        expires_at=now + SIGN_IN_SECONDS,
    )


def find_sign_in_secret(headers: Headers) -> str:
    """Return the secret in the cookie of a request; "" if there is none, or more than one."""
    cookies = find_header(headers, b"cookie").replace(",", ";").split(";")
    named = [one.partition("=") for one in cookies]
    found = [value.strip() for name, _, value in named if name.strip() == SESSION_COOKIE]
    return found[0] if len(found) == 1 and _SECRET.fullmatch(found[0]) else ""


def make_csrf_token(secret: str) -> str:
    """Return the token of a sign-in.

    >>> len(make_csrf_token("x"))
    64
    """
    return hmac.new(secret.encode(), b"holdfast csrf", "sha256").hexdigest()


def is_csrf_token(token: str, secret: str) -> bool:
    """Whether a token belongs to this sign-in."""
    return hmac.compare_digest(token.encode(), make_csrf_token(secret).encode())


def make_cookies(secret: str, path: str, *, is_secure: bool) -> tuple[str, str]:
    """Return the `Set-Cookie` headers of a sign-in.

    Args:
        secret: the secret; "" ends the sign-in.
        path: where the service is mounted.
        is_secure: whether the browser used TLS.

    >>> make_cookies("", "/", is_secure=True)[0]
    'holdfast_session=; Path=/; Max-Age=0; SameSite=Strict; Secure; HttpOnly'
    """
    age = round(SIGN_IN_SECONDS) if secret else 0
    rest = f"; Path={path}; Max-Age={age}; SameSite=Strict" + ("; Secure" if is_secure else "")
    token = make_csrf_token(secret) if secret else ""
    return f"{SESSION_COOKIE}={secret}{rest}; HttpOnly", f"{CSRF_COOKIE}={token}{rest}"
