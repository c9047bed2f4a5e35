"""One connection of the emulator: reads HTTP/1.1 requests and sends responses with exact faults.

It uses sockets and no web framework, because a framework would correct the faults. It adds nothing
to a response: no timeouts, no error pages and no other headers.
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
    """The client closed the connection."""


class Connection(asyncio.Protocol):
    """Serves the requests of one connection in order.

    Args:
        serve: responds to one request with the methods of this object.
        on_connect: called when the connection is open; returns its number, from 1.
        on_disconnect: called when the connection is closed.
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
        """Register the new connection."""
        # TCP has no other transport; those of some event loops are not a subclass of it.
        self._transport = cast("asyncio.Transport", transport)
        self._loop = asyncio.get_running_loop()
        self._disconnected: asyncio.Future[None] = self._loop.create_future()
        self._writable = asyncio.Event()
        self._writable.set()
        self.number = self._on_connect(self)

    def data_received(self, data: bytes) -> None:
        """Receive bytes of a request."""
        self._input += data
        self._serve_next()

    def eof_received(self) -> bool:
        """Close the connection: a client that has closed its side expects no response."""
        return False

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002  # asyncio's signature
        """Wake the tasks that wait for the client."""
        if not self._disconnected.done():
            self._disconnected.set_result(None)
        self._writable.set()
        self._on_disconnect(self)

    def pause_writing(self) -> None:
        """Pause while the client reads too slowly."""
        self._writable.clear()

    def resume_writing(self) -> None:
        """Continue when the client has read enough."""
        self._writable.set()

    @property
    def is_gone(self) -> bool:
        """Whether the client has closed the connection."""
        return self._disconnected.done() or self._transport.is_closing()

    def encode_head(self, status: int, headers: Mapping[str, str], length: int | None) -> bytes:
        """Encode the status line and the headers; without a length the body is sent in chunks."""
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
        """Frame a part of the body as a chunk, if the body is chunked."""
        return b"%x\r\n%b\r\n" % (len(data), data) if self._chunked and data else data

    async def write(self, data: bytes) -> None:
        """Send bytes, no faster than the client reads. Raises ClientGoneError."""
        if self.is_gone:
            raise ClientGoneError
        self._transport.write(data)
        if not self._writable.is_set():
            await self._writable.wait()

    async def wait(self, seconds: float) -> None:
        """Wait; raise ClientGoneError as soon as the client closes the connection."""
        await asyncio.wait({self._disconnected}, timeout=seconds)
        if self.is_gone:
            raise ClientGoneError

    async def end_body(self) -> None:
        """End the body; keep the connection open unless the client asked to close it."""
        if self._chunked:
            await self.write(b"0\r\n\r\n")
        if not self._keep_alive:
            self._transport.close()

    async def reset(self) -> None:
        """Wait until the sent bytes have arrived, then reset the connection."""
        await self._wait_acknowledged()
        sock = self._transport.get_extra_info("socket")
        if sock is not None and not self._transport.is_closing():
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_ZERO)
        self._transport.abort()

    async def close(self) -> None:
        """Close the connection normally, even before the end of the body."""
        self._transport.close()

    async def abandon(self) -> None:
        """Abort the connection and its request, because the emulator stops."""
        self._transport.abort()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})

    async def _wait_acknowledged(self) -> None:
        """Wait until the client's system has all bytes, because a reset discards unsent ones."""
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
        ):  # This system cannot tell; on loopback the bytes arrive at once.
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
            if not served:  # otherwise the client would wait and hide the error
                self._transport.abort()
        self._serve_next()

    def _parse_request(self) -> RawRequest | None:
        """Parse the next request; return None until it is complete."""
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
        body_and_end = self._read_body(end + 4, headers)
        if body_and_end is None:
            self._send_continue(headers)
            return None
        body, after = body_and_end
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
    """Decode the chunked body at `at`; return it and its end, or None until it is complete."""
    body = bytearray()
    while (line_end := data.find(b"\r\n", at)) >= 0:
        size = int(data[at:line_end].split(b";")[0], 16)
        at = line_end + 2
        if not size:
            end = data.find(b"\r\n", at)
            while end > at:  # trailers
                at, end = end + 2, data.find(b"\r\n", end + 2)
            return None if end < 0 else (bytes(body), end + 2)
        if len(data) < at + size + 2:
            return None
        body += data[at : at + size]
        at += size + 2
    return None
