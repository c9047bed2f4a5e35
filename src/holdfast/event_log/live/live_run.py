"""A run in progress in this process: its items, encoded once, for any number of readers.

A run must never wait for a reader. A reader that falls behind by more than its buffer is cut, and
comes back with its position.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from msgspec import Struct

from holdfast.core.deltas import TextDelta
from holdfast.core.events import Event
from holdfast.core.notices import Notice
from holdfast.event_log.positions import Position
from holdfast.event_log.stream_items import StreamItem
from holdfast.event_log.text_fold import TextFold

LARGEST_BUFFER = 2**20
"""Bytes of items that wait for one reader."""


class Entry(Struct, frozen=True):
    """An item with its encoded form, which all readers share.

    Args:
        item: the item.
        position: the place after it.
        encoded: the item as JSON.
    """

    item: StreamItem
    position: Position
    encoded: bytes


class Subscription:
    """One reader of a run in progress; `async for entry in subscription`.

    Args:
        leave: called when the reader leaves.
    """

    __slots__ = (
        "_entries",
        "_in_flight",
        "_is_closed",
        "_leave",
        "_size",
        "_waiter",
        "is_too_slow",
    )

    def __init__(self, leave: Callable[[Subscription], None]) -> None:
        self._leave = leave
        self._entries: deque[Entry] = deque()
        self._size = self._in_flight = 0
        self._waiter: asyncio.Future[None] | None = None
        self._is_closed = False
        self.is_too_slow = False
        """Whether the reader was cut because its buffer was full."""

    def add(self, entry: Entry) -> None:
        """Add an entry, or cut the reader if its buffer is full."""
        self._size += len(entry.encoded)
        if self._size > LARGEST_BUFFER:
            self.is_too_slow = True
            self._entries.clear()
            self._leave(self)
            self.close()
            return
        self._entries.append(entry)
        self._wake()

    def close(self) -> None:
        """End the subscription after the entries that wait."""
        self._is_closed = True
        self._wake()

    def leave(self) -> None:
        """Take no more entries."""
        self._entries.clear()
        self._leave(self)
        self.close()

    def take_ready(self) -> list[Entry]:
        """Take the entries that wait."""
        ready = list(self._entries)
        self._entries.clear()
        # The item that was taken last is still being sent, and counts until the next one is taken.
        self._size -= self._in_flight
        self._in_flight = self._size
        return ready

    @property
    def is_over(self) -> bool:
        """Whether there is nothing to take any more."""
        return self._is_closed and not self._entries

    async def take_all(self, seconds: float | None = None) -> list[Entry]:
        """Wait for an entry, and take all that wait; none after the end.

        Args:
            seconds: return none after so many seconds without an entry.
        """
        await self._wait_for_entry(seconds)
        return self.take_ready()

    async def _wait_for_entry(self, seconds: float | None = None) -> None:
        if self._entries or self._is_closed:
            return
        loop = asyncio.get_running_loop()
        self._waiter = loop.create_future()
        timer = loop.call_later(seconds, self._wake) if seconds is not None else None
        try:
            await self._waiter
        finally:
            if timer is not None:
                timer.cancel()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def __aiter__(self) -> Subscription:
        return self

    async def __anext__(self) -> Entry:
        await self._wait_for_entry()
        if not self._entries:
            raise StopAsyncIteration
        entry = self._entries.popleft()
        self._size -= len(entry.encoded)
        return entry


class LiveRun:
    """A run in progress, which this process drives.

    Args:
        sequence: the number of records of the session before the run's first event here.
        encode: encodes an item.
    """

    __slots__ = ("_encode", "_fold", "_loop", "_readers", "_unshown", "is_closed")

    def __init__(self, sequence: int, encode: Callable[[StreamItem], bytes]) -> None:
        self._loop = asyncio.get_running_loop()
        self._unshown: list[str] = []
        self._fold = TextFold(Position(sequence))
        self._encode = encode
        self._readers: set[Subscription] = set()
        self.is_closed = False

    @property
    def sequence(self) -> int:
        """The number of records of the session so far."""
        self._show_text()
        return self._fold.position.sequence

    @property
    def readers(self) -> int:
        """The number of readers."""
        return len(self._readers)

    @property
    def reply_in_progress(self) -> TextFold:
        """The shown part of the reply in progress; it changes with the next item."""
        self._show_text()
        return self._fold

    def relay(self, entry: Entry) -> None:
        """Give an entry to all readers that another process has made."""
        self._fold.follow(entry.item, entry.position)
        for reader in tuple(self._readers):
            reader.add(entry)

    def publish(self, item: Event | Notice) -> None:
        """Give an event or notice to all readers; texts that come at once are one item for them."""
        if type(item) is TextDelta:
            if not self._unshown:
                self._loop.call_soon(self._show_text)
            self._unshown.append(item.text)
            return
        if self._unshown:
            self._show_text()
        self._show(item)

    def _show_text(self) -> None:
        if self._unshown:
            text = "".join(self._unshown)
            self._unshown.clear()
            self._show(TextDelta(text))

    def _show(self, item: Event | Notice) -> None:
        for shown in self._fold.feed(item):
            if self._readers:
                entry = Entry(shown, self._fold.position, self._encode(shown))
                for reader in tuple(self._readers):
                    reader.add(entry)

    def subscribe(self) -> tuple[Subscription, TextFold]:
        """Add a reader; also return the state at this moment, which must be read before any await."""
        self._show_text()
        reader = Subscription(self._readers.discard)
        if self.is_closed:
            reader.close()
        else:
            self._readers.add(reader)
        return reader, self._fold

    def close(self) -> None:
        """End all subscriptions after the entries that wait."""
        self._show_text()
        self.is_closed = True
        for reader in tuple(self._readers):
            reader.close()
        self._readers.clear()
