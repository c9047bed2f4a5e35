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
    waiting = asyncio.wrap_future(future)
    try:
        return await waiting
    except asyncio.CancelledError:
        if not future.cancel():
            await _ended(future)
        raise


async def _ended(future: Future[T]) -> None:
    """Wait for an act that has begun, whoever else cancels meanwhile: it ends by itself."""
    waiting = asyncio.wrap_future(future)
    while not waiting.done():
        try:
            await asyncio.wait([waiting])
        except asyncio.CancelledError:
            continue
    waiting.exception()  # was looked at
