"""The other side of every case: a keep-alive HTTP server on loopback, in a process of its own.

It parses as little as it can and writes prepared bytes, so that the client is what a case waits
for. It must never be reachable from another machine.
"""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from typing import ClassVar

from benchmarks.replies import CLOSES_AFTER, Pieces, answer, is_closing

HOST = "127.0.0.1"
BACKLOG = 4096

Watch = Callable[[bytes], None]


class Exchange(asyncio.Protocol):
    """One connection: requests with a Content-Length in, prepared responses out."""

    sent_at: ClassVar = 0.0
    """When the last piece of a reply in pieces was written, on any connection."""

    def __init__(self, watch: Watch | None = None) -> None:
        self._watch = watch
        self._buffer = bytearray()
        self._needed = 0
        self._is_closing = False
        self._transport: asyncio.Transport | None = None
        self._room = asyncio.Event()
        self._room.set()
        self._tasks: set[asyncio.Task[None]] = set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keeps the transport."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's word
        """Stops what is still being written."""
        self._transport = None
        self._room.set()
        for task in self._tasks:
            task.cancel()

    def pause_writing(self) -> None:
        """The client reads slowly."""
        self._room.clear()

    def resume_writing(self) -> None:
        """The client reads again."""
        self._room.set()

    def data_received(self, data: bytes) -> None:
        """Answers each request that is whole."""
        if self._is_closing:
            return
        self._buffer += data
        while len(self._buffer) >= self._needed and (request := self._take()) is not None:
            if self._watch is not None:
                self._watch(request)
            pieces, pause = answer(request, Exchange.sent_at)
            if self._transport is None:
                return
            if len(pieces) == 1:
                self._transport.write(pieces[0])
                if is_closing(request):
                    self._is_closing = True
                    loop = asyncio.get_running_loop()
                    loop.call_later(CLOSES_AFTER, self._transport.close)
                    return
            else:
                task = asyncio.ensure_future(self._send(pieces, pause))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

    def _take(self) -> bytes | None:
        """The body of the first request in the buffer, or None while it is not whole."""
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            return None
        head = bytes(self._buffer[:end]).lower()
        _, found, rest = head.partition(b"content-length:")
        if not found:
            raise ValueError("this server needs a Content-Length")
        start = end + 4
        self._needed = start + int(rest.partition(b"\r\n")[0])
        if len(self._buffer) < self._needed:
            return None
        body = bytes(self._buffer[start : self._needed])
        del self._buffer[: self._needed]
        self._needed = 0
        return body

    async def _send(self, pieces: Pieces, pause: float) -> None:
        loop = asyncio.get_running_loop()
        begin = loop.time()
        for number, piece in enumerate(pieces):
            await self._room.wait()
            if self._transport is None:
                return
            self._transport.write(piece)
            Exchange.sent_at = time.monotonic()
            if pause:
                # From the beginning, so that no delay of this machine adds to the next one.
                await asyncio.sleep(begin + pause * (number + 1) - loop.time())


@contextlib.asynccontextmanager
async def serve(watch: Watch | None = None) -> AsyncIterator[str]:
    """The server in this loop, for tests; yields the base URL. `watch` sees every request body."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Exchange(watch), HOST, 0, backlog=BACKLOG)
    async with server:
        yield f"http://{HOST}:{server.sockets[0].getsockname()[1]}/v1"


@contextlib.contextmanager
def serve_apart() -> Iterator[str]:
    """The server in its own process; yields the base URL."""
    command = [sys.executable, "-m", "benchmarks.server"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            url = process.stdout.readline().decode().strip()
            if not url:
                raise RuntimeError("the benchmark server did not start")
            yield url
        finally:
            process.terminate()


async def _main() -> None:
    async with serve() as url:
        print(url, flush=True)
        # The parent holds the other end: when it dies, however it dies, this ends too.
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(_main())
