"""What every request passes: limits of its body, headers of security, one line of the log, and a count.

The log and the counts have the method, the template of the route, the status and the time. This module
must never put an address, a query, a header or a body into a log.
"""

from __future__ import annotations

import asyncio
import logging
import time
import traceback
from collections.abc import Iterable, Mapping
from pathlib import Path

from starlette.routing import BaseRoute, Match, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from registration.http.problems import TRY_AGAIN, Problem
from registration.http.request_counts import RequestCounts

BODY_SECONDS = 15.0
"""Seconds in which a body must arrive, and one more for each `LEAST_RATE` bytes."""

LEAST_RATE = 16_000
_NO_ROUTE = "(none)"
_LEFT = 499  # the caller left before there was an answer
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})

SECURITY_HEADERS: Mapping[bytes, bytes] = {
    b"content-security-policy": b"default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    b"x-content-type-options": b"nosniff",
    b"x-frame-options": b"DENY",
    b"referrer-policy": b"no-referrer",
    b"cross-origin-opener-policy": b"same-origin",
    b"cross-origin-resource-policy": b"same-origin",
    b"permissions-policy": b"geolocation=(), microphone=(), payment=()",
    b"cache-control": b"no-store",
}
"""Added to every response that does not have them."""

_log = logging.getLogger("registration.access")


class RequestWatch:
    """A middleware that adds headers to each response, counts the request, and logs it.

    Args:
        app: the application.
        routes: gives the template of a route.
        counts: counts the requests.
        is_secure: whether browsers reach the service by https.
    """

    def __init__(
        self, app: ASGIApp, *, routes: Iterable[BaseRoute], counts: RequestCounts, is_secure: bool
    ) -> None:
        self._app = app
        self._routes = tuple(routes)
        self._counts = counts
        self._headers = dict(SECURITY_HEADERS)
        if is_secure:
            self._headers[b"strict-transport-security"] = b"max-age=31536000"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Call the application."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begun, status = time.monotonic(), _LEFT

        async def watch(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = list(message.get("headers", ()))
                names = {name.lower() for name, _ in headers}
                missing = ((k, v) for k, v in self._headers.items() if k not in names)
                message["headers"] = [*headers, *missing]
            await send(message)

        try:
            await self._app(scope, receive, watch)
        except Exception as error:  # noqa: BLE001 -- its text may quote what a person wrote
            _log.error("a request failed: %s at %s", type(error).__name__, _find_place(error))
            if status == _LEFT:
                await Problem("failed", TRY_AGAIN).respond()(scope, receive, watch)
        finally:
            seconds = time.monotonic() - begun
            method = scope["method"] if scope["method"] in _METHODS else "OTHER"
            route = self._find_template(scope)
            self._counts.add(method, route, status, seconds)
            _log.info("%s %s %s %.0f ms", method, route, status, seconds * 1000)

    def _find_template(self, scope: Scope) -> str:
        for route in self._routes:
            if route.matches(scope)[0] is not Match.NONE:
                return route.path if isinstance(route, Route) else getattr(route, "path", _NO_ROUTE)
        return _NO_ROUTE


class BodyLimits:
    """A middleware that refuses bodies that are too long, and those that arrive too slowly.

    An address with a zero byte is refused, too: no row of PostgreSQL can have one.

    Args:
        app: the application.
        most: the greatest number of bytes.
    """

    def __init__(self, app: ASGIApp, *, most: int) -> None:
        self._app = app
        self._most = most

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Call the application with a body that is limited."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if "\0" in scope["path"] or b"%00" in scope["query_string"]:
            refused = Problem("bad_request", "The address cannot be read.")
            await refused.respond()(scope, receive, send)
            return
        length = next((v for k, v in scope["headers"] if k == b"content-length"), b"")
        if length.isdigit() and int(length) > self._most:
            await self._refuse_length().respond()(scope, receive, send)
            return
        body = _Body(BODY_SECONDS)

        async def read() -> Message:
            message = await body.receive(receive)
            if body.count > self._most:
                raise self._refuse_length()
            return message

        await self._app(scope, read, send)

    def _refuse_length(self) -> Problem:
        return Problem("too_large", f"The body is longer than {self._most} bytes.")


def _find_place(error: Exception) -> str:
    """Return where an error was raised: the file and the line, without a value."""
    frames = traceback.extract_tb(error.__traceback__)
    return "/".join(f"{Path(one.filename).stem}:{one.lineno}" for one in frames[-3:])


class _Body:
    """The part of a body that has arrived."""

    def __init__(self, seconds: float) -> None:
        self.count = 0
        self._seconds = seconds
        self._begun = time.monotonic()
        self._is_complete = False

    async def receive(self, receive: Receive) -> Message:
        """Return the next message. Raises Problem when the body takes too long."""
        if self._is_complete:
            return await receive()
        left = self._begun + self._seconds + self.count / LEAST_RATE - time.monotonic()
        try:
            async with asyncio.timeout(left):
                message = await receive()
        except TimeoutError:
            raise Problem("too_slow", "The body did not arrive in time.") from None
        self.count += len(message.get("body", b""))
        self._is_complete = not message.get("more_body", False)
        return message
