"""Finds out who sends a request: the holder of a key, somebody signed in, or the local user."""

from __future__ import annotations

from msgspec import Struct

from holdfast.server.access.asgi import Headers, Scope, count_header, find_header
from holdfast.server.access.callers import make_key_problem
from holdfast.server.access.client_addresses import has_forwarded, is_loopback, name_caller
from holdfast.server.access.key_ring import Credential, KeyRing
from holdfast.server.access.keys import digest_secret
from holdfast.server.access.options import AccessOptions
from holdfast.server.access.origin_rules import SAFE_METHODS
from holdfast.server.access.principals import LOCAL, Principal
from holdfast.server.access.rates import Rate, RateTable
from holdfast.server.access.sign_in_cookies import find_sign_in_secret, is_csrf_token
from holdfast.server.problem_body import ProblemBody
from holdfast.server.problem_responses import ProblemError, make_problem, make_wait_problem

_BEARER = "bearer "


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
