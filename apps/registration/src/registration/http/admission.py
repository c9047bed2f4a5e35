"""The checks of every request: limits of its body, headers of security, one line of the log, counts and windows.

The log and the counts have the method, the template of the route, the status and the time. A session has a window
for its requests and a number of event streams; one too many is refused, and nothing waits. This module must never
put an address, a query, a header or a body into a log.
"""

from __future__ import annotations

import asyncio
import logging
import time
import traceback
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncIterator, Iterable, Mapping
from pathlib import Path

from msgspec import Struct
from starlette.responses import StreamingResponse
from starlette.routing import BaseRoute, Match, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from registration.http.problems import TRY_AGAIN, Problem, unavailable

_RETRY_AFTER = 5.0
_TOO_MANY = "This conversation is open in too many places. Please close some of them."


class OpenStreams:
    """Counts the event streams that are open; for the event loop's thread.

    Args:
        most: the most streams in this process.
        most_of_session: the most streams of one session.
    """

    def __init__(self, most: int, most_of_session: int) -> None:
        self._most = most
        self._most_of_session = most_of_session
        self._open: Counter[str] = Counter()

    @property
    def count(self) -> int:
        """The number of streams that are open."""
        return self._open.total()

    def add(self, session: str) -> None:
        """Count a stream that begins.

        Args:
            session: whose stream it is.

        Raises:
            Problem: there are too many.
        """
        if self._open[session] >= self._most_of_session:
            raise Problem("too_many_requests", _TOO_MANY, _RETRY_AFTER)
        if self.count >= self._most:
            raise unavailable(_RETRY_AFTER)
        self._open[session] += 1

    def remove(self, session: str) -> None:
        """Count a stream that ended."""
        self._open[session] -= 1
        if self._open[session] <= 0:
            del self._open[session]


class EventStream(StreamingResponse):
    """A stream of events, which is counted until it ends.

    Args:
        streams: counts it.
        session: whose stream it is.
        content: the stream.
        headers: of the response.

    Raises:
        Problem: there are too many.
    """

    def __init__(
        self,
        streams: OpenStreams,
        session: str,
        content: AsyncIterator[bytes],
        headers: Mapping[str, str],
    ) -> None:
        super().__init__(content, media_type="text/event-stream", headers=headers)
        self._streams = streams
        self._session = session
        streams.add(session)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the stream."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._streams.remove(self._session)


class RequestTimes(Struct):
    """The requests of one kind: how many there were, and how many seconds they took together."""

    count: int = 0
    seconds: float = 0.0


class RequestCounts:
    """Counts requests by method, template of the route, and status; for the event loop's thread.

    >>> counts = RequestCounts()
    >>> counts.add("POST", "/chat", 200, 0.5)
    >>> counts.read()["POST", "/chat", 200].count
    1
    """

    def __init__(self) -> None:
        self._times: dict[tuple[str, str, int], RequestTimes] = {}

    def add(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a request.

        Args:
            method: its method.
            route: the template of its route, such as `/sessions/{session_id}`.
            status: the status of the response.
            seconds: how long it took.
        """
        times = self._times.setdefault((method, route, status), RequestTimes())
        times.count += 1
        times.seconds += seconds

    def read(self) -> Mapping[tuple[str, str, int], RequestTimes]:
        """Return the counts by method, route and status."""
        return dict(self._times)


_MOST_SESSIONS = 10_000


class RequestWindow:
    """Limits the requests of each session.

    Args:
        most: the requests within a window.
        seconds: the length of the window.

    >>> window = RequestWindow(1, 10.0)
    >>> window.count("s1", 0.0), window.count("s1", 4.0)
    (None, 6.0)
    """

    def __init__(self, most: int, seconds: float) -> None:
        self._most = most
        self._seconds = seconds
        self._times: OrderedDict[str, deque[float]] = OrderedDict()

    def count(self, session: str, now: float) -> float | None:
        """Count a request; return None, or after how many seconds one is accepted.

        Args:
            session: whose request it is.
            now: seconds of a monotonic clock.
        """
        times = self._times.setdefault(session, deque())
        self._times.move_to_end(session)
        while times and times[0] <= now - self._seconds:
            times.popleft()
        if len(times) >= self._most:
            return times[0] + self._seconds - now
        times.append(now)
        if len(self._times) > _MOST_SESSIONS:
            self._times.popitem(last=False)
        return None


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
        except Exception as error:  # noqa: BLE001 -- its text may quote a person
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
