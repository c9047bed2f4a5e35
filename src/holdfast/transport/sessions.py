"""One client session per event loop, opened when it is first needed and closed with its loop.

A suspended asynchronous generator holds the session: a loop that ends closes its generators, so
the user need not close anything. This module must never share a connection between two loops.
"""

from __future__ import annotations

import asyncio
import atexit
from asyncio import AbstractEventLoop
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from typing import NamedTuple
from weakref import WeakSet

from aiohttp import ClientSession

from holdfast.transport.watchdog import Patrol

Keeper = AsyncGenerator[ClientSession, None]


class Opened(NamedTuple):
    """What the requests of one loop share."""

    session: ClientSession
    patrol: Patrol
    keeper: Keeper


class Sessions:
    """The open sessions, by loop.

    Args:
        opener: makes a session for the running loop.
    """

    def __init__(self, opener: Callable[[], ClientSession]) -> None:
        self._opener = opener
        self._open: dict[AbstractEventLoop, Opened] = {}
        _ALL.add(self)

    def at_hand(self) -> Opened | None:
        """The session of the running loop, and its timer; None before it is open."""
        held = self._open.get(asyncio.get_running_loop())
        return None if held is None or held.session.closed else held

    async def open(self) -> Opened:
        """Open the session of the running loop."""
        loop = asyncio.get_running_loop()
        self._forget_closed_loops()
        keeper = self._keep(loop)
        # Runs to its yield without suspending: no other task of this loop comes between.
        session = await anext(keeper)
        opened = self._open[loop] = Opened(session, Patrol(loop), keeper)
        return opened

    async def aclose(self) -> None:
        """Close the session of this loop, and ask the loops of other threads to close theirs."""
        here = asyncio.get_running_loop()
        for loop, (_, _, keeper) in list(self._open.items()):
            if loop is here:
                await keeper.aclose()
            elif loop.is_running():
                asyncio.run_coroutine_threadsafe(_finish(keeper), loop)

    async def _keep(self, loop: AbstractEventLoop) -> Keeper:
        session = self._opener()
        try:
            yield session
        finally:
            held = self._open.get(loop)
            if held is not None and held.session is session:
                del self._open[loop]
            await session.close()

    def _forget_closed_loops(self) -> None:
        for loop, (session, _, _) in list(self._open.items()):
            if loop.is_closed():
                self._open.pop(loop, None)
                _abandon(session)

    def close_idle_loops(self) -> None:
        """The program ends and left loops open (a notebook): run each once more, to close."""
        for loop, (session, _, keeper) in list(self._open.items()):
            if loop.is_closed():
                _abandon(session)
            elif not loop.is_running():
                loop.run_until_complete(keeper.aclose())


async def _finish(keeper: Keeper) -> None:
    await keeper.aclose()


def _abandon(session: ClientSession) -> None:
    """Let go of a session whose loop was closed under it, or its `__del__` would complain."""
    connector = session.connector
    session.detach()
    if connector is not None:
        # The loop is closed, so this runs to its end without waiting for anything.
        with suppress(StopIteration):
            connector.close().__await__().__next__()


_ALL: WeakSet[Sessions] = WeakSet()


@atexit.register
def _at_exit() -> None:
    for sessions in list(_ALL):
        sessions.close_idle_loops()
