"""Calls a function that may wait for a disk in a thread that the process does not wait for when it ends.

A disk that does not answer then keeps the thread, but neither the call nor the program. It must never be
used for a write that has to be finished.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

T = TypeVar("T")


async def call_in_thread(function: Callable[[], T]) -> T:
    """Return the result of the function, or raise its error.

    Args:
        function: the function. It runs on when this call is cancelled, and its outcome is dropped.
    """
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[T] = loop.create_future()

    def deliver(set_outcome: Callable[[], None]) -> None:
        if not ended.done():
            set_outcome()

    def work() -> None:
        try:
            value = function()
        except Exception as error:  # noqa: BLE001  # REASON: it is raised where it is awaited
            failure = error
            outcome = lambda: ended.set_exception(failure)  # noqa: E731  # REASON: one of two
        else:
            outcome = lambda: ended.set_result(value)  # noqa: E731  # REASON: one of two
        with suppress(RuntimeError):  # the loop has ended, and nobody waits any more
            loop.call_soon_threadsafe(deliver, outcome)

    threading.Thread(target=work, name="adh-disk", daemon=True).start()
    return await ended
