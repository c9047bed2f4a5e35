"""One request and its response over the client library, and the objects that requests share.

`http_failures` turns every exception of the library into a TransportError. For each piece of a body,
only two reads of the clock are added. A reader that gathers is not woken for each piece: the pieces
wait in the buffer of the library. A request whose kept connection its server closed at the same moment
is sent again once, which is no retry: nobody is notified, and nothing waits or counts. The library joins the
headers and the body into one block, which copies the body, and reads a body of more than a megabyte as
a file, in small pieces; a large body is therefore written after the headers.
"""

from __future__ import annotations

import re
import warnings
from asyncio import AbstractEventLoop, CancelledError, Future, get_running_loop
from collections.abc import Awaitable, Coroutine, Iterator, Mapping
from contextvars import ContextVar
from functools import partial
from ssl import SSLContext
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self, TypeVar, overload
from urllib.parse import quote, urlsplit
from weakref import ref

import aiohttp
from aiohttp import ClientResponse, ClientSession, ClientTimeout, Payload, StreamReader
from aiohttp.abc import AbstractStreamWriter
from aiohttp.client_proto import ResponseHandler
from aiohttp.client_reqrep import ClientRequest
from aiohttp.connector import Connection
from aiohttp.hdrs import CONTENT_TYPE
from msgspec import Struct
from yarl import URL

from holdfast.core.detached_errors import clean_client_error
from holdfast.core.errors import TransportError
from holdfast.transport.client_pool import (
    ClientPool,
    UnusableConnectionError,
    UsedConnections,
    find_proxy,
)
from holdfast.transport.credentials import find_secrets
from holdfast.transport.http_failures import (
    PROXY_LOGIN,
    Destination,
    bad_request_error,
    proxy_login_error,
    timeout_error,
    transport_error,
)
from holdfast.transport.network_waits import NetworkWaits
from holdfast.transport.port import HttpRequest, SilenceNote, Timeouts
from holdfast.transport.timers import Watchdog

if TYPE_CHECKING:
    from multidict import CIMultiDictProxy

# There are usually few URLs and limits; the caches are limited for programs with generated ones.
_MOST_CACHED = 256

_NOTED_SILENCE = 0.1

_LONGEST_RACE = 1.0
"""Seconds after which the end of a kept connection is not a race with the request any more."""

# This module uses private parts of the library. The second version is the first untested one, as in
# pyproject.toml.
_TESTED_FROM, _UNTESTED_FROM = (3, 13), (3, 15)

_KEEP_ALIVE_COMMENTS = "text/event-stream"
_STRAY_PERCENT = re.compile(r"%(?![0-9A-Fa-f]{2})")
T = TypeVar("T")
_used_connections = UsedConnections()
# Weak, since a connection keeps the context in which it was opened, and would keep its owner with it.
_sending: ContextVar[ref[Exchange]] = ContextVar("holdfast_exchange")

LARGE: Final = 2**16
"""The size in bytes from which a copy costs more than a second write to the socket."""

_PIECE = 2**20


def warn_of_untested_client(version: str) -> None:
    """Warn if the transport was not tested with a version of the client library.

    Args:
        version: the version, such as "3.14.5".

    >>> warn_of_untested_client("3.14.5")
    """
    numbers = tuple(int(number) for number in re.findall(r"\d+", version)[:2])
    if not _TESTED_FROM <= numbers < _UNTESTED_FROM:
        least, most = (".".join(map(str, bound)) for bound in (_TESTED_FROM, _UNTESTED_FROM))
        warnings.warn(
            f"holdfast was not tested with aiohttp {version}, and uses private parts of it: requests "
            f"may fail or hang. Install a tested version: pip install 'aiohttp>={least},<{most}'",
            RuntimeWarning,
            stacklevel=2,
        )


class RequestTarget(Struct, frozen=True):
    """A parsed URL: where to connect, and what errors may show of it."""

    url: URL
    host: str
    proxy: URL | None

    def to_destination(self, *, sent: bool) -> Destination:
        """Return what errors may show of the URL."""
        return Destination(self.host, sent, _format_host(self.proxy) if self.proxy else "")


class SharedClient:
    """The objects that the requests of one transport share: sessions and parsed URLs.

    Args:
        connections: the maximum number of connections of one loop; 0 means no limit.
        idle: seconds until an unused connection is closed.
        tls: the TLS context; None for the system's certificate authorities.
    """

    def __init__(self, connections: int, idle: float, tls: SSLContext | None) -> None:
        warn_of_untested_client(aiohttp.__version__)
        self._parsed_targets: dict[str, RequestTarget] = {}
        self._connect_limits: dict[tuple[float | None, float | None], ClientTimeout] = {}
        self.pool = ClientPool(partial(_make_session, connections, idle, tls))

    def new_exchange(self, request: HttpRequest, timeouts: Timeouts) -> Exchange:
        """Create a request that is not sent yet."""
        return Exchange(self, request, timeouts)

    def find_target(self, address: str) -> RequestTarget:
        """Parse a URL, and look up the environment's proxy once for each URL."""
        target = self._parsed_targets.get(address)
        if target is None:
            target = _parse_target(address)
            if len(self._parsed_targets) >= _MOST_CACHED:
                self._parsed_targets.clear()
            self._parsed_targets[address] = target
        return target

    def connect_timeout(self, timeouts: Timeouts) -> ClientTimeout:
        """Return the limit that the library checks; the watchdog checks the others."""
        key = (timeouts.connect, timeouts.total)
        client_timeout = self._connect_limits.get(key)
        if client_timeout is None:
            if len(self._connect_limits) >= _MOST_CACHED:
                self._connect_limits.clear()
            limits = [limit for limit in key if limit is not None]
            client_timeout = self._connect_limits[key] = ClientTimeout(
                connect=min(limits, default=None)
            )
        return client_timeout


def _make_session(connections: int, idle: float, tls: SSLContext | None) -> ClientSession:
    connector = aiohttp.TCPConnector(
        limit=connections,
        keepalive_timeout=idle,
        ssl=True if tls is None else tls,
    )
    # The library has no public option for the class of its connections.
    connector._factory = partial(_make_handler, get_running_loop())  # noqa: SLF001
    session = ClientSession(
        connector=connector,
        cookie_jar=aiohttp.DummyCookieJar(),
        headers={"User-Agent": "holdfast"},
        request_class=_WatchedRequest,
    )
    # The library repeats a GET after a broken connection, and has no public option against it.
    session._retry_connection = False  # noqa: SLF001
    return session


class _WatchedRequest(ClientRequest):
    """Notifies the exchange of this task when the request has a connection that can carry it."""

    def send(self, conn: Connection) -> Coroutine[object, object, ClientResponse]:
        if (exchange := _sending.get()()) is not None:
            exchange.note_connection(conn)
        return super().send(conn)


class _GatheringHandler(ResponseHandler):
    """A connection that wakes a reader that gathers when the buffer is full, and notes that bytes came."""

    has_received = False

    def data_received(self, data: bytes) -> None:
        """Take bytes from the socket."""
        self.has_received = True
        super().data_received(data)

    def pause_reading(self) -> None:
        """Stop reading from the socket until the reader has emptied the buffer."""
        super().pause_reading()
        waiter = self._payload._eof_waiter if self._payload is not None else None  # noqa: SLF001
        if waiter is not None:
            _wake(waiter)


def _make_handler(loop: AbstractEventLoop) -> ResponseHandler:
    return _GatheringHandler(loop)


class _Headers(Mapping[str, str]):
    """The library's headers, converted only on access: most headers of a response are never read."""

    __slots__ = ("_library_headers",)

    def __init__(self, library_headers: CIMultiDictProxy[str]) -> None:
        self._library_headers = library_headers

    def __getitem__(self, name: str) -> str:
        return ", ".join(self._library_headers.getall(name))

    @overload
    def get(self, name: str, /) -> str | None: ...
    @overload
    def get(self, name: str, /, default: str | T) -> str | T: ...
    def get(self, name: str, /, default: T | None = None) -> str | T | None:
        """Return a header or the default; without an exception, because most names are missing."""
        values = self._library_headers.getall(name, None)
        return default if values is None else ", ".join(values)

    def __contains__(self, name: object) -> bool:
        return name in self._library_headers

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys(name.lower() for name in self._library_headers))

    def __len__(self) -> int:
        return len(set(self))


class Exchange:
    """The context manager of one request, and its `Response`."""

    __slots__ = (
        "__weakref__",
        "_all_is_content",
        "_body_began",
        "_client",
        "_ended",
        "_kept_connection",
        "_needs_new_connection",
        "_request",
        "_response",
        "_target",
        "_timeouts",
        "_waits",
        "_watchdog",
        "headers",
        "status",
    )

    _response: ClientResponse
    _target: RequestTarget
    _waits: NetworkWaits
    _watchdog: Watchdog

    def __init__(self, client: SharedClient, request: HttpRequest, timeouts: Timeouts) -> None:
        self._client = client
        self._request = request
        self._timeouts = timeouts
        self._body_began = False
        self._ended = False
        self._kept_connection: _GatheringHandler | None = None
        self._needs_new_connection = request.is_once

    async def __aenter__(self) -> Self:
        self._target = self._client.find_target(self._request.url)
        sessions = self._client.pool
        opened = sessions.find_open() or await sessions.open()
        watch = self._watchdog = Watchdog(opened.timers, self._timeouts)
        waits = self._waits = opened.waits
        waits.count += 1
        token = _sending.set(ref(self))
        failure: TransportError | None = None
        try:
            self._response = await self._send_request(opened.session)
        except (aiohttp.ClientError, OSError, ValueError, RuntimeError) as error:
            failure = self._abort_request(error)
        except BaseException as stopped:
            watch.drop_connection()
            watch.stop()
            self._note_silence(stopped)
            raise
        finally:
            waits.count -= 1
            _sending.reset(token)
        if failure is not None:
            raise failure  # outside the `except`: the library's exception holds the headers
        self.status = self._response.status
        if self.status == PROXY_LOGIN:
            await self.__aexit__(None, None, None)
            raise proxy_login_error(self._target.to_destination(sent=False))
        self.headers: Mapping[str, str] = _Headers(self._response.headers)
        kind = self._response.headers.get(CONTENT_TYPE, "")
        self._all_is_content = not kind.lower().startswith(_KEEP_ALIVE_COMMENTS)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._watchdog.stop()
        if not self._ended:
            self._watchdog.drop_connection()
            self._response.close()

    async def read(self, *, gather: bool = False) -> bytes:
        """Return the next piece of the body; b"" at its end.

        Args:
            gather: wait for the end of the body, a full buffer, or the next look at what has arrived.
        """
        if self._ended:
            return b""
        watch, waits, content = self._watchdog, self._waits, self._response.content
        if self._body_began:
            watch.begin_wait()
        waits.count += 1
        failure: TransportError | None = None
        try:
            if gather and self._body_began:
                await self._wait_for_more(content)
            data = self.read_arrived() or await content.readany()
        except (aiohttp.ClientError, OSError, RuntimeError) as error:
            data = self.read_arrived()
            if not data:
                failure = self._abort_request(error)
        except CancelledError as cancelled:
            self._note_silence(cancelled)
            raise
        finally:
            waits.count -= 1
        if not data:
            return self._end_body(failure)
        if content.at_eof() and not watch.expired_limit:
            self._ended = True  # the body has ended, so the watchdog has nothing to wait for
            return data
        watch.end_wait()
        self._note_piece(data)
        return data

    def read_arrived(self) -> bytes:
        """Return the bytes that wait in the buffer, also those that came before the connection broke."""
        content = self._response.content
        if content.at_eof():
            return b""
        pieces = content._buffer  # noqa: SLF001
        if len(pieces) > 1:
            joined = b"".join(pieces)  # the library does some work for each piece
            pieces.clear()
            pieces.append(joined)
            if splits := content._http_chunk_splits:  # noqa: SLF001
                splits.clear()  # where each of them ended, which only its `readchunk` needs
        return content._read_nowait(-1) if pieces else b""  # noqa: SLF001

    def note_content(self) -> None:
        """Record that the last piece held content."""
        self._watchdog.note_content()

    def _note_piece(self, data: bytes) -> None:
        if not self._body_began:
            self._body_began = True
            self._watchdog.note_body_start()
        elif self._all_is_content and not data.isspace():
            self._watchdog.note_content()
        else:
            self._watchdog.note_piece()

    async def _wait_for_more(self, content: StreamReader) -> None:
        """Wait until the body has ended or broken, the buffer is full, or bytes are seen at a look."""
        protocol = content._protocol  # noqa: SLF001
        is_over = content.is_eof() or content.exception() is not None or not protocol.connected
        if is_over or protocol._reading_paused:  # noqa: SLF001
            return
        waiter: Future[None] = get_running_loop().create_future()
        content._eof_waiter = waiter  # noqa: SLF001
        self._watchdog.begin_looks(partial(_look_for_bytes, content, waiter))
        try:
            await waiter
        finally:
            content._eof_waiter = None  # noqa: SLF001
            self._watchdog.end_looks()

    def note_connection(self, connection: Connection) -> None:
        """Record the connection that carries the request, and start the watchdog.

        Raises:
            UnusableConnectionError: it cannot carry this request.
        """
        is_kept = _used_connections.check_connection(
            connection, must_be_new=self._needs_new_connection
        )
        protocol = connection.protocol
        if is_kept and isinstance(protocol, _GatheringHandler):
            protocol.has_received = False
            self._kept_connection = protocol
        self._watchdog.start(partial(_abort_connection, connection))

    async def _send_request(self, session: ClientSession) -> ClientResponse:
        """Send the request; again on a new connection if a kept one ended before the first byte came.

        The server has then closed the connection at the moment of sending. It has not taken the
        request, or has failed at it. A new connection is tried once, so that a server that fails at
        this request gets it twice at most.
        """
        while True:
            try:
                return await self._make_request(session)
            except UnusableConnectionError:
                continue  # the library has closed it, so another one is used
            except (aiohttp.ClientConnectionError, OSError):
                if not self._lost_kept_connection():
                    raise
            self._watchdog.stop()
            self._kept_connection = None
            self._needs_new_connection = True

    def _lost_kept_connection(self) -> bool:
        """Whether the other side ended a kept connection before the first byte of its response."""
        return (
            self._kept_connection is not None
            and not self._kept_connection.has_received
            and not self._watchdog.expired_limit
            # A server that ends the connection later may have begun to work on the request.
            and self._watchdog.silent_seconds < _LONGEST_RACE
        )

    def _make_request(self, session: ClientSession) -> Awaitable[ClientResponse]:
        """Make the request of the library; it is sent when the returned object is awaited."""
        request, target = self._request, self._target
        body = request.body
        return session.request(
            request.method,
            target.url,
            headers=request.headers,
            data=LargeBody(body) if len(body) >= LARGE else body or None,
            proxy=target.proxy,
            allow_redirects=False,
            timeout=self._find_connect_timeout(),
        )

    def _find_connect_timeout(self) -> ClientTimeout:
        connect, total = self._timeouts.connect, self._timeouts.total
        if self._needs_new_connection and total is not None:
            # `total` began with the first connection. The library takes 0 for no limit.
            remaining = max(self._watchdog.remaining_seconds, 0.001)
            return ClientTimeout(connect=min(connect or remaining, remaining))
        return self._client.connect_timeout(self._timeouts)

    def _end_body(self, failure: TransportError | None) -> bytes:
        if failure is not None:
            raise failure  # not in the `except`: the library's exception holds the headers
        # A body without a length also ends like this after the watchdog has cut the connection.
        if self._watchdog.expired_limit:
            raise self._abort_request(None)
        self._ended = True
        self._watchdog.stop()
        return b""

    def _note_silence(self, stopped: BaseException) -> None:
        """Note on a cancellation that it ended the wait for a silent server; the turn's error says so."""
        silence = self._watchdog.silent_seconds
        if silence >= _NOTED_SILENCE:
            text = f"{self._target.host} had sent nothing for {silence:.3g} s."
            stopped.add_note(SilenceNote(text))

    def _abort_request(self, error: Exception | None) -> TransportError:
        watch = self._watchdog
        watch.drop_connection()
        watch.stop()
        destination = self._target.to_destination(sent=watch.has_connection)
        failure = self._to_transport_error(error, destination)
        secrets = find_secrets(str(self._target.proxy or ""), self._request.headers)
        secrets |= find_secrets(self._request.url)
        failure.__cause__ = error
        clean_client_error(failure, secrets)
        return failure

    def _to_transport_error(
        self, error: Exception | None, destination: Destination
    ) -> TransportError:
        watch = self._watchdog
        if watch.expired_limit or error is None:
            limit = watch.expired_limit
            if limit == "total_timeout" and not self._body_began:
                limit = "no_response"
            return timeout_error(limit, destination, watch.timeouts)
        if isinstance(error, aiohttp.ConnectionTimeoutError) and watch.remaining_seconds <= 0:
            return timeout_error("no_response", destination, watch.timeouts)
        if isinstance(error, ValueError) and not isinstance(error, aiohttp.ClientError):
            return _unsendable_error(self._request, destination)
        return transport_error(error, destination, watch.timeouts)


def _look_for_bytes(content: StreamReader, waiter: Future[None]) -> bool:
    """Wake a reader that gathers if bytes have come; returns whether they have."""
    has_bytes = bool(content._buffer)  # noqa: SLF001
    if has_bytes:
        _wake(waiter)
    return has_bytes


def _wake(waiter: Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


def _abort_connection(connection: Connection) -> bool:
    """Close the connection, unless it was returned to the pool, where it may serve another request."""
    transport = connection.transport
    if transport is None:
        return False
    transport.abort()
    return True


def _parse_target(address: str) -> RequestTarget:
    try:
        url = _keep_escapes(URL(address), address)
    except ValueError:
        url = URL()
    if url.scheme not in ("http", "https") or not url.host:
        raise bad_request_error(
            "bad_url", "the URL of the model is not an http or https URL. Check the base URL"
        )
    return RequestTarget(url, _format_host(url), find_proxy(url.scheme, url.host))


def _keep_escapes(url: URL, address: str) -> URL:
    """Return the URL of an address with its escapes as they are: the library decodes some, such as %2C and %3B."""
    if "%" not in address:
        return url
    parts = urlsplit(address)
    return URL.build(
        scheme=url.scheme,
        authority=url.raw_authority,
        path=_encode_rest(parts.path) or "/",
        query_string=_encode_rest(parts.query),
        encoded=True,
    )


def _encode_rest(text: str) -> str:
    """Return a part of an address with everything encoded that is not yet and must be."""
    return quote(_STRAY_PERCENT.sub("%25", text), safe="/:@!$&'()*+,;=~%?[]")


def _format_host(url: URL) -> str:
    host = f"[{url.host}]" if ":" in (url.host or "") else url.host
    return f"{host}:{url.explicit_port}" if url.explicit_port else f"{host}"


def _unsendable_error(request: HttpRequest, destination: Destination) -> TransportError:
    for name, value in request.headers:
        if any(mark in value for mark in "\r\n\0"):
            return bad_request_error(
                "bad_header",
                f"{destination.host}: the value of the header {name!r} holds a line break. "
                "A key that was read from a file often ends with one: strip it",
            )
    return bad_request_error(
        "bad_url",
        f"{destination.host}: the URL cannot be used with these headers. "
        "Pass the key as a header or in the URL, not both",
    )


class LargeBody(Payload):
    """A body that is written after the headers, one megabyte at a time.

    Args:
        value: the body.
    """

    _value: bytes
    _autoclose = True

    def __init__(self, value: bytes) -> None:
        super().__init__(value)
        self._size = len(value)

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        """Return the body as text."""
        return self._value.decode(encoding, errors)

    async def write(self, writer: AbstractStreamWriter) -> None:
        """Write the body, as fast as the connection accepts it."""
        writer.send_headers()
        if len(self._value) <= _PIECE:
            await writer.write(self._value)
            return
        view = memoryview(self._value)
        for start in range(0, len(view), _PIECE):
            await writer.write(view[start : start + _PIECE])
