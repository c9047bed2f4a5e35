"""Waits for the handlers of jobs at the end of a run, however often the caller is cancelled.

This module must never cancel a handler: the caller of an engine ends them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from contextlib import suppress


async def await_handlers(tasks: Collection[asyncio.Task[None]]) -> None:
    """Return when all of these tasks have ended; a cancellation does not end the wait."""
    while waiting := [task for task in tasks if not task.done()]:
        with suppress(asyncio.CancelledError):
            await asyncio.wait(waiting)
