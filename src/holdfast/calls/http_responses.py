"""Reads the responses of HTTP clients (httpx, requests, aiohttp): the status, then the body by its wire.

A response is recognised by its fields. The raw responses of the SDKs hold one as `http_response`. If
the status is not a success, the response is an error, even if its body looks like a reply. This module never
sends a request, and never returns a body that is not a reply.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from inspect import isawaitable, iscoroutine, iscoroutinefunction

from msgspec import Struct

from holdfast.calls.caught_error import ErrorCatcher
from holdfast.calls.foreign_fields import (
    find_response_secrets,
    first_field,
    normalise_headers,
    read_field,
    url_text,
)
from holdfast.calls.object_dialect import detect_wire
from holdfast.calls.object_json import own_values
from holdfast.calls.sdk_errors import find_provider_by_url
from holdfast.codecs.anthropic.codec import AnthropicCodec
from holdfast.codecs.endpoint_profile import EndpointProfile
from holdfast.codecs.error_body import LARGEST_BODY
from holdfast.codecs.gemini.codec import Gemini
from holdfast.codecs.json_text import read_json
from holdfast.codecs.openai_chat.codec import OpenAIChat
from holdfast.codecs.openai_responses.codec import ResponsesCodec
from holdfast.codecs.sse import LARGEST_EVENT, EventTooLargeError, SseDecoder
from holdfast.codecs.wire import Codec, Failure
from holdfast.core.deltas import Decoder, Delta, ErrorReceived
from holdfast.core.detached_errors import clean_info
from holdfast.core.errors import UnexpectedTypeError
from holdfast.core.secret_values import NO_SECRETS, SecretValues

_CODECS: Mapping[str, type[OpenAIChat | ResponsesCodec | AnthropicCodec | Gemini]] = {
    "openai_chat": OpenAIChat,
    "openai_responses": ResponsesCodec,
    "anthropic": AnthropicCodec,
    "gemini": Gemini,
}
_DEFAULT = "openai_chat"
_LONGEST_START = 64 * 1024
"""Bytes in which an event shows the wire of a stream; otherwise the whole body does at its end."""
_PATHS = (
    ("/chat/completions", "openai_chat"),
    ("/responses", "openai_responses"),
    ("/messages", "anthropic"),
    (":generatecontent", "gemini"),
    (":streamgeneratecontent", "gemini"),
)
"""The ends of the paths by which a wire is recognised."""


class HttpReply(Struct, frozen=True, kw_only=True):
    """The head of an HTTP response, and its body if it was read.

    Args:
        status: the HTTP status.
        headers: names in lower case.
        url: the address of the request; "" if unknown.
        secrets: the secrets of the request, which no error may show.
        body: the whole body; empty if its pieces follow.
    """

    status: int
    headers: Mapping[str, str] = {}
    url: str = ""
    secrets: SecretValues = NO_SECRETS
    body: bytes = b""


def find_http_response(source: object) -> object | None:
    """Return the response of an HTTP client: the object itself or the one that it holds, or None.

    >>> from types import SimpleNamespace
    >>> response = SimpleNamespace(status_code=200, headers={}, content=b"{}")
    >>> find_http_response(SimpleNamespace(http_response=response)) is response
    True
    >>> find_http_response({"choices": []}) is None
    True
    """
    inner = own_values(source).get("http_response")
    response = source if inner is None else inner
    if isinstance(response, Mapping) or hasattr(type(response), "model_dump"):
        return None
    headers = first_field(response, "headers", "_headers")
    known = _find_status(response) is not None and callable(getattr(headers, "items", None))
    return response if known else None


def read_http_response(source: object) -> object:
    """Return the response of an HTTP client as an `HttpReply`, and any other object unchanged.

    Raises:
        UnexpectedTypeError: the body is not there yet, and reading it would have to be awaited.
    """
    response = find_http_response(source)
    if response is None:
        return source
    body = _loaded_body(response)
    if body is None:
        try:
            body = b"".join(_iterate_body(response))
        finally:
            _close(response)
    return _read_head(response, body)


async def aload_http_body(source: object) -> None:
    """Load the body of an asynchronous client's response, so that `read_http_response` finds it."""
    response = find_http_response(source)
    if response is None or _loaded_body(response) is not None:
        return
    try:
        await _awaited_read(response)
    finally:
        await _aclose(response)


async def iterate_http_response(response: object, *, blocking: bool) -> AsyncIterator[object]:
    """Yield the head of a response, then the pieces of its body as they arrive.

    Args:
        response: the response.
        blocking: whether it is of a synchronous client; then this never waits in an event loop.
    """
    yield _read_head(response)
    body = _loaded_body(response)
    if blocking:
        for piece in _iterate_body(response):
            yield piece
    elif body is not None:
        yield body
    elif (pieces := _find_async_pieces(response)) is not None:
        async for piece in pieces():
            yield piece
    else:
        yield await _awaited_read(response)


def _find_async_pieces(response: object) -> Callable[[], AsyncIterator[bytes]] | None:
    pieces = getattr(response, "aiter_bytes", None)
    if pieces is None:
        pieces = getattr(first_field(response, "content"), "iter_any", None)  # aiohttp
    return pieces if callable(pieces) else None


def _read_head(response: object, body: bytes = b"") -> HttpReply:
    request = first_field(response, "request", "_request")
    url = first_field(response, "url", "_url") or read_field(request, "url")
    return HttpReply(
        status=_find_status(response) or 0,
        headers=normalise_headers(first_field(response, "headers", "_headers")),
        url="" if url is None else url_text(url),
        secrets=find_response_secrets(response),
        body=body,
    )


def _find_status(response: object) -> int | None:
    for name in ("status_code", "status"):
        status = read_field(response, name)
        if isinstance(status, int) and not isinstance(status, bool) and 100 <= status <= 999:
            return int(status)
    return None


def _loaded_body(response: object) -> bytes | None:
    """Return the body if the client has read it."""
    for name in ("_content", "_body", "content"):
        value = read_field(response, name)
        if isinstance(value, bytes):
            return value
    return None


def _iterate_body(response: object) -> Iterator[bytes]:
    body = _loaded_body(response)
    if body is not None:
        yield body
    elif callable(pieces := getattr(response, "iter_bytes", None)):
        yield from pieces()
    elif callable(pieces := getattr(response, "iter_content", None)):
        yield from pieces(None)
    else:
        read = getattr(response, "read", None)
        value = read() if callable(read) else None
        if iscoroutine(value):
            value.close()
        if not isinstance(value, bytes):
            raise UnexpectedTypeError(
                "response object", f"{type(response).__name__} with a body that must be awaited"
            )
        yield value


async def _awaited_read(response: object) -> bytes:
    read = getattr(response, "aread", None) or getattr(response, "read", None)
    value = read() if callable(read) and not hasattr(response, "iter_content") else None
    if isawaitable(value):
        value = await value
    if not isinstance(value, bytes):
        # Reading it here would block the event loop.
        raise UnexpectedTypeError(
            "response of an asynchronous client", f"{type(response).__name__} without its body"
        )
    return value


def _close(response: object) -> None:
    close = getattr(response, "close", None)
    if callable(close) and not iscoroutinefunction(close):
        with ErrorCatcher():
            close()


async def _aclose(response: object) -> None:
    close = getattr(response, "aclose", None)
    if callable(close):
        with ErrorCatcher():
            await close()
    else:
        _close(response)


class HttpBody:
    """Decodes the body of one HTTP response into deltas.

    Args:
        head: the response; its own body is not read.
        profile: how this provider's form of the wire differs from the vendor's.

    Attributes:
        wire: the wire of the body; "" until it is detected.

    >>> body = HttpBody(HttpReply(status=503), EndpointProfile())
    >>> body.feed(b"<html>"), [delta.error.category.value for delta in body.close()]
    ([], ['transient'])
    """

    __slots__ = (
        "_buffer",
        "_decoder",
        "_failed",
        "_head",
        "_next_look",
        "_profile",
        "_provider",
        "wire",
    )

    def __init__(self, head: HttpReply, profile: EndpointProfile) -> None:
        self._head = head
        self._profile = profile
        self._failed = not 200 <= head.status < 300
        self._provider, wire = find_provider_by_url(head.url) or ("", "")
        self._buffer = bytearray()
        self._next_look = 0
        self._decoder: Decoder | None = None
        self.wire = _wire_of_path(head.url) or (wire if self._failed else "")

    def feed(self, data: bytes) -> list[Delta]:
        """Return the deltas that these bytes complete."""
        if self._decoder is not None:
            return self._clean_errors(self._decoder.feed(data))
        self._buffer += data
        if self._failed:
            # The page of an error may have no end.
            del self._buffer[LARGEST_BODY:]
            return []
        if not self.wire and self._next_look <= len(self._buffer) <= _LONGEST_START:
            self.wire = _detect_stream_wire(bytes(self._buffer))
            # Many small pieces cost no more than a large one.
            self._next_look = 2 * len(self._buffer)
        if not self.wire and len(self._buffer) > LARGEST_EVENT:
            self.wire = _detect_whole_wire(bytes(self._buffer))  # its decoder reports the limit
        return self._open_decoder() if self.wire else []

    def close(self) -> list[Delta]:
        """End the body, and return the remaining deltas."""
        if self._failed:
            self.wire = self.wire or _DEFAULT
            failure = Failure(
                provider=self._provider,
                status=self._head.status,
                headers=self._head.headers,
                body=bytes(self._buffer),
            )
            return self._clean_errors([ErrorReceived(self._make_codec().classify(failure))])
        out: list[Delta] = []
        if self._decoder is None:
            self.wire = self.wire or _detect_whole_wire(bytes(self._buffer))
            out = self._open_decoder()
        return out + self._clean_errors(self._decoder.close() if self._decoder is not None else [])

    def _make_codec(self) -> Codec:
        return _CODECS[self.wire](self._profile)

    def _open_decoder(self) -> list[Delta]:
        content_type = self._head.headers.get("content-type", "")
        self._decoder = self._make_codec().make_decoder(content_type, self._provider)
        data = bytes(self._buffer)
        self._buffer.clear()
        return self._clean_errors(self._decoder.feed(data))

    def _clean_errors(self, deltas: list[Delta]) -> list[Delta]:
        """Remove the secrets of the request from errors, which a server may quote."""
        return [
            ErrorReceived(clean_info(delta.error, self._head.secrets))
            if isinstance(delta, ErrorReceived)
            else delta
            for delta in deltas
        ]


def _wire_of_path(url: str) -> str:
    path = url.partition("?")[0].rstrip("/").lower()
    return next((wire for end, wire in _PATHS if path.endswith(end)), "")


def _detect_stream_wire(start: bytes) -> str:
    """Return the wire of the first event that shows it; "" if there is none yet."""
    if start.lstrip()[:1] in (b"{", b"[", b"<", b""):
        return ""
    decoder = SseDecoder()
    try:
        events = [*decoder.feed(start), *decoder.close()]
    except EventTooLargeError:
        return ""
    for name, data in events:
        value = read_json(data)
        if isinstance(value, dict):
            named = {"type": name.decode("utf-8", "replace"), **value} if name else value
            if wire := detect_wire(named, {}):
                return wire
    return ""


def _detect_whole_wire(body: bytes) -> str:
    value = read_json(body)
    if isinstance(value, list) and value:
        value = value[0]
    return (detect_wire(value, {}) if isinstance(value, dict) else "") or _DEFAULT
