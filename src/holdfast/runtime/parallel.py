"""Runs one function on several values concurrently, with a limit."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import TypeVar

V = TypeVar("V")


async def run_parallel(
    work: Callable[[V], Coroutine[object, object, None]], values: Sequence[V], most: int
) -> None:
    """Run `work` on every value, on at most `most` of them at once.

    The first error cancels the others and is raised, instead of a group with one error.
    """
    if len(values) == 1:
        await work(values[0])
        return
    run_one = work if len(values) <= most else _limit_concurrency(work, most)
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(run_one(value), name=name_task()) for value in values]
    except BaseExceptionGroup as several:
        raise several.exceptions[0] from None
    if any(task.cancelled() for task in tasks):
        # `work` cancelled its own task. A TaskGroup does not raise in that case.
        raise asyncio.CancelledError


def name_task(default: str = "holdfast-run") -> str:
    """Return the name for a task of the turn that the current task works on.

    The tasks of a turn have one name, so that whoever looks at a task sees whose turn it is.

    Args:
        default: the name where the current task has none that says more.
    """
    current = asyncio.current_task()
    name = "" if current is None else current.get_name()
    return name if name.startswith("holdfast-turn") else default


def _limit_concurrency(
    work: Callable[[V], Coroutine[object, object, None]], most: int
) -> Callable[[V], Coroutine[object, object, None]]:
    """Return a function that waits while `most` calls of it are in progress, and then calls `work`."""
    slots = asyncio.Semaphore(most)

    async def run_in_slot(value: V) -> None:
        async with slots:
            await work(value)

    return run_in_slot
