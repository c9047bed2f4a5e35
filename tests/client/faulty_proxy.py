"""A TCP proxy on loopback that cuts connections and refuses requests, as a bad network does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Literal

from msgspec import Struct


class Fault(Struct, frozen=True):
    """What happens to one connection.

    Args:
        kind: "none"; "refuse" answers with a status; "cut" cuts the answer; "drop" cuts the
            connection after the request was passed on, before any answer.
        count: the status, or the bytes of the answer that pass.
        headers: headers of a refusal.
    """

    kind: Literal["none", "refuse", "cut", "drop"] = "none"
    count: int = 0
    headers: str = ""


class FaultyProxy:
    """Passes connections on to an address.

    Args:
        target: the port of the service.
        faults: one for each connection; after the last one, none.
    """

    def __init__(self, target: int, faults: Iterator[Fault]) -> None:
        self._target = target
        self._faults = faults
        self.connections = 0
        self.url = ""
        self._tasks: set[asyncio.Task[None]] = set()

    def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Handle a connection."""
        task = asyncio.create_task(self.handle(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def aclose(self) -> None:
        """Cut the connections that are open."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        fault = next(self._faults, Fault())
        try:
            if fault.kind == "refuse":
                await reader.read(65536)
                head = f"HTTP/1.1 {fault.count} No\r\n{fault.headers}Content-Length: 0\r\n"
                writer.write(f"{head}Connection: close\r\n\r\n".encode())
                await writer.drain()
                return
            await self._pass_on(fault, reader, writer)
        except OSError:
            pass
        finally:
            writer.transport.abort() if fault.kind in ("cut", "drop") else writer.close()

    async def _pass_on(
        self, fault: Fault, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        up_reader, up_writer = await asyncio.open_connection("127.0.0.1", self._target)
        sending = asyncio.create_task(_copy(reader, up_writer))
        try:
            left = fault.count if fault.kind in ("cut", "drop") else -1
            while left and (data := await up_reader.read(left if left > 0 else 65536)):
                if left > 0:
                    left -= len(data)
                writer.write(data)
                await writer.drain()
            if fault.kind == "drop":
                await up_reader.read(1)
        finally:
            sending.cancel()
            await asyncio.wait([sending])
            up_writer.close()
            await asyncio.wait([asyncio.ensure_future(up_writer.wait_closed())])


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()


@asynccontextmanager
async def run_proxy(base: str, *faults: Fault) -> AsyncIterator[FaultyProxy]:
    """Run a proxy before a service."""
    proxy = FaultyProxy(int(base.rpartition(":")[2]), iter(faults))
    server = await asyncio.start_server(proxy.accept, "127.0.0.1", 0)
    proxy.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield proxy
    finally:
        server.close()
        await proxy.aclose()
