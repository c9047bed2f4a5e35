"""Whose request it is: a session and its token, or the admin key of the club's office.

A wrong token gets the same answer as a session that does not exist. This module must never put a token
into a log or an address.
"""

from __future__ import annotations

import hmac
import secrets
import time

from starlette.requests import Request

from registration.flow.parts import Parts
from registration.http.problems import Problem
from registration.http.state import state_of
from registration.store import Transaction
from registration.store.sessions import Session, create_session, find_session

_BYTES = 16


def read_bearer(request: Request) -> str:
    """Return the token of a request. Raises Problem if there is none."""
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "bearer" or not token.strip():
        raise Problem("unauthorized", "Send the token, as Authorization: Bearer <token>.")
    return token.strip()


async def find_own_session(parts: Parts, request: Request, session_id: str) -> Session:
    """Return the session of a request.

    Args:
        parts: the database.
        request: the request, with the token of the session.
        session_id: the id of the session.

    Raises:
        Problem: there is no token, no such session, or it has another token.
        DatabaseUnavailable: the database could not be asked.
    """
    token = read_bearer(request)

    def find(tx: Transaction) -> Session | None:
        return find_session(tx, session_id, token)

    session = await parts.database.read(find)
    if session is None:
        raise Problem("not_found", "There is no such conversation.")
    return session


async def begin_session(parts: Parts, agent: str) -> tuple[str, str]:
    """Store a new session; return its id and its token, of 128 random bits each."""
    session_id, token = secrets.token_urlsafe(_BYTES), secrets.token_urlsafe(_BYTES)
    now = parts.now()
    await parts.database.transact(lambda tx: create_session(tx, session_id, token, agent, now))
    return session_id, token


def limit_address(request: Request, act: str) -> None:
    """Count an act of an address without a session. Raises Problem when there are too many.

    Args:
        request: the request.
        act: the name of the act; each is counted by itself.
    """
    host = "" if request.client is None else request.client.host
    wait = state_of(request).addresses.count(f"{act} {host}", time.monotonic())
    if wait is not None:
        raise Problem("too_many_requests", "That was a little fast. Please try again.", wait)


def check_admin(parts: Parts, request: Request) -> None:
    """Let only the office through. Raises Problem."""
    given = read_bearer(request)
    if not hmac.compare_digest(given.encode(), parts.settings.admin_key.reveal().encode()):
        raise Problem("unauthorized", "This is not the admin key.")
