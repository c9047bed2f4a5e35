"""Runs a worker until the process gets a signal to end, and serves its health if that is wanted."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, contextmanager, nullcontext
from types import FrameType

from msgspec import Struct

from holdfast.cli.options import name_options
from holdfast.cli.serve_targets import describe_served
from holdfast.cli.serving_process import (
    configure_log,
    listen,
    make_address,
    notify_ready,
    split_address,
)
from holdfast.core.errors import ConfigurationError
from holdfast.core.import_part import install_command
from holdfast.hosting.bound_agents import AnyAgent
from holdfast.hosting.lifetime import ServiceLifetime
from holdfast.hosting.service_tenants import ServiceTenants
from holdfast.hosting.tenant_service import ServiceOptions
from holdfast.models.prices import Prices
from holdfast.worker.quarantine import QuarantineOptions
from holdfast.worker.worker import EntryWorker

_STOPPED_BY_HAND = 130
_OPTIONS = {"engine": "--engine", "journal": "--journal"}
"""The library's name of an argument -> the option in the terminal."""


class WorkerOptions(Struct, frozen=True, kw_only=True):
    """How a worker works.

    Args:
        journal: the address of the journal.
        engine: the address of the engine; None for the default.
        parallel: how many turns it drives at once.
        tenants: the tenants that it serves alone; none serves all.
        grace: how long its end waits for writing tools, in seconds.
        health: where it answers whether it is well, as HOST:PORT; None for nowhere.
        quarantine: when a turn is driven alone, and when it is parked.
        prices: the prices of tokens; None if nobody says it.
    """

    journal: str
    engine: str | None
    parallel: int
    tenants: tuple[str, ...]
    grace: float
    health: str | None
    quarantine: QuarantineOptions = QuarantineOptions()
    prices: Prices | None = None


def run_worker(agents: list[AnyAgent], options: WorkerOptions) -> None:
    """Work until the process gets a signal to end; print what is served, and when it is ready.

    Raises:
        ConfigurationError: an option is wrong.
        HoldfastError: the journal or the engine cannot be reached.
    """
    listener = None if options.health is None else _open_health(options.health)
    with name_options(_OPTIONS):
        prices = ServiceOptions(prices=options.prices)
        service = ServiceTenants(agents, options.journal, options=prices)
        lifetime = ServiceLifetime(service, options.grace)
        worker = EntryWorker(
            service,
            lifetime,
            options.engine,
            parallel=options.parallel,
            tenants=options.tenants,
            quarantine=options.quarantine,
        )
    print(describe_served(service.agents, options.journal))
    print(f"engine   {worker.info.engine}\nparallel {options.parallel}")
    if options.tenants:
        print(f"tenants  {', '.join(options.tenants)}")
    if listener is not None:
        print(f"health   {make_address(listener.getsockname()[0], listener)}")
    print(f"worker   {worker.info.id}", flush=True)
    configure_log()
    with _handle_signals():
        asyncio.run(_work(worker, listener))
    print("stopped", flush=True)


async def _work(worker: EntryWorker, listener: socket.socket | None) -> None:
    async with AsyncExitStack() as stack:
        # Outside of the worker: it is asked whether it is well until its last turn is handed back.
        await stack.enter_async_context(_serve_health(worker, listener))
        await stack.enter_async_context(worker)
        print("ready", flush=True)
        notify_ready()
        await worker.run()
        print("stopping: turns in progress are handed back", flush=True)


def _serve_health(
    worker: EntryWorker, listener: socket.socket | None
) -> AbstractAsyncContextManager[None]:
    if listener is None:
        return nullcontext()
    from holdfast.server.health_server import serve_health

    return serve_health(worker, listener)


def _open_health(address: str) -> socket.socket:
    """Return the socket of the health. Raises ConfigurationError."""
    host, port = split_address("--health", address)
    try:
        import holdfast.server.health_server  # noqa: F401  # REASON: before anything begins
    except ModuleNotFoundError as error:
        if error.name not in ("uvicorn", "starlette"):
            raise
        problem, fix = f"needs {error.name}", install_command("worker")
        raise ConfigurationError("--health", problem, fix=fix) from error
    return listen("--health", host, port)


@contextmanager
def _handle_signals() -> Iterator[None]:
    """Let the worker end at SIGTERM and Ctrl-C; a second Ctrl-C ends the process at once.

    The lifetime of the service calls these handlers after it has begun to stop. Without a handler,
    Python would end the process first.
    """
    interrupts = 0

    def note(number: int, _frame: FrameType | None) -> None:
        nonlocal interrupts
        interrupts += number == signal.SIGINT
        if interrupts > 1:
            os._exit(_STOPPED_BY_HAND)

    before = {number: signal.signal(number, note) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
