"""The cookies of a sign-in to the console, and the token against requests that other sites cause.

The token is computed from the secret of the sign-in, so it counts for that sign-in alone, and the
server stores nothing for it.
"""

from __future__ import annotations

import hmac
import re
import secrets

from holdfast.journal.service_store import SignIn
from holdfast.server.access.asgi import Headers, find_header
from holdfast.server.access.keys import digest_secret

SIGN_IN_SECONDS = 43_200.0
"""Seconds after which a person signs in again."""

SESSION_COOKIE, CSRF_COOKIE = "holdfast_session", "holdfast_csrf"

_SECRET = re.compile(r"[A-Za-z0-9_-]{43}")


def make_sign_in(key_id: str, now: float) -> tuple[str, SignIn]:
    """Return the secret of a new sign-in, and what is stored of it.

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
