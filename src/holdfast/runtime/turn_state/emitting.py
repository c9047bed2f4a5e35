"""Publishes the notices of hooks and tools, from any thread.

It must never wait, and must never raise because nobody listens any more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from threading import get_ident

from holdfast.core.notices import Notice, is_custom


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
