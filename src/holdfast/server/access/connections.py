"""Serves HTTP connections within bounds: how many there are, and how long a request head may take.

uvicorn closes a connection that is idle after a response, but waits without end for a first request,
for the rest of a head, and for the rest of a body that nobody reads. A caller could hold all
connections in this way. So each connection that has no request in progress has a deadline; and when
there are too many connections, the one that has been idle for the longest time makes room. The bounds
are the same for both parsers of HTTP that uvicorn has.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol, cast

import uvicorn
from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from holdfast.core.argument_checks import check_arguments
from holdfast.core.constraints import PositiveFloat, PositiveInt
from holdfast.server.access.asgi import ASGIApp, Scope

CONNECTION = "holdfast.connection"
"""The connection of a request, in the state of its scope."""

MOST_CONNECTIONS = 10_000
HEAD_SECONDS = 10.0

SECONDS_TO_BE_KNOWN = 1.0
"""Seconds that a connection has to send a request with a known key, however many there are.

So that thousands of clients that come back at the same time do not end each other.
"""

_BUSY = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nRetry-After: 1\r\n"
    b"Connection: close\r\n\r\n"
)
_LARGEST_HEAD = 65_536
"""The bytes of a head, as uvicorn limits them with h11."""

_TOO_SLOW = b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


class _Cycle(Protocol):
    """A request and its response, as uvicorn keeps them."""

    response_complete: bool


def note_caller(scope: Scope, *, is_known: bool) -> None:
    """Note on the connection of a request whether it is known who sends it.

    Args:
        scope: the request.
        is_known: whether its key, or who it is, was recognized.
    """
    note = scope.get("state", {}).get(CONNECTION)
    if note is not None:
        note(is_known=is_known)


class ConnectionBounds:
    """The bounds of the connections of one server.

    A tenth of the connections is for callers that are not known: those that have sent no request yet, or
    one that a service does not let through. Of those that are older than a second, the oldest makes room.

    Args:
        most: the maximum number of connections.
        head_seconds: seconds in which the head of a request must arrive.

    Raises:
        ConfigurationError: one is not a number above 0.
    """

    @check_arguments
    def __init__(
        self, most: PositiveInt = MOST_CONNECTIONS, head_seconds: PositiveFloat = HEAD_SECONDS
    ) -> None:
        self.most = most
        self.head_seconds = head_seconds
        self.open = 0
        self.unknown = _UnknownCallers(max(1, most // 10))
        """The connections of callers that are not known."""
        self.idle: OrderedDict[BoundedConnection, None] = OrderedDict()
        """The connections without a request in progress, the longest idle one first."""


class _UnknownCallers:
    """The connections of callers that are not known, the oldest one first.

    Args:
        most: the maximum number of those that are older than `SECONDS_TO_BE_KNOWN`.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._since: OrderedDict[BoundedConnection, float] = OrderedDict()
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        """How many there are."""
        return len(self._since)

    def add(self, connection: BoundedConnection) -> None:
        """Count a connection until it is known whose it is, or it ends."""
        self._since.setdefault(connection, connection.loop.time())
        self._end_oldest(connection.loop)

    def discard(self, connection: BoundedConnection) -> None:
        """Count a connection no more."""
        self._since.pop(connection, None)

    def _end_oldest(self, loop: asyncio.AbstractEventLoop) -> None:
        while len(self._since) > self._most:
            oldest, since = next(iter(self._since.items()))
            rest = since + SECONDS_TO_BE_KNOWN - loop.time()
            if rest > 0:
                if self._timer is None:
                    self._timer = loop.call_later(rest, self._look_again, loop)
                return
            del self._since[oldest]
            oldest.transport.abort()

    def _look_again(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = None
        self._end_oldest(loop)


class BoundedConnection:
    """One connection, which is closed when its request does not come in time.

    Args:
        bounds: the bounds of all connections of the server.
        is_in_head: whether a part of the head of a request has arrived, and not all of it.
    """

    def __init__(self, bounds: ConnectionBounds, is_in_head: Callable[[], bool]) -> None:
        self._bounds = bounds
        self._is_in_head = is_in_head
        self._with_head: _Cycle | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self.loop: asyncio.AbstractEventLoop
        self.transport: asyncio.Transport

    def begin(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        """Begin, and make room if there are too many connections."""
        self.transport, self.loop = transport, loop
        bounds = self._bounds
        bounds.open += 1
        bounds.unknown.add(self)
        if bounds.open > bounds.most:
            if not bounds.idle:
                bounds.unknown.discard(self)
                transport.write(_BUSY)
                transport.close()
                return
            oldest, _ = bounds.idle.popitem(last=False)
            oldest.transport.abort()
        self.watch(None)

    def end(self) -> None:
        """End."""
        self._bounds.open -= 1
        self._bounds.idle.pop(self, None)
        self._bounds.unknown.discard(self)
        self._stop_deadline()

    def note_caller(self, *, is_known: bool) -> None:
        """Note whether it is known who sends the request in progress."""
        if is_known or self.transport.is_closing():
            self._bounds.unknown.discard(self)
        else:
            self._bounds.unknown.add(self)

    def note_response(self, cycle: _Cycle | None) -> None:
        """Note that a response is complete: the connection is idle again, if no further request waits."""
        is_idle = cycle is None or cycle.response_complete
        if is_idle and not self.transport.is_closing():
            self._bounds.idle[self] = None
            self._bounds.idle.move_to_end(self)

    def watch(self, cycle: _Cycle | None) -> None:
        """Look at the connection after data has arrived.

        Args:
            cycle: its latest request whose head is complete; None if there was none.
        """
        if cycle is not None and cycle is not self._with_head and not self.transport.is_closing():
            self._with_head = cycle
            self._bounds.unknown.discard(self)  # the application says whether it knows the caller
        if cycle is not None and not cycle.response_complete:
            self._bounds.idle.pop(self, None)
            self._stop_deadline()
        elif self._deadline is None and not self.transport.is_closing():
            self._bounds.idle.setdefault(self, None)
            self._deadline = self.loop.call_later(self._bounds.head_seconds, self._end_waiting)

    def _stop_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _end_waiting(self) -> None:
        self._deadline = None
        if self._with_head is None and self._is_in_head():
            self.transport.write(_TOO_SLOW)
        self.transport.close()


class BoundedH11Protocol(H11Protocol):
    """A connection of uvicorn with bounds, whose requests are parsed by h11.

    Args:
        bounds: the bounds of all connections of the server.
        config: as for uvicorn; so are the arguments that follow.
    """

    def __init__(
        self,
        bounds: ConnectionBounds,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        self._bounded = BoundedConnection(bounds, self._is_in_head)
        state = {**app_state, CONNECTION: self._bounded.note_caller}
        super().__init__(config, server_state, state, _loop)

    def _is_in_head(self) -> bool:
        return bool(self.conn.trailing_data[0])

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin."""
        super().connection_made(transport)
        self._bounded.begin(transport, self.loop)

    def connection_lost(self, exc: Exception | None) -> None:
        """End."""
        super().connection_lost(exc)
        self._bounded.end()

    def data_received(self, data: bytes) -> None:
        """Read, and see whether that completed the head of a request."""
        super().data_received(data)
        self._bounded.watch(self.cycle)

    def on_response_complete(self) -> None:
        """Note that the connection is idle again."""
        super().on_response_complete()
        self._bounded.note_response(self.cycle)


_PROTOCOLS: dict[str, Callable[..., asyncio.Protocol]] = {"h11": BoundedH11Protocol}

try:
    from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
except ModuleNotFoundError:
    pass
else:

    class BoundedHttpToolsProtocol(HttpToolsProtocol):
        """A connection of uvicorn with bounds, whose requests are parsed by httptools in C.

        That parser has no limit for a head, for the names of chunks and for the headers after a body, which
        it would add to those of a request that was let through. Here it has the limit of h11.

        Args:
            bounds: the bounds of all connections of the server.
            config: as for uvicorn; so are the arguments that follow.
        """

        def __init__(
            self,
            bounds: ConnectionBounds,
            config: Config,
            server_state: ServerState,
            app_state: dict[str, Any],
            _loop: asyncio.AbstractEventLoop | None = None,
        ) -> None:
            self._bounded = BoundedConnection(bounds, self._is_in_head)
            state = {**app_state, CONNECTION: self._bounded.note_caller}
            super().__init__(config, server_state, state, _loop)
            self._has_begun = False
            self._has_head = False
            self._unread = 0
            """Bytes since the last head or piece of a body."""

        def _is_in_head(self) -> bool:
            return self._has_begun

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            """Begin."""
            super().connection_made(transport)
            self._bounded.begin(transport, self.loop)

        def connection_lost(self, exc: Exception | None) -> None:
            """End."""
            super().connection_lost(exc)
            self._bounded.end()

        def data_received(self, data: bytes) -> None:
            """Read, and see whether that completed the head of a request."""
            self._unread += len(data)
            super().data_received(data)
            if self._unread > _LARGEST_HEAD and not self.transport.is_closing():
                self._refuse()
            self._bounded.watch(self.cycle)

        def _refuse(self) -> None:
            cycle: RequestResponseCycle | None = self.cycle
            if cycle is None or cycle.response_complete or not cycle.response_started:
                self.send_400_response("Invalid HTTP request received.")
            else:
                self.transport.abort()

        def on_message_begin(self) -> None:
            """Begin a head."""
            self._has_begun, self._has_head = True, False
            super().on_message_begin()

        def on_header(self, name: bytes, value: bytes) -> None:
            """Note a header, unless it comes after the body."""
            if not self._has_head:
                super().on_header(name, value)

        def on_headers_complete(self) -> None:
            """Begin a request, whose head is complete."""
            self._has_begun, self._has_head, self._unread = False, True, 0
            super().on_headers_complete()

        def on_body(self, body: bytes) -> None:
            """Note a piece of a body."""
            self._unread = 0
            super().on_body(body)

        def on_response_complete(self) -> None:
            """Note that the connection is idle again."""
            super().on_response_complete()
            self._bounded.note_response(self.cycle)

    _PROTOCOLS["httptools"] = BoundedHttpToolsProtocol


def find_protocol(parser: str = "") -> Callable[..., asyncio.Protocol]:
    """Return the class of connections.

    Args:
        parser: "h11" or "httptools"; "" for the fastest one that is installed.

    >>> find_protocol("h11").__name__
    'BoundedH11Protocol'
    """
    return _PROTOCOLS[parser] if parser else list(_PROTOCOLS.values())[-1]


def make_server_config(
    app: ASGIApp | str,
    host: str = "127.0.0.1",
    port: int = 0,
    bounds: ConnectionBounds | None = None,
) -> uvicorn.Config:
    """Return the configuration with which `holdfast serve` runs uvicorn.

    A request whose head does not arrive in time is answered with 408, and when there are too many
    connections, the longest idle one is closed. Callers without a key that is known have at most a tenth of
    the connections: the oldest of theirs is closed. Headers of proxies and the access log are left to the
    application. Set further settings, such as `proxy_headers` or `ssl_certfile`, on the result, or pass
    its `http` to `uvicorn.run`, for example together with `workers`.

    Args:
        app: the application, or where uvicorn imports it from, such as "chat:app".
        host: the address to listen on.
        port: the port to listen on; 0 for any free one.
        bounds: the bounds of the connections; None for those of `holdfast serve`.

    >>> make_server_config("chat:app", port=8000).port
    8000
    """
    # Not a class of its own: with several workers, uvicorn pickles it. Each worker has its own bounds.
    http = cast("type[asyncio.Protocol]", partial(find_protocol(), bounds or ConnectionBounds()))
    return uvicorn.Config(
        app,
        host,
        port,
        http=http,
        ws="none",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        log_config=None,
        timeout_keep_alive=15,
        backlog=2048,
    )


def raise_file_limit(least: int = MOST_CONNECTIONS + 500) -> int:
    """Allow this process to open more files, as far as the system lets it; return how many.

    Args:
        least: how many are wanted.
    """
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return least
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= least:
        return least if soft == resource.RLIM_INFINITY else soft
    wanted = least if hard == resource.RLIM_INFINITY else min(least, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return wanted
