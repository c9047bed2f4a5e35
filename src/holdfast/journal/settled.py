"""Waits for what another thread does, so that whoever is cancelled knows what became of it.

It must never leave behind an act that has begun.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")


async def settled(future: Future[T]) -> T:
    """The outcome. A caller that is cancelled leaves only when it is certain what happened.

    Args:
        future: of an act that can be withdrawn until it begins, by `future.cancel()`.
    """
    loop = asyncio.get_running_loop()
    waiting: asyncio.Future[None] = loop.create_future()

    def told(_: Future[T]) -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(_wake, waiting)

    # Not `wrap_future`: it does more on both sides, and every append waits for that.
    future.add_done_callback(told)
    try:
        await waiting
    except asyncio.CancelledError:
        if not future.cancel():
            await _ended(future)
        raise
    return future.result()


def _wake(waiting: asyncio.Future[None]) -> None:
    if not waiting.done():
        waiting.set_result(None)


async def _ended(future: Future[T]) -> None:
    """Wait for an act that has begun, whoever else cancels meanwhile: it ends by itself."""
    waiting = asyncio.wrap_future(future)
    while not waiting.done():
        try:
            await asyncio.wait([waiting])
        except asyncio.CancelledError:
            continue
    waiting.exception()  # was looked at
