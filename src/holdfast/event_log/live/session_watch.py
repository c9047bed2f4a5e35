"""Wakes the readers of a session when something about it changes, and all readers at the end.

A session is *held* while a request waits for its turn that cannot come back for the answer. A process that stops
serves such a session to the end of that request, or until it waits for nobody any more.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager

from holdfast.event_log.live.change_feed import ChangeFeed


class SessionWatch:
    """The readers that wait for a session, and those that show lists of sessions."""

    def __init__(self) -> None:
        self._waiting: dict[str, set[asyncio.Future[None]]] = {}
        self.is_closed = False
        """Whether the process stops, so that the stream of every session ends that is not held."""
        self._held: Counter[str] = Counter()
        self._released: dict[str, asyncio.Future[None]] = {}
        self._waits_for_nobody = False
        self.on_wake: Callable[[str], None] | None = None
        """Called with a session that this process has changed."""
        self.on_record: Callable[[str], None] | None = None
        """Called with a session of which this process has saved a record."""
        self.on_end: Callable[[], None] | None = None
        """Called when the streams of more sessions end, since the process stops."""
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

    @contextmanager
    def holding(self, session: str) -> Iterator[None]:
        """Hold a session during the block; of one that the process has left, nothing comes back."""
        self._held[session] += 1
        try:
            yield
        finally:
            self._held[session] -= 1
            if not self._held[session]:
                del self._held[session]
                self._release(session)

    def has_ended(self, session: str) -> bool:
        """Whether the streams of a session end, since the process stops and nobody holds it."""
        return self.is_closed and not self._is_held(session)

    def _is_held(self, session: str) -> bool:
        return session in self._held and not self._waits_for_nobody

    def close(self) -> None:
        """Wake everyone, and let nobody wait again for a session that is not held."""
        self.is_closed = True
        self.feed.close()
        for session in self.sessions:
            if not self._is_held(session):
                self.wake_here(session)
        self._note_end()

    def release_all(self) -> None:
        """Hold no session any more, whoever waits."""
        self._waits_for_nobody = True
        for session in [*self._held]:
            self._release(session)

    async def wait_until_released(self) -> None:
        """Return when no session is held."""
        while not self._waits_for_nobody and (session := next(iter(self._held), None)) is not None:
            await self.wait_until_free(session)

    async def wait_until_free(self, session: str) -> None:
        """Return when a session is not held."""
        while self._is_held(session):
            released = self._released.get(session)
            if released is None:
                released = asyncio.get_running_loop().create_future()
                self._released[session] = released
            await asyncio.shield(released)

    def _release(self, session: str) -> None:
        released = self._released.pop(session, None)
        if released is not None and not released.done():
            released.set_result(None)
        if self.is_closed:
            self.wake_here(session)
            self._note_end()

    def _note_end(self) -> None:
        if self.on_end is not None:
            self.on_end()

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
