"""The live side channel of one run: events, notices and questions on their way to one reader.

It must never hold up the run for a reader that went away, never grow without bound for one that is
slow, and never be needed for the run to be right.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TypeAlias

from holdfast.core.events import Event
from holdfast.core.notices import Notice
from holdfast.core.questions import AnyQuestion

Item: TypeAlias = Event | Notice | AnyQuestion

_HIGH_WATER = 512
"""Unread items at which the producer waits: about one socket read of small deltas."""


class Channel:
    """A queue with one writer side and one reader, made for thousands of tiny items."""

    live = True
    """Whether somebody reads what is published as it comes, so that replies are to be streamed."""

    __slots__ = ("_closed", "_items", "_read_waiters", "_reader", "_writers")

    def __init__(self) -> None:
        self._items: deque[Item] = deque()
        self._closed = False
        self._reader: asyncio.Future[None] | None = None
        self._writers: list[asyncio.Future[None]] = []
        self._read_waiters: list[asyncio.Future[None]] = []

    def publish(self, item: Item) -> None:
        """Hand over one item; never waits. After `close`, items are dropped."""
        if self._closed:
            return
        self._items.append(item)
        reader = self._reader
        if reader is not None:
            self._reader = None
            if not reader.done():
                reader.set_result(None)

    async def ready(self) -> None:
        """Wait while the reader is far behind."""
        while len(self._items) >= _HIGH_WATER and not self._closed:
            writer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._writers.append(writer)
            await writer

    async def wait_until_read(self) -> None:
        """Wait until the reader has taken all there is and asks for more, or went away."""
        if self._closed or (self._reader is not None and not self._items):
            return
        seer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._read_waiters.append(seer)
        await seer

    def close(self) -> None:
        """No more items; a reader gets what is left, and then the end."""
        self._closed = True
        wake_all(self._writers)
        wake_all(self._read_waiters)
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)

    def abandon(self) -> None:
        """The reader went away: drop everything and let the writer go on."""
        self._items.clear()
        self.close()

    def __aiter__(self) -> Channel:
        return self

    async def __anext__(self) -> Item:
        items = self._items
        while not items:
            if self._closed:
                raise StopAsyncIteration
            if self._reader is not None and not self._reader.done():
                raise RuntimeError("a run has one reader: read in one task, and hand on from there")
            if self._read_waiters:
                wake_all(self._read_waiters)
            self._reader = asyncio.get_running_loop().create_future()
            await self._reader
        if self._writers and len(items) <= _HIGH_WATER // 2:
            wake_all(self._writers)
        return items.popleft()


def wake_all(waiting: list[asyncio.Future[None]]) -> None:
    """Let all go on that wait, and forget them."""
    for one in waiting:
        if not one.done():
            one.set_result(None)
    waiting.clear()
