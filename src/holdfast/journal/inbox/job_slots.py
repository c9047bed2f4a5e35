"""The free slots of one worker, which its engine shares with the turns that the worker takes itself.

It belongs to one event loop. This module must never know the work in a slot.
"""

from __future__ import annotations

import asyncio


class JobSlots:
    """Counts how many more jobs a worker may have at once.

    An engine takes a slot before it fetches a job, and releases it when the handler has returned.

    Args:
        count: the number of slots.

    >>> slots = JobSlots(2)
    >>> slots.take(5), slots.take(1)
    (2, 0)
    >>> slots.release()
    >>> slots.free
    1
    """

    def __init__(self, count: int) -> None:
        self.count = self.free = count
        self.is_paused = False
        """Whether nobody takes a slot now, however many are free."""
        self._freed = asyncio.Event()

    async def acquire(self) -> None:
        """Take one slot, as soon as one is free."""
        while self.free < 1 or self.is_paused:
            self._freed.clear()
            await self._freed.wait()
        self.free -= 1

    def take(self, most: int) -> int:
        """Take slots that are free now; return how many.

        Args:
            most: take no more than these.
        """
        taken = 0 if self.is_paused else max(0, min(self.free, most))
        self.free -= taken
        return taken

    def pause(self) -> None:
        """Let nobody take a slot until `resume`."""
        self.is_paused = True

    def resume(self) -> None:
        """Let slots be taken again."""
        self.is_paused = False
        self.release(0)

    def release(self, count: int = 1) -> None:
        """Give slots back.

        Args:
            count: how many; -1 takes a slot that is about to be given back.
        """
        self.free += count
        if self.free > 0:
            self._freed.set()
