"""Signing in to the console with a key, and out again.

POST /console/sign-in  {"key": "hf_..."}   200 with who signed in, and the cookies
GET  /console/session                      200 with who is signed in, 401 if nobody is
POST /console/sign-out                     204; the sign-in is over in every process
"""

from __future__ import annotations

import msgspec
from msgspec import Struct
from starlette.responses import JSONResponse, Response

from holdfast.server.access.asgi import Receive, Scope
from holdfast.server.access.authentication import (
    Authenticator,
    Identity,
    find_sign_in_secret,
    make_cookies,
    make_csrf_token,
    make_sign_in,
)
from holdfast.server.access.key_ring import KeyRing
from holdfast.server.access.principals import Principal
from holdfast.server.problem_responses import ProblemError, make_problem

SIGN_IN, SESSION, SIGN_OUT = "/console/sign-in", "/console/session", "/console/sign-out"


class SignInBody(Struct, frozen=True, forbid_unknown_fields=True):
    """The body of `POST /console/sign-in`."""

    key: str


async def sign_in(
    scope: Scope, receive: Receive, authenticator: Authenticator, keys: KeyRing
) -> Response:
    """Answer `POST /console/sign-in`.

    Raises:
        ProblemError: 400 for another body, 401 for a wrong key, 429 after too many of them.
        JournalError: the store cannot be used.
    """
    try:
        body = msgspec.json.decode((await receive()).get("body", b""), type=SignInBody)
    except msgspec.DecodeError as error:
        detail = 'The body must be {"key": "hf_..."}.'
        raise ProblemError(make_problem(400, "body", detail, field="key")) from error
    principal = await authenticator.check_key(scope, body.key.strip())
    secret, saved = make_sign_in(principal.key_id, keys.now())
    await keys.sign_in(saved)
    response = JSONResponse(describe_principal(principal, "cookie", make_csrf_token(secret)))
    return _set_cookies(response, scope, secret)


def show_session(scope: Scope, identity: Identity, *, is_local: bool) -> Response:
    """Answer `GET /console/session`."""
    secret = find_sign_in_secret(scope["headers"]) if identity.by_cookie else ""
    by = "cookie" if identity.by_cookie else "local" if is_local else "key"
    token = make_csrf_token(secret) if secret else ""
    return JSONResponse(describe_principal(identity.principal, by, token))


async def sign_out(scope: Scope, keys: KeyRing) -> Response:
    """Answer `POST /console/sign-out`. Raises JournalError."""
    secret = find_sign_in_secret(scope["headers"])
    if secret:
        await keys.sign_out(secret)
    return _set_cookies(Response(status_code=204), scope, "")


def describe_principal(principal: Principal, by: str, csrf_token: str) -> dict[str, object]:
    """Return the answer to the console about who signed in.

    Args:
        principal: who it is.
        by: "cookie", "key" or "local".
        csrf_token: the token for requests that change something; "" if none is needed.
    """
    return {
        "name": principal.name,
        "tenant": principal.tenant,
        "scopes": sorted(principal.scopes),
        "by": by,
        "csrf_token": csrf_token,
    }


def _set_cookies(response: Response, scope: Scope, secret: str) -> Response:
    path = str(scope.get("root_path", "")).rstrip("/") or "/"
    is_secure = scope.get("scheme") == "https"
    for cookie in make_cookies(secret, path, is_secure=is_secure):
        response.headers.append("Set-Cookie", cookie)
    return response
