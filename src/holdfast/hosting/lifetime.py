"""The lifetime of a service in a process: it continues open turns, and stops without closing any.

A process that is to stop ends its streams at once, so that the server closes its connections, and
leaves its turns open for the next process. At SIGTERM it first serves the requests whose client cannot come
back for the answer. This module must never end the process.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from types import FrameType, TracebackType
from typing import Self

from holdfast.core.argument_checks import check_value
from holdfast.core.constraints import NonNegativeFloat
from holdfast.core.errors import HoldfastError
from holdfast.hosting.service_tenants import ServiceTenants
from holdfast.journal.port import SharedJournal

_TICK = 1.0  # seconds
_TICKS_BETWEEN_LOOKS = 5
"""Ticks after which the journal is asked again for turns that no process drives."""

_log = logging.getLogger("holdfast.hosting")


class ServiceLifetime:
    """Starts and stops a service in a process: `async with ServiceLifetime(service):`.

    It opens the agents and continues the turns that no process drives. At a signal to the process, or
    at the end of the block, it stops.

    Args:
        service: the service.
        grace: the longest time to wait for writing tools at the end, in seconds.

    Raises:
        ConfigurationError: `grace` is not a number from 0.
    """

    def __init__(self, service: ServiceTenants, grace: float) -> None:
        check_value("grace", grace, NonNegativeFloat)
        self._service = service
        self.grace = grace
        """The longest time to wait for writing tools at the end, in seconds."""
        self._stack = AsyncExitStack()
        self._looking: asyncio.Task[None] | None = None
        self._stopping: asyncio.Task[None] | None = None
        self._is_told_to_stop = asyncio.Event()
        self.on_stop: Callable[[], None] | None = None
        """Called when the service begins to stop; set before it starts."""

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            for agent in self._service.agents.values():
                await stack.enter_async_context(agent)
            stack.push_async_callback(self._stop)
            self._service.open_exchange()
            await self._expire_claims()
            self._looking = asyncio.create_task(self._look_regularly(), name="holdfast-open-turns")
            stack.enter_context(stop_on_signals(self._note_signal))
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._stack.aclose()

    async def _stop(self) -> None:
        await self.begin_stop()
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.wait([self._looking])

    async def _expire_claims(self) -> None:
        """Free the requests of a process that died, if no other process uses the journal."""
        if not isinstance(self._service.journal, SharedJournal):
            try:
                await self._service.store.expire_claims(time.time())
            except HoldfastError as error:
                _log.warning("the store of the service cannot be written now: %s", error)

    def _note_signal(self, number: signal.Signals) -> None:
        self.begin_stop(drains=number is signal.SIGTERM)

    def begin_stop(self, *, drains: bool = False) -> asyncio.Task[None]:
        """Begin to stop, on the event loop; return the task that does it.

        Args:
            drains: whether requests are served to their end whose client cannot come back for the answer.
                Another call waits for them no more.
        """
        if self._stopping is None:
            self._is_told_to_stop.set()
            if self.on_stop is not None:
                self.on_stop()
            closing = self._service.close(self.grace, drains=drains)
            self._stopping = asyncio.create_task(closing, name="holdfast-stop")
        else:
            self._service.release_requests()
        return self._stopping

    async def wait_for_stop(self) -> None:
        """Return when the service was asked to stop and has left its turns open."""
        await self._is_told_to_stop.wait()
        await self.begin_stop()

    async def _look_regularly(self) -> None:
        is_shared = isinstance(self._service.journal, SharedJournal)
        ticks = 0
        while self._stopping is None:
            # In a journal of this process alone, a turn stays open only if it could not be finished.
            is_due = not ticks or is_shared or self._service.has_unfinished_turns
            try:
                if ticks % _TICKS_BETWEEN_LOOKS == 0:
                    self._service.tidy()
                    if is_due:
                        await self._service.continue_open_turns()
                    await self._service.look_for_changes()
                elif not self._service.is_connected:
                    await self._service.look_for_changes()
                await self._service.cancel_unread_turns(time.monotonic())
                await self._service.end_departed()
            except HoldfastError as error:
                _log.warning("the journal cannot be read now: %s", error)
            await asyncio.sleep(_TICK)
            ticks += 1


@contextmanager
def stop_on_signals(begin_stop: Callable[[signal.Signals], object]) -> Iterator[None]:
    """Call a function on the event loop when the process gets a signal to stop, before the server stops.

    A server such as uvicorn waits for open streams before it ends the lifespan of an application. So
    the streams must end at the signal. The handler of the server is called as before.

    Args:
        begin_stop: the function; it gets the signal.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread can handle signals
        return
    loop = asyncio.get_running_loop()
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}

    def handle(number: int, frame: FrameType | None) -> None:
        loop.call_soon_threadsafe(begin_stop, signal.Signals(number))
        handler = before[signal.Signals(number)]
        if callable(handler):
            handler(number, frame)

    replaced = [number for number, handler in before.items() if callable(handler)]
    for number in replaced:
        signal.signal(number, handle)
    try:
        yield
    finally:
        for number in replaced:
            signal.signal(number, before[number])
