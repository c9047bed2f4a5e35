"""Wakes the readers of a session when something about it changes in this process."""

from __future__ import annotations

import asyncio


class SessionWatch:
    """The readers that wait for a session."""

    def __init__(self) -> None:
        self._waiting: dict[str, set[asyncio.Future[None]]] = {}

    def wake(self, session: str) -> None:
        """Wake everyone who waits for a session."""
        for waiter in self._waiting.pop(session, ()):
            if not waiter.done():
                waiter.set_result(None)

    def prepare(self, session: str) -> asyncio.Future[None]:
        """Return a future that is done after the next change; make it before looking."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(session, set()).add(waiter)
        return waiter

    def forget(self, session: str, waiter: asyncio.Future[None]) -> None:
        """Wait no longer."""
        waiting = self._waiting.get(session)
        if waiting is not None:
            waiting.discard(waiter)
            if not waiting:
                del self._waiting[session]
