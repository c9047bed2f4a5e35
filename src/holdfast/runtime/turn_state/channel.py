"""The queue that carries the events, notices and questions of one run to its reader.

Notices of hooks and tools come from any thread. The channel must never block the run for a reader that
has left, or grow without bound for a slow reader. The outcome of a run must never depend on it.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from threading import get_ident
from typing import TypeAlias

from holdfast.core.errors import ConfigurationError
from holdfast.core.events import Event
from holdfast.core.notices import Notice, is_custom
from holdfast.core.questions import AnyQuestion
from holdfast.runtime.turn_state.leaving_open import Shutdown

_log = logging.getLogger("holdfast")
Item: TypeAlias = Event | Notice | AnyQuestion

_HIGH_WATER = 512
"""The number of unread items at which the writer waits: about one socket read of small deltas."""

MOST_UNREAD = 10_000
"""The number of unread items at which notices of hooks and tools are dropped, as they cannot wait."""


class Channel:
    """A queue for one reader and any number of writers, fast for thousands of small items.

    Args:
        shutdown: how the turn is left open; None if it cannot be.
    """

    live = True
    """Whether the reader wants deltas as they arrive, so that replies must be streamed."""

    __slots__ = (
        "_closed",
        "_failure",
        "_has_dropped",
        "_is_live",
        "_items",
        "_read_waiters",
        "_reader",
        "_writers",
        "saved_before",
        "shutdown",
    )

    def __init__(self, shutdown: Shutdown | None = None) -> None:
        self.shutdown = shutdown
        """How the turn is left open; None if it cannot be."""
        self.saved_before = 0
        """The number of records of the session before the first event here."""
        self._items: deque[Item] = deque()
        self._is_live: Callable[[], bool] | None = None
        self._closed = False
        self._has_dropped = False
        self._failure: BaseException | None = None
        self._reader: asyncio.Future[None] | None = None
        self._writers: list[asyncio.Future[None]] = []
        self._read_waiters: list[asyncio.Future[None]] = []

    def publish(self, item: Item) -> None:
        """Publish one item without waiting. After `close`, items are dropped."""
        if self._closed:
            return
        self._items.append(item)
        reader = self._reader
        if reader is not None:
            self._reader = None
            if not reader.done():
                reader.set_result(None)

    def offer(self, item: Item) -> None:
        """Publish an item whose writer cannot wait, or drop it while the reader is very far behind."""
        if len(self._items) < MOST_UNREAD:
            self.publish(item)
        elif not self._has_dropped:
            self._has_dropped = True
            _log.warning(
                "the reader of a run is %d items behind, so notices of hooks and tools are dropped",
                MOST_UNREAD,
            )

    def deliver_live_while(self, is_live: Callable[[], bool]) -> None:
        """Say when the reader needs deltas as they arrive; otherwise they may come in larger pieces."""
        self._is_live = is_live

    def is_watched(self) -> bool:
        """Whether the reader needs deltas as they arrive, at this moment."""
        return not self._closed and (self._is_live is None or self._is_live())

    async def ready(self) -> None:
        """Wait while the reader is far behind."""
        while len(self._items) >= _HIGH_WATER and not self._closed:
            writer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._writers.append(writer)
            await writer

    async def wait_until_read(self) -> None:
        """Wait until the reader has taken all items and asks for more, or has left."""
        if self._closed or (self._reader is not None and not self._items):
            return
        seer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._read_waiters.append(seer)
        await seer

    def close(self, failure: BaseException | None = None) -> None:
        """Accept no more items. The reader gets the remaining items and then the end.

        Args:
            failure: the error of the run; the reader gets it instead of a plain end.
        """
        self._closed = True
        self._failure = self._failure or failure
        wake_all(self._writers)
        wake_all(self._read_waiters)
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)

    def abandon(self) -> None:
        """Drop all items and release the writers, because the reader has left."""
        self._items.clear()
        self.close()

    def __aiter__(self) -> Channel:
        return self

    async def __anext__(self) -> Item:
        items = self._items
        while not items:
            if self._failure is not None:
                raise self._failure
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
    """Wake all waiting futures and clear the list."""
    for one in waiting:
        if not one.done():
            one.set_result(None)
    waiting.clear()


def require_asyncio() -> None:
    """Raise ConfigurationError unless the caller runs on an asyncio event loop.

    Without the check, another event loop such as trio fails somewhere inside, and leaves coroutines
    that were never awaited.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        is_running = False
    else:
        is_running = True
    if not is_running:
        raise ConfigurationError(
            "event loop",
            "an agent runs on asyncio, and no asyncio event loop is running here",
            fix="Start the program with asyncio.run(...). From trio, call agent.run_sync(...) in a "
            "thread: await trio.to_thread.run_sync(agent.run_sync, prompt)",
        )


class NoticeEmitter:
    """Publishes the notices of hooks and tools of one turn; it is made on the event loop of the turn.

    Args:
        publish: publishes a notice.
        offer: publishes a notice of the user's own, unless the reader is very far behind.
    """

    __slots__ = ("_loop", "_offer", "_publish", "_thread")

    def __init__(self, publish: Callable[[Notice], None], offer: Callable[[Notice], None]) -> None:
        self._publish = publish
        self._offer = offer
        self._loop = asyncio.get_running_loop()
        self._thread = get_ident()

    def __call__(self, notice: Notice) -> None:
        """Publish a notice now, or from another thread as soon as the event loop can."""
        send = self._offer if is_custom(notice) else self._publish
        if get_ident() == self._thread:
            send(notice)
            return
        with suppress(RuntimeError):  # the loop is closed, so nobody listens any more
            self._loop.call_soon_threadsafe(send, notice)
