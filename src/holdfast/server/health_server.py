"""Serves the health of a worker beside its work, on a socket of its own.

The server handles no signals: the worker decides when the process ends, and is asked until then.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import uvicorn

from holdfast.server.access.connections import ConnectionBounds, make_server_config
from holdfast.server.health.worker_health import make_health_app
from holdfast.worker.worker import EntryWorker

_MOST_CONNECTIONS = 64
_SECONDS_TO_CLOSE = 1


class _SignalFreeServer(uvicorn.Server):
    """A server that leaves the signals of the process alone."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture none."""
        yield


@asynccontextmanager
async def serve_health(worker: EntryWorker, listener: socket.socket) -> AsyncIterator[None]:
    """Answer `/health`, `/ready` and `/metrics` while the block runs.

    Args:
        worker: the worker.
        listener: the socket to listen on.
    """
    bounds = ConnectionBounds(most=_MOST_CONNECTIONS)
    config = make_server_config(make_health_app(worker), bounds=bounds)
    config.lifespan = "off"
    config.timeout_graceful_shutdown = _SECONDS_TO_CLOSE
    server = _SignalFreeServer(config)
    serving = asyncio.create_task(server.serve(sockets=[listener]), name="holdfast-health")
    try:
        yield
    finally:
        server.should_exit = True
        await asyncio.wait([serving])
