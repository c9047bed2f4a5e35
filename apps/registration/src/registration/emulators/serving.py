"""Serves an application on loopback, and closes connections without an answer."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import TypeAlias

import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

ABORT = "registration.abort"
GRACE = 0.5  # seconds
HttpProtocol: TypeAlias = type[asyncio.Protocol] | str


class AbortableConnection(H11Protocol):
    """A connection that an application can close without an answer."""

    def connection_made(  # type: ignore[override]  # REASON: as in uvicorn, which narrows it
        self, transport: asyncio.Transport
    ) -> None:
        """Offer the transport's `abort` to the application, in the state of its scope."""
        super().connection_made(transport)
        self.app_state = {**self.app_state, ABORT: transport.abort}


class LoopbackServer(uvicorn.Server):
    """A server that leaves the signals of the process alone, and ends as soon as it is asked to."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ended = asyncio.Event()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture none."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start; uvicorn would end the process if the application does not."""
        try:
            await super().startup(sockets)
        except SystemExit:
            raise RuntimeError("the application did not start") from None

    async def main_loop(self) -> None:
        """Wait for the end, without looking for it ten times a second."""
        await self.ended.wait()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End: requests in progress have a moment, and then their connections are closed."""
        for server in self.servers:
            server.close()
        for listener in sockets or []:
            listener.close()
        for connection in list(self.server_state.connections):
            connection.shutdown()
        await self._end_requests()
        await self.lifespan.shutdown()

    async def _end_requests(self) -> None:
        tasks = set(self.server_state.tasks)
        if not tasks:
            return
        _, late = await asyncio.wait(tasks, timeout=GRACE)
        for task in late:
            task.cancel()
        if late:
            await asyncio.wait(late)
        for connection in list(self.server_state.connections):
            connection.transport.abort()


@asynccontextmanager
async def serve(
    app: ASGIApp, port: int = 0, http: HttpProtocol = AbortableConnection
) -> AsyncIterator[str]:
    """Serve an application on loopback, and give its address, such as `http://127.0.0.1:40123`.

    Args:
        app: the application; its lifespan is run.
        port: the port, or 0 for a free one.
        http: makes the connections.

    Raises:
        OSError: the port is in use.
        RuntimeError: the application did not start.
    """
    listener = socket.create_server(("127.0.0.1", port))
    config = uvicorn.Config(
        app,
        http=http,
        ws="none",
        lifespan="auto",
        log_config=None,
        access_log=False,
    )
    server = LoopbackServer(config)
    task = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        await _wait_started(server, task)
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        server.ended.set()
        await asyncio.wait([task])
        listener.close()


async def _wait_started(server: LoopbackServer, task: asyncio.Task[None]) -> None:
    """Wait until the server listens.

    Raises:
        RuntimeError: the application did not start.
    """
    while not server.started:
        if task.done():
            await task
        await asyncio.sleep(0.005)


async def drop_connection(scope: Scope, receive: Receive, send: Send) -> None:
    """Close the connection of a request without an answer.

    A server that is not ours offers no `abort`. There the answer breaks off after its head.
    """
    abort: Callable[[], None] | None = scope.get("state", {}).get(ABORT)
    if abort is None:
        headers = [(b"content-length", b"1")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        return
    abort()
    message = await receive()
    while message["type"] != "http.disconnect":
        message = await receive()
