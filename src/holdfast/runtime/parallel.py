"""Runs one function on several values concurrently, with a limit."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

V = TypeVar("V")


async def run_parallel(
    work: Callable[[V], Awaitable[None]], values: Sequence[V], most: int
) -> None:
    """Run `work` on every value, on at most `most` of them at once.

    The first error cancels the others and is raised, instead of a group with one error.
    """
    if len(values) == 1:
        await work(values[0])
        return
    slots = asyncio.Semaphore(most)

    async def run_in_slot(value: V) -> None:
        async with slots:
            await work(value)

    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(run_in_slot(value)) for value in values]
    except BaseExceptionGroup as several:
        raise several.exceptions[0] from None
    if any(task.cancelled() for task in tasks):
        # `work` cancelled its own task. A TaskGroup does not raise in that case.
        raise asyncio.CancelledError
