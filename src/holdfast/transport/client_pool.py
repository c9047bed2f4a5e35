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

from holdfast.transport.timers import TimerWheel

Keeper = AsyncGenerator[ClientSession, None]


class LoopSession(NamedTuple):
    """What the requests of one loop share."""

    session: ClientSession
    timers: TimerWheel
    closer: Keeper


class ClientPool:
    """The open sessions, by loop.

    Args:
        opener: makes a session for the running loop.
    """

    def __init__(self, opener: Callable[[], ClientSession]) -> None:
        self._opener = opener
        self._by_loop: dict[AbstractEventLoop, LoopSession] = {}
        _ALL.add(self)

    def find_open(self) -> LoopSession | None:
        """The session of the running loop, and its timer; None before it is open."""
        held = self._by_loop.get(asyncio.get_running_loop())
        return None if held is None or held.session.closed else held

    async def open(self) -> LoopSession:
        """Open the session of the running loop."""
        loop = asyncio.get_running_loop()
        self._forget_closed_loops()
        keeper = self._keep_open(loop)
        # Runs to its yield without suspending: no other task of this loop comes between.
        session = await anext(keeper)
        opened = self._by_loop[loop] = LoopSession(session, TimerWheel(loop), keeper)
        return opened

    async def aclose(self) -> None:
        """Close the session of this loop, and ask the loops of other threads to close theirs."""
        here = asyncio.get_running_loop()
        for loop, (_, _, keeper) in list(self._by_loop.items()):
            if loop is here:
                await keeper.aclose()
            elif loop.is_running():
                asyncio.run_coroutine_threadsafe(_close_keeper(keeper), loop)

    async def _keep_open(self, loop: AbstractEventLoop) -> Keeper:
        session = self._opener()
        try:
            yield session
        finally:
            held = self._by_loop.get(loop)
            if held is not None and held.session is session:
                del self._by_loop[loop]
            await session.close()

    def _forget_closed_loops(self) -> None:
        for loop, (session, _, _) in list(self._by_loop.items()):
            if loop.is_closed():
                self._by_loop.pop(loop, None)
                _abandon_session(session)

    def close_idle_loops(self) -> None:
        """The program ends and left loops open (a notebook): run each once more, to close."""
        for loop, (session, _, keeper) in list(self._by_loop.items()):
            if loop.is_closed():
                _abandon_session(session)
            elif not loop.is_running():
                loop.run_until_complete(keeper.aclose())


async def _close_keeper(keeper: Keeper) -> None:
    await keeper.aclose()


def _abandon_session(session: ClientSession) -> None:
    """Let go of a session whose loop was closed under it, or its `__del__` would complain."""
    connector = session.connector
    session.detach()
    if connector is not None:
        # The loop is closed, so this runs to its end without waiting for anything.
        with suppress(StopIteration):
            connector.close().__await__().__next__()


_ALL: WeakSet[ClientPool] = WeakSet()


@atexit.register
def _close_at_exit() -> None:
    for sessions in list(_ALL):
        sessions.close_idle_loops()
