"""One call that waits in a queue, and can be woken from any thread or event loop.

It must never wake by itself, except when its time is over.
"""

from __future__ import annotations

import asyncio
from typing import Generic, TypeVar

from holdfast.resilience.clock import Clock

V = TypeVar("V")


class Waiter(Generic[V]):
    """Made by the task that waits; `granted` may be read and set only under the lock of the queue."""

    __slots__ = ("_future", "_loop", "granted")

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._future: asyncio.Future[V | None] = self._loop.create_future()
        self.granted = False

    def wake(self, value: V) -> bool:
        """Let `wait` return this value; False when the event loop of the waiter is closed."""
        try:
            self._loop.call_soon_threadsafe(self._set_result, value)
        except RuntimeError:
            return False
        return True

    def _set_result(self, value: V | None) -> None:
        if not self._future.done():
            self._future.set_result(value)

    async def wait(self, clock: Clock, seconds: float | None) -> V | None:
        """The value, or None when so many seconds passed without one.

        Args:
            clock: the clock that measures the seconds.
            seconds: None waits without a limit.
        """
        if seconds is None:
            return await self._future
        timer = asyncio.ensure_future(clock.sleep(seconds))
        timer.add_done_callback(lambda _: self._set_result(None))
        try:
            return await self._future
        finally:
            timer.cancel()
