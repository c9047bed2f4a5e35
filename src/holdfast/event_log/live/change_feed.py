"""Notifies the readers of lists of the sessions of a tenant that have changed.

It has names and no contents: a reader asks the journal for the rows. The changes that a reader has not taken yet are a
set of names with a largest size, so nobody waits for a slow reader. This module must never read anything.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Literal, TypeAlias

from msgspec import Struct

MOST_SESSIONS = 100
"""How many changed sessions a reader gets at once; if there are more, it is to read its list again."""

SECONDS_BETWEEN_CHANGES = 0.5
"""Seconds between two batches of changes."""

_SECONDS_TO_COLLECT = 0.05
"""Seconds after a first change, as others follow it."""

Topic: TypeAlias = Literal["queue", "inbox", "endpoints"]
"""Other things that change: the queue of the tenant, perhaps the queue, and the known state of endpoints."""


class Changes(Struct, frozen=True):
    """The changes since a reader took the changes before.

    Args:
        version: numbers the changes of the feed: readers that took the same names at the same version
            may share the rows that they read.
        sessions: the names of sessions.
        topics: the other things that have changed.
        is_complete: whether all changed sessions are named.
    """

    version: int
    sessions: frozenset[str]
    topics: frozenset[Topic]
    is_complete: bool = True


class ChangeReader:
    """One reader of the changes of a tenant.

    Args:
        feed: the feed.
    """

    __slots__ = ("_feed", "_is_complete", "_sessions", "_topics", "_waiter")

    def __init__(self, feed: ChangeFeed) -> None:
        self._feed = feed
        self._sessions: set[str] = set()
        self._topics: set[Topic] = set()
        self._is_complete = True
        self._waiter: asyncio.Future[None] | None = None

    def add_session(self, session: str) -> None:
        """Note a changed session."""
        if not self._is_complete:
            return
        self._sessions.add(session)
        if len(self._sessions) > MOST_SESSIONS:
            self.add_all()

    def add_all(self) -> None:
        """Note that any session may have changed."""
        self._sessions.clear()
        self._is_complete = False

    def add_topic(self, topic: Topic) -> None:
        """Record a change of another thing than a session."""
        self._topics.add(topic)

    def wake(self) -> None:
        """Let the reader take the changes."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    @property
    def _has_changes(self) -> bool:
        return bool(self._sessions or self._topics) or not self._is_complete

    async def take(self, seconds: float) -> Changes | None:
        """Wait for changes and take them; None after some seconds without any, or if the feed is closed."""
        if not self._feed.is_closed and (self._feed.is_collecting or not self._has_changes):
            loop = asyncio.get_running_loop()
            self._waiter = loop.create_future()
            timer = loop.call_later(seconds, self.wake)
            try:
                await self._waiter
            finally:
                timer.cancel()
                self._waiter = None
        if self._feed.is_closed or not self._has_changes:
            return None
        sessions, topics = frozenset(self._sessions), frozenset(self._topics)
        changes = Changes(self._feed.version, sessions, topics, self._is_complete)
        self._sessions.clear()
        self._topics.clear()
        self._is_complete = True
        return changes

    def leave(self) -> None:
        """Take no more changes."""
        self._feed.remove(self)


class ChangeFeed:
    """The readers of the changes of one tenant; it does nothing while there is none."""

    def __init__(self) -> None:
        self._readers: set[ChangeReader] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._woken_at = float("-inf")
        self.version = 0
        """Numbers the changes."""
        self.is_closed = False
        """Whether the process stops, so that every stream ends."""
        self.on_reader: list[Callable[[], None]] = []
        """Called when a reader comes while there is no other."""

    @property
    def has_readers(self) -> bool:
        """Whether somebody reads."""
        return bool(self._readers)

    @property
    def is_collecting(self) -> bool:
        """Whether the readers are about to be woken."""
        return self._timer is not None

    def subscribe(self) -> ChangeReader:
        """Add a reader, which gets all changes from now on."""
        reader = ChangeReader(self)
        self._readers.add(reader)
        if len(self._readers) == 1:
            for call in self.on_reader:
                call()
        return reader

    def remove(self, reader: ChangeReader) -> None:
        """Remove a reader."""
        self._readers.discard(reader)
        if not self._readers and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def note_session(self, session: str) -> None:
        """Note that a session has changed, was made or was deleted."""
        for reader in self._readers:
            reader.add_session(session)
        self._begin_batch()

    def note_sessions(self) -> None:
        """Note that more sessions have changed than are named."""
        for reader in self._readers:
            reader.add_all()
        self._begin_batch()

    def note_all(self) -> None:
        """Note that any session may have changed, and the queue, since messages were lost."""
        self.note_sessions()
        self.note_topic("queue")

    def note_topic(self, topic: Topic) -> None:
        """Record a change of another thing than a session."""
        for reader in self._readers:
            reader.add_topic(topic)
        self._begin_batch()

    def close(self) -> None:
        """Let all readers end."""
        self.is_closed = True
        for reader in self._readers:
            reader.wake()

    def _begin_batch(self) -> None:
        """Wake the readers soon, but not sooner than some time after the last batch."""
        if not self._readers:
            return
        self.version += 1
        if self._timer is None:
            loop = asyncio.get_running_loop()
            rest = self._woken_at + SECONDS_BETWEEN_CHANGES - loop.time()
            self._timer = loop.call_later(max(rest, _SECONDS_TO_COLLECT), self._wake_all)

    def _wake_all(self) -> None:
        self._timer = None
        self._woken_at = asyncio.get_running_loop().time()
        for reader in self._readers:
            reader.wake()
