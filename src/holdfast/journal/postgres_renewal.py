"""Keeps the leases of a process alive: one statement for all of them, three times in their time.

A lease that nobody holds any more is not renewed. It must never renew by a run's name: a token that
is gone stays gone.
"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Awaitable, Callable, Sequence

from holdfast.journal.failures import JournalError


class Held:
    """A lease as its holder knows it.

    Args:
        run: what was claimed.
    """

    __slots__ = ("__weakref__", "lost", "run")

    def __init__(self, run: str) -> None:
        self.run = run
        self.lost = False


class Renewal:
    """The leases that are held, and the task that renews them.

    Args:
        renew: renews tokens, and says which of them still stand.
        lease: seconds that a lease lives without it.
    """

    def __init__(self, renew: Callable[[Sequence[int]], Awaitable[set[int]]], lease: float) -> None:
        self._renew = renew
        self._pause = lease / 3
        self._held: weakref.WeakValueDictionary[int, Held] = weakref.WeakValueDictionary()
        self._task: asyncio.Task[None] | None = None

    def add(self, token: int, held: Held) -> None:
        """Renew this lease from now on, for as long as somebody has it."""
        self._held[token] = held
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._beat())

    def remove(self, token: int) -> None:
        """Renew it no more."""
        self._held.pop(token, None)

    async def stop(self) -> Sequence[int]:
        """Renew nothing any more; returns the tokens that are still held."""
        if self._task is not None:
            self._task.cancel()
            # It may be talking with the server, and must be through with its connection.
            await asyncio.wait([self._task])
        return list(self._held)

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(self._pause)
            tokens = list(self._held)
            if not tokens:
                self._task = None
                return
            try:
                standing = await self._renew(tokens)
            except JournalError:
                continue  # the next one may reach the server; an append says what is wrong
            for token in tokens:
                if token not in standing and (held := self._held.pop(token, None)):
                    held.lost = True
