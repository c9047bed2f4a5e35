"""Keeps the leases of a process alive: one statement for all of them, three times in their time.

A lease that nobody holds any more is not renewed. A renewal that has no answer holds up none after
it, since a connection can fall silent while the server is well. It must never renew by a run's name:
a token that is gone stays gone.
"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Awaitable, Callable, Sequence

from holdfast.journal.journal_errors import JournalError

MOST_AT_ONCE = 3
"""Renewals without an answer; each has a connection of its own."""


class LeaseState:
    """A lease as its holder knows it.

    Args:
        run: what was claimed.
    """

    __slots__ = ("__weakref__", "is_lost", "run")

    def __init__(self, run: str) -> None:
        self.run = run
        self.is_lost = False


class Renewal:
    """The leases that are held, and the task that renews them.

    Args:
        renew: renews tokens, and says which of them still stand.
        lease: seconds that a lease lives without it.
    """

    def __init__(self, renew: Callable[[Sequence[int]], Awaitable[set[int]]], lease: float) -> None:
        self._renew = renew
        self._pause = lease / 3
        self._leases: weakref.WeakValueDictionary[int, LeaseState] = weakref.WeakValueDictionary()
        self._task: asyncio.Task[None] | None = None
        self._renewals: set[asyncio.Task[None]] = set()

    def add(self, token: int, state: LeaseState) -> None:
        """Renew this lease from now on, for as long as somebody has it."""
        self._leases[token] = state
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._renew_regularly())

    def remove(self, token: int) -> None:
        """Renew it no more."""
        self._leases.pop(token, None)

    async def stop(self) -> Sequence[int]:
        """Renew nothing any more; returns the tokens that are still held."""
        tasks = [*self._renewals, *([self._task] if self._task is not None else ())]
        for task in tasks:
            task.cancel()
        if tasks:
            # They may be talking with the server, and must be through with their connections.
            await asyncio.wait(tasks)
        return list(self._leases)

    async def _renew_regularly(self) -> None:
        while True:
            await asyncio.sleep(self._pause)
            tokens = list(self._leases)
            if not tokens:
                self._task = None
                return
            if len(self._renewals) < MOST_AT_ONCE:
                task = asyncio.get_running_loop().create_task(self._renew_once(tokens))
                self._renewals.add(task)
                task.add_done_callback(self._renewals.discard)

    async def _renew_once(self, tokens: Sequence[int]) -> None:
        try:
            standing = await self._renew(tokens)
        except JournalError:
            return  # the next one may reach the server; an append says what is wrong
        for token in tokens:
            if token not in standing and (held := self._leases.pop(token, None)):
                held.is_lost = True
