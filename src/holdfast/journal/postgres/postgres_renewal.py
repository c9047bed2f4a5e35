"""Renews the leases of a process: one statement for all of them, three times per lease period.

A lease whose object was deleted is not renewed. A renewal without a response does not delay the next
one, because a connection can hang while the server works. Renewals use tokens and not names of runs,
so that a lost lease stays lost.
"""

from __future__ import annotations

import asyncio
import os
import weakref
from collections.abc import Awaitable, Callable, Sequence

from holdfast.journal.journal_errors import JournalError

MOST_AT_ONCE = 3
"""The maximum number of renewals at the same time; each uses its own connection."""


class LeaseState:
    """The state of a lease in this process. The thread of the journal changes it.

    Args:
        run: the run.
        owner: a value of its own, by which a repeated statement recognises the lease; b"" makes one.
        version: id and records of the run, as the driver knows them.
        ends_with_turn: whether an append that closes a turn ends the lease.
    """

    __slots__ = (
        "__weakref__",
        "ends_with_turn",
        "is_lost",
        "owner",
        "records",
        "run",
        "run_id",
        "token",
    )

    def __init__(
        self,
        run: str,
        version: tuple[int, int] = (0, 0),
        *,
        owner: bytes = b"",
        ends_with_turn: bool = False,
    ) -> None:
        self.run = run
        self.owner = owner or os.urandom(16)
        self.run_id, self.records = version
        self.token = 0
        """The fencing token; 0 until the lease begins."""
        self.ends_with_turn = ends_with_turn
        self.is_lost = False
        """Whether another driver has taken over, or the lease has ended."""


class Renewal:
    """The leases of this process, and the task that renews them.

    Args:
        renew: renews tokens, and returns those that are still valid.
        lease: seconds after which a lease expires without renewal.
    """

    def __init__(
        self, renew: Callable[[Sequence[LeaseState]], Awaitable[set[int]]], lease: float
    ) -> None:
        self._renew = renew
        self._pause = lease / 3
        self._leases: weakref.WeakValueDictionary[int, LeaseState] = weakref.WeakValueDictionary()
        self._task: asyncio.Task[None] | None = None
        self._renewals: set[asyncio.Task[None]] = set()

    def add(self, state: LeaseState) -> None:
        """Renew this lease from now on, as long as its state object exists."""
        self._leases[state.token] = state
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._renew_regularly())

    def remove(self, token: int) -> None:
        """Stop renewing a lease."""
        self._leases.pop(token, None)

    async def stop(self) -> Sequence[LeaseState]:
        """Stop all renewals; return the remaining leases."""
        tasks = [*self._renewals, *([self._task] if self._task is not None else ())]
        for task in tasks:
            task.cancel()
        if tasks:
            # They may use connections, which must be idle before the pool is closed.
            await asyncio.wait(tasks)
        return list(self._leases.values())

    async def _renew_regularly(self) -> None:
        while True:
            await asyncio.sleep(self._pause)
            if not self._leases:
                self._task = None
                return
            if len(self._renewals) < MOST_AT_ONCE:
                task = asyncio.get_running_loop().create_task(self._renew_once())
                self._renewals.add(task)
                task.add_done_callback(self._renewals.discard)

    async def renew_now(self) -> None:
        """Renew all leases now, unless several renewals wait already."""
        if self._leases and len(self._renewals) < MOST_AT_ONCE:
            await self._renew_once()

    async def _renew_once(self) -> None:
        tokens = list(self._leases)
        try:
            valid = await self._renew(list(self._leases.values()))
        except JournalError:
            return  # the next renewal may reach the server, and an append reports the error
        for token in tokens:
            if token not in valid and (state := self._leases.pop(token, None)):
                state.is_lost = True
