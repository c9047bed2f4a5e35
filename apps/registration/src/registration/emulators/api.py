"""The common parts of the emulated providers' APIs: errors, tokens, bodies, and idempotency keys."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import msgspec
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import BaseRoute
from starlette.types import Lifespan

from registration.emulators.ledger import IdempotencyKey, KeyReused
from registration.providers.connection import UNREADABLE

Body = TypeVar("Body")
Handler = Callable[[Request], Awaitable[Response]]

PAGE_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'",
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
}


class ApiError(Exception):
    """A request that the provider answers with an error.

    Args:
        status: the HTTP status.
        kind: a short word, such as "already_paid".
    """

    def __init__(self, status: int, kind: str) -> None:
        super().__init__(status, kind)
        self.status = status
        self.kind = kind


def make_app(routes: Sequence[BaseRoute], lifespan: Lifespan[Starlette] | None = None) -> Starlette:
    """Return an application that answers errors as the clients expect them."""
    handlers = {
        ApiError: _answer_error,
        KeyReused: _answer_key_reused,
        ClientDisconnect: _answer_nobody,
    }
    return Starlette(routes=routes, exception_handlers=handlers, lifespan=lifespan)


async def _answer_error(_request: Request, error: Exception) -> Response:
    assert isinstance(error, ApiError)  # noqa: S101 - REASON: it is registered for this type
    return answer({"error": {"kind": error.kind}}, error.status)


async def _answer_key_reused(_request: Request, _error: Exception) -> Response:
    return answer({"error": {"kind": "idempotency_key_reused"}}, 422)


async def _answer_nobody(_request: Request, _error: Exception) -> Response:
    return Response(status_code=400)


def answer(value: object, status: int = 200) -> Response:
    """Return a value as JSON."""
    return Response(msgspec.json.encode(value), status, media_type="application/json")


def show_page(title: str, body: str, status: int = 200, refresh: int = 0) -> Response:
    """Return a page of HTML.

    Args:
        title: plain text without markup.
        body: HTML, in which people's text is escaped.
        status: the HTTP status.
        refresh: load it again after so many seconds; 0 for never.
    """
    again = f'<meta http-equiv="refresh" content="{refresh}">' if refresh else ""
    text = (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title>{again}'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        "<style>body{font:1rem/1.5 system-ui,sans-serif;max-width:40rem;margin:2rem auto;"
        "padding:0 1rem;overflow-wrap:anywhere}button{font:inherit;padding:.6rem 1.2rem;margin:.3rem .3rem .3rem 0}"
        "article{border-top:1px solid #bbb;padding:.5rem 0}pre{white-space:pre-wrap;font:inherit}"
        "td{padding:.2rem .8rem .2rem 0}</style>"
        f"<body><h1>{title}</h1>{body}</body></html>"
    )
    return HTMLResponse(text, status, PAGE_HEADERS)


def check_token(request: Request, token: str) -> None:
    """Refuse a request that does not carry the token.

    Raises:
        ApiError: 401.
    """
    given = request.headers.get("Authorization", "")
    if not hmac.compare_digest(given.encode(), f"Bearer {token}".encode()):
        raise ApiError(401, "unauthorised")


async def read_body(request: Request, of: type[Body]) -> Body:
    """Return the body of a request.

    Raises:
        ApiError: 400 or 422, if it is not JSON or not of the type.
    """
    try:
        return msgspec.json.decode(await request.body(), type=of)
    except msgspec.ValidationError:
        raise ApiError(422, "invalid") from None
    except UNREADABLE:
        raise ApiError(400, "invalid") from None


def read_key(request: Request, body: object = None) -> IdempotencyKey:
    """Return the idempotency key of a request with the digest of its body.

    Raises:
        ApiError: 400, if there is none.
    """
    key = request.headers.get("Idempotency-Key", "")
    if not key:
        raise ApiError(400, "idempotency_key_missing")
    digest = hashlib.sha256(msgspec.json.encode(body, order="sorted")).hexdigest()
    return IdempotencyKey(key, digest)


def make_id(prefix: str) -> str:
    """Return a new id that cannot be guessed, such as `PM3f9a...`.

    >>> make_id("PM")[:2], len(make_id("PM"))
    ('PM', 18)
    """
    return prefix + secrets.token_hex(8)
