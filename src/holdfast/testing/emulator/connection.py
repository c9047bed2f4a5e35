"""One connection of the emulator: reads HTTP/1.1 requests, and misbehaves exactly as it is told.

Written on sockets and not on a web framework, because a framework mends what shall be broken. It
must never do anything on its own: no timeouts, no error pages, no headers that nobody asked for.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import cast

from msgspec import Struct

_LINGER_ZERO = struct.pack("ii", 1, 0)
_FLUSH_SECONDS = 2.0
_LARGEST_HEAD = 1 << 20


class RawRequest(Struct, frozen=True):
    """One HTTP request; header names are in lower case."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes
    keep_alive: bool


class ClientGoneError(ConnectionError):
    """The client dropped the connection."""


class Connection(asyncio.Protocol):
    """Serves one request after the other.

    Args:
        serve: answers one request by the methods of this object.
        on_connect: called when the connection stands; says its number, from 1.
        on_disconnect: called when the connection is lost.
    """

    def __init__(
        self,
        serve: Callable[[Connection, RawRequest], Awaitable[None]],
        on_connect: Callable[[Connection], int],
        on_disconnect: Callable[[Connection], None],
    ) -> None:
        self.number = 0
        self._serve = serve
        self._on_connect = on_connect
        self._on_disconnect = on_disconnect
        self._input = bytearray()
        self._task: asyncio.Task[None] | None = None
        self._chunked = False
        self._keep_alive = True
        self._continue_sent = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The client is there."""
        # TCP gives no other, and those of some loops are no subclass of it.
        self._transport = cast("asyncio.Transport", transport)
        self._loop = asyncio.get_running_loop()
        self._disconnected: asyncio.Future[None] = self._loop.create_future()
        self._writable = asyncio.Event()
        self._writable.set()
        self.number = self._on_connect(self)

    def data_received(self, data: bytes) -> None:
        """Some bytes of a request."""
        self._input += data
        self._serve_next()

    def eof_received(self) -> bool:
        """The client sends no more: it is taken to want no answer any more."""
        return False

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002  # asyncio's signature
        """Whoever waits for the client learns that it is gone."""
        if not self._disconnected.done():
            self._disconnected.set_result(None)
        self._writable.set()
        self._on_disconnect(self)

    def pause_writing(self) -> None:
        """The client reads too slowly."""
        self._writable.clear()

    def resume_writing(self) -> None:
        """The client has caught up."""
        self._writable.set()

    @property
    def is_gone(self) -> bool:
        """Whether the client has dropped the connection."""
        return self._disconnected.done() or self._transport.is_closing()

    def encode_head(self, status: int, headers: Mapping[str, str], length: int | None) -> bytes:
        """The status line and the headers; without a length the body goes out in chunks."""
        try:
            phrase = HTTPStatus(status).phrase
        except ValueError:
            phrase = "Status"
        lines = [f"HTTP/1.1 {status} {phrase}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        self._chunked = length is None
        lines.append(
            "transfer-encoding: chunked" if length is None else f"content-length: {length}"
        )
        if not self._keep_alive:
            lines.append("connection: close")
        return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")

    def frame_body(self, data: bytes) -> bytes:
        """A piece of the body, as it goes out."""
        return b"%x\r\n%b\r\n" % (len(data), data) if self._chunked and data else data

    async def write(self, data: bytes) -> None:
        """Send bytes, no faster than the client reads; raises ClientGoneError."""
        if self.is_gone:
            raise ClientGoneError
        self._transport.write(data)
        if not self._writable.is_set():
            await self._writable.wait()

    async def wait(self, seconds: float) -> None:
        """Wait, or raise ClientGoneError as soon as the client goes."""
        await asyncio.wait({self._disconnected}, timeout=seconds)
        if self.is_gone:
            raise ClientGoneError

    async def end_body(self) -> None:
        """The body is over; the connection goes on unless the client wants it closed."""
        if self._chunked:
            await self.write(b"0\r\n\r\n")
        if not self._keep_alive:
            self._transport.close()

    async def reset(self) -> None:
        """Let what was sent arrive, then reset the connection."""
        await self._wait_acknowledged()
        sock = self._transport.get_extra_info("socket")
        if sock is not None and not self._transport.is_closing():
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_ZERO)
        self._transport.abort()

    async def close(self) -> None:
        """Close the connection in order, whatever was promised."""
        self._transport.close()

    async def abandon(self) -> None:
        """The emulator stops: drop the connection and the request that it serves."""
        self._transport.abort()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})

    async def _wait_acknowledged(self) -> None:
        """Wait until the bytes are with the client: a reset throws away what is still on its way."""
        ends = self._loop.time() + _FLUSH_SECONDS
        while not self.is_gone and self._loop.time() < ends:
            if not self._transport.get_write_buffer_size() and not self._has_unacknowledged():
                return
            await asyncio.sleep(0.001)

    def _has_unacknowledged(self) -> bool:
        sock = self._transport.get_extra_info("socket")
        try:
            from fcntl import ioctl
            from termios import TIOCOUTQ

            return ioctl(sock.fileno(), TIOCOUTQ, b"\0\0\0\0") != b"\0\0\0\0"
        except (
            ImportError,
            OSError,
        ):  # No such question on this system: the bytes are on loopback.
            return False

    def _serve_next(self) -> None:
        if self._task is not None or self._transport.is_closing():
            return
        try:
            request = self._parse_request()
        except ValueError:
            self._transport.write(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n")
            self._transport.close()
            return
        if request is not None:
            self._keep_alive = request.keep_alive
            self._task = self._loop.create_task(self._serve_request(request))

    async def _serve_request(self, request: RawRequest) -> None:
        served = False
        try:
            await self._serve(self, request)
            served = True
        finally:
            self._task = None
            if not served:  # A client that waits for ever would hide the error.
                self._transport.abort()
        self._serve_next()

    def _parse_request(self) -> RawRequest | None:
        """The next request, when all of it is here."""
        end = self._input.find(b"\r\n\r\n")
        if end < 0:
            if len(self._input) > _LARGEST_HEAD:
                raise ValueError("the head is too large")
            return None
        lines = self._input[:end].decode("latin-1").split("\r\n")
        method, path, version = lines[0].split(" ")
        headers: dict[str, str] = {}
        for line in lines[1:]:
            name, _, value = line.partition(":")
            headers[name.strip().lower()] = value.strip()
        taken = self._read_body(end + 4, headers)
        if taken is None:
            self._send_continue(headers)
            return None
        body, after = taken
        del self._input[:after]
        self._continue_sent = False
        keep = headers.get("connection", "").lower() != "close" and version != "HTTP/1.0"
        return RawRequest(method, path, headers, body, keep)

    def _read_body(self, start: int, headers: dict[str, str]) -> tuple[bytes, int] | None:
        if headers.get("transfer-encoding", "").lower() == "chunked":
            return _decode_chunks(self._input, start)
        after = start + int(headers.get("content-length") or 0)
        return (bytes(self._input[start:after]), after) if len(self._input) >= after else None

    def _send_continue(self, headers: dict[str, str]) -> None:
        if headers.get("expect", "").lower() == "100-continue" and not self._continue_sent:
            self._continue_sent = True
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")


def _decode_chunks(data: bytearray, at: int) -> tuple[bytes, int] | None:
    """The chunked body that starts at `at` and where it ends, or None while it is not all here."""
    body = bytearray()
    while (line_end := data.find(b"\r\n", at)) >= 0:
        size = int(data[at:line_end].split(b";")[0], 16)
        at = line_end + 2
        if not size:
            end = data.find(b"\r\n", at)
            while end > at:  # Trailers.
                at, end = end + 2, data.find(b"\r\n", end + 2)
            return None if end < 0 else (bytes(body), end + 2)
        if len(data) < at + size + 2:
            return None
        body += data[at : at + size]
        at += size + 2
    return None
