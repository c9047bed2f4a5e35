"""An act on its way to another thread, and its outcome on the way back to the loop that waits.

Whoever is cancelled leaves only when the outcome of the act is certain. This module must never
leave behind an act that has begun, and never do more on the way than the way needs: every append
waits for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Iterable, Sequence
from threading import Lock
from typing import Generic, TypeVar

T = TypeVar("T")


class Handoff(Generic[T]):
    """An act's way there and back; await it once, for the result of the act or its exception.

    Made on the loop that asks; claimed and ended by the thread that acts. An act that nobody awaits
    is done as well.

    Attributes:
        loop: where it was made.
        value: the result of the act; set before `finish`.
        error: its exception; set before `finish`.
    """

    __slots__ = ("_claim_lock", "_is_over", "_waiter", "error", "loop", "value")

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self._waiter: asyncio.Future[None] = self.loop.create_future()
        self._claim_lock = Lock()
        self._is_over = False
        self.value: T | None = None
        self.error: BaseException | None = None

    def claim(self) -> bool:
        """Whether the caller is the first: the thread that begins the act, or who withdraws it."""
        return self._claim_lock.acquire(blocking=False)

    def finish(self) -> None:
        """Hand the outcome back, in the thread that acted."""
        finish_all((self,))

    def __await__(self) -> Generator[object, None, T]:
        try:
            yield from self._waiter
        except asyncio.CancelledError:
            if not self.claim():
                yield from self._wait_until_over().__await__()
            raise
        if self.error is not None:
            raise self.error
        return self.value  # type: ignore[return-value]  # it ended without an error

    def wake(self) -> None:
        """The act is over; called on the loop."""
        self._is_over = True
        if not self._waiter.done():
            self._waiter.set_result(None)  # who awaits it goes on after this callback

    async def _wait_until_over(self) -> None:
        """Wait for an act that has begun, whoever else cancels meanwhile: it ends by itself."""
        while not self._is_over:
            self._waiter = self.loop.create_future()
            try:
                await self._waiter
            except asyncio.CancelledError:
                continue


def finish_all(acts: Iterable[Handoff[T]]) -> None:
    """Hand the outcomes of several acts back, in order, waking each loop once."""
    loops: dict[asyncio.AbstractEventLoop, list[Handoff[T]]] = {}
    for act in acts:
        loops.setdefault(act.loop, []).append(act)
    for loop, own in loops.items():
        try:
            loop.call_soon_threadsafe(_wake_all, own)
        except RuntimeError:
            continue  # the loop was closed, so that nobody waits


def _wake_all(acts: Sequence[Handoff[T]]) -> None:
    for act in acts:
        act.wake()
