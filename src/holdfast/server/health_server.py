"""Serves `/health`, `/ready` and `/metrics` of a worker beside its work, on a socket of its own.

The routes need no key: they show numbers, and the names of states, and must never show the name of a
tenant, an agent, a session or a person. The server handles no signals: the worker decides when the
process ends, and is asked until then.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from holdfast.core.errors import HoldfastError
from holdfast.server.access.connections import ConnectionBounds, make_server_config
from holdfast.server.health.prometheus import CONTENT_TYPE, Metric, write_all
from holdfast.server.health.readiness import Readiness, respond_health, respond_ready
from holdfast.server.health.service_metrics import measure_queue
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


def make_health_app(worker: EntryWorker) -> Starlette:
    """Return the application that says whether a worker is well.

    Args:
        worker: the worker.
    """
    readiness = Readiness()
    readiness.is_stopping = lambda: worker.is_stopping
    readiness.add_check("worker", worker.check)

    async def health(_request: Request) -> Response:
        return respond_health()

    async def ready(_request: Request) -> Response:
        return await respond_ready(readiness)

    async def metrics(_request: Request) -> Response:
        return Response(await write_metrics(worker), headers={"Content-Type": CONTENT_TYPE})

    routes = [Route("/health", health), Route("/ready", ready), Route("/metrics", metrics)]
    return Starlette(routes=routes, exception_handlers={HoldfastError: _refuse})


async def write_metrics(worker: EntryWorker) -> str:
    """Return the metrics of a worker, and of the whole queue, in the text format of Prometheus.

    Raises:
        JournalError: the inbox cannot be read.
    """
    driving = Metric("holdfast_worker_driving", "Turns that this worker drives.", kind="gauge")
    driving.set((), worker.driving)
    slots = Metric("holdfast_worker_slots", "Turns that it drives at most.", kind="gauge")
    slots.set((), worker.info.slots)
    handled = Metric(
        "holdfast_worker_handled_total",
        "Entries that it has had, by their outcomes.",
        ("outcome",),
    )
    for outcome, count in worker.counts.handled.items():
        handled.add((outcome,), count)
    sweeps = Metric("holdfast_worker_failed_sweeps_total", "Parts of its sweeps that failed.")
    sweeps.add((), worker.counts.failed_sweeps)
    return write_all([driving, slots, handled, sweeps, *measure_queue(await worker.count_queued())])


def _refuse(_request: Request, error: Exception) -> Response:
    """Say that the inbox cannot be read, and nothing of its server."""
    return JSONResponse({"status": type(error).__name__}, 503, {"Retry-After": "1"})
