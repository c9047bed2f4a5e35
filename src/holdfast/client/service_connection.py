"""Sends the requests of a client, again where that may help, and reads the responses.

Every POST carries an idempotency key, which all of its repetitions share, so that a repetition does
nothing twice. This module must never know a route.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, TypeVar
from urllib.parse import quote, urlencode
from uuid import uuid4

import msgspec
from msgspec import Struct

from holdfast.client.service_errors import (
    RateLimitedError,
    ServiceConflictError,
    ServiceError,
    UnavailableError,
    make_error,
    read_problem,
)
from holdfast.codecs.sse import SseDecoder
from holdfast.core.errors import ConfigurationError, HoldfastError, TransportError
from holdfast.journal.encoding import to_json
from holdfast.transport.http import HttpTransport
from holdfast.transport.port import HttpRequest, Response, Timeouts, Transport

T = TypeVar("T")

IN_PROGRESS = "request_in_progress"
"""The kind of the problem that says that the first try of a request is under way."""

_FIRST_WAIT, _LONGEST_WAIT = 0.1, 5.0
_JSON, _EVENTS = "application/json", "text/event-stream"
_IDLE = 4.0  # seconds; uvicorn closes an unused connection after five


class Sending(Struct, frozen=True, kw_only=True):
    """A request to a service.

    Args:
        method: the HTTP method.
        path: the path below `/api/v1`, encoded.
        query: the query parameters.
        body: the body, if there is one.
        content_type: its type.
        accept: the type of the answer.
        wait: seconds that the service may hold the request open.
        key: the idempotency key; "" makes one, but for a GET.
    """

    method: str
    path: str
    query: Mapping[str, object] = {}
    body: bytes = b""
    content_type: str = _JSON
    accept: str = _JSON
    wait: float = 0.0
    key: str = ""


class Reception(Struct, frozen=True):
    """The response of a service.

    Args:
        headers: the headers, with names in lower case.
        body: the body.
    """

    headers: Mapping[str, str]
    body: bytes


class ServiceConnection:
    """Requests to one service.

    Args:
        base_url: the address of the service, with the path under which it is mounted.
        api_key: the key; None for a service without keys.
        patience: seconds for which a request that may succeed later is repeated.
        transport: the HTTP client.
    """

    def __init__(
        self, base_url: str, api_key: str | None, patience: float, transport: Transport | None
    ) -> None:
        if not base_url.startswith(("http://", "https://")):
            raise ConfigurationError(
                "base_url", "is not an address", fix='Pass one such as "http://127.0.0.1:8000"'
            )
        self._root = f"{base_url.rstrip('/')}/api/v1"
        self._access = (("Authorization", f"Bearer {api_key}"),) if api_key else ()
        self._transport = transport or HttpTransport(idle=_IDLE)
        self.patience = patience

    async def aclose(self) -> None:
        """Close every connection."""
        await self._transport.aclose()

    async def send(self, sending: Sending) -> Reception:
        """Send a request until it is answered.

        Raises:
            ServiceError: the service refused it.
            TransportError: the service could not be reached.
        """
        sending = with_key(sending)
        waits = Waits(self.patience)
        while True:
            try:
                async with self._open(sending) as response:
                    return Reception(response.headers, await _read_all(response))
            except HoldfastError as error:
                await waits.wait_after(error)

    @asynccontextmanager
    async def stream(
        self, sending: Sending, decode_item: Callable[[bytes], T]
    ) -> AsyncIterator[tuple[Response, AsyncIterator[T]]]:
        """Send a request once, and read its answer as a stream of items; also yield the response.

        Args:
            sending: the request.
            decode_item: reads an item. Raises msgspec.ValidationError for one that it does not know.
        """
        async with self._open(sending) as response:
            yield response, _read_items(response, decode_item)

    @asynccontextmanager
    async def _open(self, sending: Sending) -> AsyncIterator[Response]:
        """Send a request once. Raises ServiceError unless it succeeds."""
        query = {name: value for name, value in sending.query.items() if value is not None}
        url = f"{self._root}{sending.path}{'?' if query else ''}{urlencode(query)}"
        headers = [*self._access, ("Accept", sending.accept)]
        if sending.method in ("POST", "PATCH"):
            headers.append(("Content-Type", sending.content_type))
        if sending.key:
            headers.append(("Idempotency-Key", sending.key))
        request = HttpRequest(sending.method, url, tuple(headers), sending.body)
        async with self._transport.send(request, _make_timeouts(sending)) as response:
            if response.status >= 400:
                raise make_error(read_problem(response.status, await _read_all(response)))
            yield response


def with_key(sending: Sending) -> Sending:
    """Return a request with an idempotency key, if it needs one."""
    if sending.method == "GET" or sending.key:
        return sending
    return msgspec.structs.replace(sending, key=uuid4().hex)


class Waits:
    """The pauses between the repetitions of a request.

    Args:
        patience: seconds for which it is repeated without any success.
    """

    def __init__(self, patience: float) -> None:
        self._patience = patience
        self._since: float | None = None
        self._next = _FIRST_WAIT

    def note_contact(self) -> None:
        """Note that the service has answered: from now on there is patience again."""
        self._since = None

    def note_success(self) -> None:
        """Note that something new came: the next pause is a short one again."""
        self._since, self._next = None, _FIRST_WAIT

    async def wait_after(self, error: HoldfastError) -> None:
        """Wait before the next try. Raises the error if no other try is made."""
        if not may_pass(error):
            raise error
        now = asyncio.get_running_loop().time()
        self._since = now if self._since is None else self._since
        wait = error.info.retry_after
        if wait is None:
            wait = self._next * random.uniform(0.5, 1.0)
        self._next = min(2 * self._next, _LONGEST_WAIT)
        if now + wait > self._since + self._patience:
            raise error
        await asyncio.sleep(wait)


def may_pass(error: HoldfastError) -> bool:
    """Whether the same request may succeed later, and does nothing twice then."""
    if isinstance(error, RateLimitedError | UnavailableError):
        return error.details.retryable
    if isinstance(error, ServiceConflictError):
        return error.details.kind == IN_PROGRESS
    return isinstance(error, TransportError) and error.info.category.is_retryable


def decode(data: bytes, kind: type[T]) -> T:
    """Return JSON of a service as a type. Raises ServiceError if it is something else."""
    try:
        found: T = decode_json(data, kind)
    except (msgspec.DecodeError, ValueError) as error:
        problem = read_problem(502, b"")
        detail = f"the service answered something else: {error}"
        raise ServiceError(msgspec.structs.replace(problem, detail=detail)) from error
    return found


def decode_json(data: bytes, kind: Any) -> Any:
    """Return JSON as a type. Raises msgspec.ValidationError if it is another one."""
    try:
        return msgspec.json.decode(data, type=kind)
    except msgspec.ValidationError:
        raise
    except msgspec.DecodeError:  # a lone surrogate in a text, which only `json` reads
        return msgspec.convert(json.loads(data), kind)


def encode(body: object) -> bytes:
    """Return a body as JSON."""
    return to_json(body)


def _make_timeouts(sending: Sending) -> Timeouts:
    if sending.accept == _EVENTS:  # the service sends a comment every 15 seconds
        return Timeouts(between_chunks=None, first_content=45.0, total=None)
    return Timeouts(first_byte=60.0 + sending.wait, total=None)


async def _read_all(response: Response) -> bytes:
    pieces = []
    while piece := await response.read():
        pieces.append(piece)
    return b"".join(pieces)


async def _read_items(response: Response, decode_item: Callable[[bytes], T]) -> AsyncIterator[T]:
    """Yield the items of a stream. An item of a newer service that is not known is left out."""
    decoder = SseDecoder()
    while piece := await response.read():
        for _, data in decoder.feed(piece):
            try:
                yield decode_item(data)
            except msgspec.ValidationError:
                continue


def session_path(session: str, rest: str = "") -> str:
    """Return the path of a session.

    >>> session_path("a/b", "/history")
    '/sessions/a%2Fb/history'
    """
    return f"/sessions/{quote(session, safe='')}{rest}"


async def call(connection: ServiceConnection, sending: Sending, kind: type[T]) -> T:
    """Send a request and return its answer as a type."""
    return decode((await connection.send(sending)).body, kind)


def post(path: str, body: object = None, *, key: str = "") -> Sending:
    """Return a POST of a body as JSON."""
    data = b"{}" if body is None else encode(body)
    return Sending(method="POST", path=path, body=data, key=key)


def get(path: str, query: Mapping[str, object] | None = None, *, wait: float = 0.0) -> Sending:
    """Return a GET."""
    return Sending(method="GET", path=path, query=query or {}, wait=wait)
