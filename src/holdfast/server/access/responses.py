"""Looks at every response: security headers, the access log, and the metrics of requests.

The log has no query string, no token and no text of a message. A path is written with escapes, so
that it cannot contain a line of its own.
"""

from __future__ import annotations

import inspect
import logging
import time
from collections.abc import Callable, Mapping
from urllib.parse import quote

from holdfast.server.access.asgi import (
    ASGIApp,
    Message,
    Receive,
    Scope,
    Send,
    find_route_path,
    refuse,
)
from holdfast.server.access.authentication import find_address
from holdfast.server.access.budgets import READS, Takes
from holdfast.server.access.callers import STATE, Caller
from holdfast.server.health.journal_outage import JournalOutage, WaitingRequest
from holdfast.server.health.service_metrics import ServiceMetrics
from holdfast.server.problem_responses import make_journal_problem

access_log = logging.getLogger("holdfast.server.access")
"""One line for each request. `holdfast serve` writes it to standard error."""

SECURITY_HEADERS = {
    b"content-security-policy": (
        b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
        b"font-src 'self'; connect-src 'self'; manifest-src 'self'; base-uri 'none'; "
        b"form-action 'self'; frame-ancestors 'none'"
    ),
    b"x-content-type-options": b"nosniff",
    b"x-frame-options": b"DENY",
    b"referrer-policy": b"no-referrer",
    b"cross-origin-opener-policy": b"same-origin",
    b"cross-origin-resource-policy": b"same-origin",
    b"cache-control": b"no-store",
}
"""Added to every response that does not have them."""

_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_LONGEST_PATH = 300


class _AlreadyRefusedError(OSError):
    """A request was answered while its route waited for the journal; as if the caller had left."""


class ResponseWatch:
    """A middleware that adds headers to responses, and counts and logs them.

    Args:
        app: the application.
        metrics: counts the requests.
        outage: answers the requests that wait while the journal cannot be reached.
        monotonic: a clock in seconds that does not go back.
    """

    def __init__(
        self,
        app: ASGIApp,
        metrics: ServiceMetrics,
        outage: JournalOutage,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._app = app
        self._metrics = metrics
        self._outage = outage
        self._monotonic = monotonic

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Call the application."""
        begun = self._monotonic()
        path, status = find_route_path(scope), 0

        async def watch(message: Message) -> None:
            if waiting.is_refused:
                raise _AlreadyRefusedError
            await answer(message)

        async def answer(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                self._outage.remove(waiting)
                status = message["status"]
                message["headers"] = add_security_headers(list(message.get("headers", ())))
                self._metrics.note_request(
                    name_method(scope), name_route(scope, path), status, self._monotonic() - begun
                )
            await send(message)

        async def refuse_request() -> None:
            await refuse(make_journal_problem())(scope, receive, answer)

        waiting = WaitingRequest(refuse_request, begun)
        self._outage.add(waiting)
        try:
            await self._app(scope, receive, watch)
        except Exception:
            if not waiting.is_refused:
                raise
        finally:
            self._outage.remove(waiting)
            if access_log.isEnabledFor(logging.INFO):
                access_log.info("%s", describe_request(scope, status, self._monotonic() - begun))


def add_security_headers(headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """Return the headers of a response with the security headers that it does not have."""
    present = {name.lower() for name, _ in headers}
    headers += [(name, value) for name, value in SECURITY_HEADERS.items() if name not in present]
    return headers


def name_method(scope: Scope) -> str:
    """Return the method of a request; "other" if it is unusual."""
    method = str(scope["method"])
    return method if method in _METHODS else "other"


def name_route(scope: Scope, path: str) -> str:
    """Return the path of the route of a request, with the names of its parameters.

    Args:
        scope: the request, after a router has seen it.
        path: its path below the service.

    >>> name_route({"path_params": {"id": "ada"}, "endpoint": print}, "/sessions/ada/events")
    '/sessions/{id}/events'
    """
    # A mounted application that has no such route is an endpoint too, but not a function.
    if not inspect.isroutine(scope.get("endpoint")):
        return path if path in FIXED_PATHS else "unmatched"
    names = scope.get("path_params", {})
    if "path" in names:
        return "unmatched"  # anything below a path, before the routes there were looked at
    named = f"{path}/"
    for name, value in names.items():
        if str(value):
            named = named.replace(f"/{value}/", f"/{{{name}}}/", 1)
    return named[:-1] or "/"


FIXED_PATHS: Mapping[str, Takes] = {
    "/health": ("connections",),
    "/ready": ("connections",),
    "/metrics": READS,
    "/console/sign-in": ("connections", "tries"),
    "/console/session": READS,
    "/console/sign-out": READS,
}
"""The paths that are answered before any route, and the budgets that they take from."""


def describe_request(scope: Scope, status: int, seconds: float) -> str:
    """Return the line of the access log for a request.

    Args:
        scope: the request.
        status: the status of the response; 0 if none was sent.
        seconds: seconds until the response was complete.
    """
    caller = scope.get("state", {}).get(STATE)
    principal = caller.principal if isinstance(caller, Caller) else None
    who = (principal.key_id or principal.name) if principal is not None else "-"
    path = quote(str(scope["path"]), safe="/:@!$&'()*+,;=~")
    if len(path) > _LONGEST_PATH:
        path = f"{path[:_LONGEST_PATH]}..."
    sent = str(status) if status else "aborted"
    address = quote(find_address(scope), safe=":.")
    return (
        f"{name_method(scope)} {path} {sent} {seconds * 1000:.0f}ms {address or '-'} {quote(who)}"
    )
