"""Answers web pages of other sites that were named in `allowed_origins` (CORS), and no others.

Such a page calls with a key. Cookies are never sent along: a page of another site has none.
"""

from __future__ import annotations

from collections.abc import Collection

from starlette.responses import Response

from holdfast.server.access.asgi import ASGIApp, Message, Receive, Scope, Send, find_header

_ALLOWED = (
    ("Access-Control-Allow-Methods", "GET, HEAD, POST, PATCH, DELETE"),
    (
        "Access-Control-Allow-Headers",
        "Authorization, Content-Type, Accept, Idempotency-Key, Last-Event-ID",
    ),
    ("Access-Control-Max-Age", "600"),
)
_EXPOSED = b"Location, Retry-After"


class CrossOrigin:
    """A middleware that adds the headers of CORS for named origins.

    Args:
        app: the application.
        allowed: the origins.
    """

    def __init__(self, app: ASGIApp, allowed: Collection[str]) -> None:
        self._app = app
        self._allowed = frozenset(allowed)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a question of a browser, or call the application."""
        origin = find_header(scope["headers"], b"origin")
        if origin not in self._allowed:
            await self._app(scope, receive, send)
            return
        headers = [
            (b"access-control-allow-origin", origin.encode("latin-1")),
            (b"access-control-expose-headers", _EXPOSED),
            (b"cross-origin-resource-policy", b"cross-origin"),
            (b"vary", b"Origin"),
        ]

        async def add_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *headers]
            await send(message)

        if is_preflight(scope):
            await Response(status_code=204, headers=dict(_ALLOWED))(scope, receive, add_headers)
        else:
            await self._app(scope, receive, add_headers)


def is_preflight(scope: Scope) -> bool:
    """Whether a browser asks what a page of another site may do."""
    asks = find_header(scope["headers"], b"access-control-request-method")
    return scope["method"] == "OPTIONS" and bool(asks)
