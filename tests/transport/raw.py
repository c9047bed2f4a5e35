"""A server that speaks bytes and nothing else, and short words for one request."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from holdfast.core.errors import TransportError
from holdfast.transport.http import HttpTransport
from holdfast.transport.port import HttpRequest, Response, Timeouts

DEFAULT = Timeouts()
Serve = Callable[["Client"], Awaitable[None]]


class Client:
    """One connection, as a raw server sees it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def request(self) -> bytes:
        """Head and body of the next request, or b"" when the client is gone."""
        try:
            head = await self.reader.readuntil(b"\r\n\r\n")
        except (asyncio.IncompleteReadError, ConnectionError):
            return b""
        length = 0
        for line in head.lower().split(b"\r\n"):
            if line.startswith(b"content-length:"):
                length = int(line.split(b":")[1])
        return head + await self.reader.readexactly(length)

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def chunked(self, kind: bytes = b"text/event-stream") -> None:
        await self.send(
            b"HTTP/1.1 200 OK\r\ncontent-type: %b\r\ntransfer-encoding: chunked\r\n\r\n" % kind
        )

    async def chunk(self, data: bytes) -> None:
        await self.send(b"%x\r\n%b\r\n" % (len(data), data))


class RawServer:
    """Calls `serve` for each connection, and cancels those that have not ended when it stops."""

    def __init__(self, serve: Serve) -> None:
        self._serve = serve
        self._tasks: set[asyncio.Task[None]] = set()
        self.connections = 0

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}/v1/x"

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)  # asyncio does not keep a task that waits for nothing
        task.add_done_callback(self._tasks.discard)
        try:
            await self._serve(Client(reader, writer))
        except ConnectionError:
            pass
        finally:
            writer.transport.abort()

    async def stop(self) -> None:
        self._server.close()
        tasks = [task for task in self._tasks if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def fetch(
    transport: HttpTransport,
    url: str,
    *,
    body: bytes = b"{}",
    timeouts: Timeouts = DEFAULT,
    method: str = "POST",
) -> bytes:
    async with transport.send(HttpRequest(method, url, (), body), timeouts) as response:
        return await read_all(response)


async def read_all(response: Response) -> bytes:
    pieces = []
    while piece := await response.read():
        pieces.append(piece)
    return b"".join(pieces)


async def fails(transport: HttpTransport, url: str, timeouts: Timeouts = DEFAULT) -> TransportError:
    with pytest.raises(TransportError) as caught:
        await fetch(transport, url, timeouts=timeouts)
    return caught.value
