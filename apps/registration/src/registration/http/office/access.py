"""The sign-in of the office: a cookie that the server has signed, and the token of every form.

The server stores nothing of a sign-in. The key of the signature follows from the admin key, so another
admin key ends every sign-in. This module must never put the admin key into a cookie.
"""

from __future__ import annotations

import hmac
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from hashlib import sha256

import msgspec
from msgspec import Struct
from starlette.requests import Request

from registration.http.problems import Problem
from registration.settings import Settings

COOKIE = "registration_office"
SIGN_IN_SECONDS = 43_200
"""Seconds after which a person signs in again."""

_LONGEST_NAME = 60


class Visit(Struct, frozen=True):
    """A sign-in.

    Args:
        by: the name that the person gave.
        until: when it ends, in seconds since 1970.
        nonce: distinguishes it from others.
    """

    by: str
    until: int
    nonce: str


class SignedIn(Struct, frozen=True):
    """A person who is signed in.

    Args:
        by: the name that the person gave.
        token: stands in every form of the sign-in.
    """

    by: str
    token: str

    def check_token(self, given: str) -> None:
        """Let only forms of this sign-in through. Raises Problem."""
        if not hmac.compare_digest(given.encode(), self.token.encode()):
            raise Problem("bad_request", "This form is too old. Go back, load the page, try again.")


def is_admin_key(settings: Settings, given: str) -> bool:
    """Whether a text is the admin key."""
    return hmac.compare_digest(given.encode(), settings.admin_key.reveal().encode())


def make_cookie(settings: Settings, by: str, now: float) -> str:
    """Return the value of the cookie of a new sign-in.

    Args:
        settings: the admin key.
        by: the name that the person gave.
        now: seconds since 1970.
    """
    name = " ".join(by.split())[:_LONGEST_NAME] or "the office"
    visit = Visit(name, int(now) + SIGN_IN_SECONDS, secrets.token_urlsafe(16))
    payload = urlsafe_b64encode(msgspec.json.encode(visit)).decode()
    return f"{payload}.{_sign(settings, 'cookie', payload)}"


def find_sign_in(settings: Settings, request: Request, now: float) -> SignedIn | None:
    """Return who is signed in; None if nobody is, or the sign-in has ended."""
    payload, _, signature = request.cookies.get(COOKIE, "").partition(".")
    if not hmac.compare_digest(signature.encode(), _sign(settings, "cookie", payload).encode()):
        return None
    try:
        visit = msgspec.json.decode(urlsafe_b64decode(payload.encode()), type=Visit)
    except (msgspec.MsgspecError, ValueError):
        return None
    if visit.until <= now:
        return None
    return SignedIn(visit.by, _sign(settings, "form", payload))


def _sign(settings: Settings, purpose: str, text: str) -> str:
    key = settings.admin_key.reveal().encode()
    return hmac.new(key, f"office {purpose} {text}".encode(), sha256).hexdigest()
