"""Wakes the readers of a session when something about it changes, and all readers at the end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection

from holdfast.event_log.live.change_feed import ChangeFeed


class SessionWatch:
    """The readers that wait for a session, and those that show lists of sessions."""

    def __init__(self) -> None:
        self._waiting: dict[str, set[asyncio.Future[None]]] = {}
        self.is_closed = False
        """Whether the process stops, so that every stream ends."""
        self.on_wake: Callable[[str], None] | None = None
        """Called with a session that this process has changed."""
        self.on_record: Callable[[str], None] | None = None
        """Called with a session of which this process has saved a record."""
        self.feed = ChangeFeed()
        """Notifies the readers of lists of the sessions that have changed."""

    @property
    def sessions(self) -> Collection[str]:
        """The sessions for which somebody waits."""
        return tuple(self._waiting)

    def has_readers(self, session: str) -> bool:
        """Whether somebody waits for a session."""
        return session in self._waiting

    def wake(self, session: str) -> None:
        """Wake everyone who waits for a session, which this process has changed."""
        self.wake_here(session)
        if self.on_wake is not None:
            self.on_wake(session)

    def wake_here(self, session: str) -> None:
        """Wake everyone in this process who waits for a session."""
        self.feed.note_session(session)
        for waiter in self._waiting.pop(session, ()):
            if not waiter.done():
                waiter.set_result(None)

    def note_record(self, session: str) -> None:
        """Notify the readers of lists that this process has saved a record of a session."""
        self.feed.note_session(session)
        if self.on_record is not None:
            self.on_record(session)

    def close(self) -> None:
        """Wake everyone, and let nobody wait again."""
        self.is_closed = True
        self.feed.close()
        for session in self.sessions:
            self.wake_here(session)

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
