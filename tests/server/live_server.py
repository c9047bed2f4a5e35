"""A server on loopback, as `holdfast serve` runs it, and plain sockets that talk to it."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import cast

import uvicorn
from msgspec import Struct

from holdfast.server.access.asgi import ASGIApp
from holdfast.server.access.connections import (
    ConnectionBounds,
    find_protocol,
    make_server_config,
)


class _QuietServer(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class Reply(Struct):
    """What a server answered."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes

    def header(self, name: str) -> str:
        return next((value for key, value in self.headers if key == name), "")

    def json(self) -> dict[str, object]:
        return json.loads(self.body)


class LiveServer(Struct):
    """A running server."""

    port: int

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self.port)

    async def request(
        self, method: str, path: str, body: bytes | None = None, **headers: str
    ) -> Reply:
        """Send one request on a connection of its own; a header's name is written with _ for -."""
        reader, writer = await self.connect()
        named = {"host": f"127.0.0.1:{self.port}", "connection": "close"}
        if body is not None:
            named |= {"content-length": str(len(body)), "content-type": "application/json"}
        named |= {name.replace("_", "-").lower(): value for name, value in headers.items()}
        lines = "".join(f"{name}: {value}\r\n" for name, value in named.items() if value)
        writer.write(f"{method} {path} HTTP/1.1\r\n{lines}\r\n".encode("latin-1") + (body or b""))
        try:
            return await read_reply(reader)
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()


async def read_reply(reader: asyncio.StreamReader) -> Reply:
    """Read one response, with its body of known length or to the end."""
    async with asyncio.timeout(60):
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        first, *lines = head.strip().split("\r\n")
        headers = [(one.partition(":")[0].lower(), one.partition(":")[2].strip()) for one in lines]
        reply = Reply(int(first.split()[1]), headers, b"")
        length = reply.header("content-length")
        reply.body = await (reader.readexactly(int(length)) if length else reader.read())
        return reply


@asynccontextmanager
async def serve(
    app: ASGIApp, bounds: ConnectionBounds | None = None, parser: str = ""
) -> AsyncIterator[LiveServer]:
    """Serve an application on a free port until the end of the block."""
    config = make_server_config(app, "127.0.0.1", 0, bounds)
    if parser:
        config.http = cast(
            "type[asyncio.Protocol]",
            partial(find_protocol(parser), bounds or ConnectionBounds()),
        )
    config.timeout_graceful_shutdown = 1
    server = _QuietServer(config)
    task = asyncio.create_task(server.serve())
    while not server.started:
        if task.done():
            await task
        await asyncio.sleep(0.01)
    try:
        yield LiveServer(server.servers[0].sockets[0].getsockname()[1])
    finally:
        server.should_exit = True
        await task
