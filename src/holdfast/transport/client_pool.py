"""One client session per event loop, opened at its first use and closed with its loop.

A suspended asynchronous generator owns the session: a loop closes its generators when it ends, so
the user does not have to close anything. Two loops never share a connection.
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

from holdfast.transport.network_waits import NetworkWaits, find_network_waits
from holdfast.transport.timers import TimerWheel

Keeper = AsyncGenerator[ClientSession, None]


class LoopSession(NamedTuple):
    """The objects that the requests of one loop share."""

    session: ClientSession
    timers: TimerWheel
    waits: NetworkWaits
    closer: Keeper


class ClientPool:
    """The open sessions, by loop.

    Args:
        opener: creates a session for the running loop.
    """

    def __init__(self, opener: Callable[[], ClientSession]) -> None:
        self._opener = opener
        self._by_loop: dict[AbstractEventLoop, LoopSession] = {}
        _ALL.add(self)

    def find_open(self) -> LoopSession | None:
        """Return the open session of the running loop, or None."""
        opened = self._by_loop.get(asyncio.get_running_loop())
        return None if opened is None or opened.session.closed else opened

    async def open(self) -> LoopSession:
        """Open the session of the running loop."""
        loop = asyncio.get_running_loop()
        self._forget_closed_loops()
        keeper = self._keep_open(loop)
        # It runs to its yield without suspending, so no other task of this loop runs in between.
        session = await anext(keeper)
        waits = find_network_waits(loop)
        opened = self._by_loop[loop] = LoopSession(session, TimerWheel(loop), waits, keeper)
        return opened

    async def aclose(self) -> None:
        """Close the session of this loop, and schedule the closing of those in other threads."""
        running = asyncio.get_running_loop()
        for loop, (_, _, _, keeper) in list(self._by_loop.items()):
            if loop is running:
                await keeper.aclose()
            elif loop.is_running():
                asyncio.run_coroutine_threadsafe(_close_keeper(keeper), loop)

    async def _keep_open(self, loop: AbstractEventLoop) -> Keeper:
        session = self._opener()
        try:
            yield session
        finally:
            current = self._by_loop.get(loop)
            if current is not None and current.session is session:
                del self._by_loop[loop]
            await session.close()

    def _forget_closed_loops(self) -> None:
        for loop, (session, _, _, _) in list(self._by_loop.items()):
            if loop.is_closed():
                self._by_loop.pop(loop, None)
                _abandon_session(session)

    def close_idle_loops(self) -> None:
        """Close the sessions of loops that are still open when the program ends, as in a notebook."""
        for loop, (session, _, _, keeper) in list(self._by_loop.items()):
            if loop.is_closed():
                _abandon_session(session)
            elif not loop.is_running():
                loop.run_until_complete(keeper.aclose())


async def _close_keeper(keeper: Keeper) -> None:
    await keeper.aclose()


def _abandon_session(session: ClientSession) -> None:
    """Detach a session whose loop is already closed, so that its `__del__` does not warn."""
    connector = session.connector
    session.detach()
    if connector is not None:
        # The loop is closed, so this coroutine runs to its end without suspending.
        with suppress(StopIteration):
            connector.close().__await__().__next__()


_ALL: WeakSet[ClientPool] = WeakSet()


@atexit.register
def _close_at_exit() -> None:
    for sessions in list(_ALL):
        sessions.close_idle_loops()
