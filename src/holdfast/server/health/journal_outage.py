"""Answers requests that wait for a journal whose server cannot be reached.

The journal waits for its server for some seconds, so that turns survive a restart of it. A caller gets
its answer sooner. A request that has begun goes on, and its own answer is dropped. This module must never
end a turn.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

SECONDS_OF_PATIENCE = 1.5
"""How long a request may wait while the server cannot be reached."""

_SECONDS_UNTIL_KNOWN = 0.5
_SECONDS_BETWEEN_LOOKS = 0.25


class WaitingRequest:
    """A request that was not answered yet.

    Args:
        refuse: answers it with 503.
        since: when it came.
    """

    __slots__ = ("is_refused", "refuse", "since", "task")

    def __init__(self, refuse: Callable[[], Awaitable[None]], since: float) -> None:
        self.refuse = refuse
        self.since = since
        self.task = asyncio.current_task()
        self.is_refused = False


class JournalOutage:
    """Whether the server of the journal can be reached, and the requests that wait meanwhile.

    Args:
        monotonic: a clock in seconds that does not go back.
    """

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._since: float | None = None
        self._waiting: dict[asyncio.Task[object] | None, WaitingRequest] = {}
        self._looking: asyncio.TimerHandle | None = None
        self._refusals: set[asyncio.Task[None]] = set()

    @property
    def is_known(self) -> bool:
        """Whether the server cannot be reached for longer than a lost connection takes."""
        return self._since is not None and self._monotonic() - self._since >= _SECONDS_UNTIL_KNOWN

    def note_link(self, is_up: bool) -> None:  # REASON: a callback
        """Note, on the event loop, whether the server can be reached."""
        if self._looking is not None:
            self._looking.cancel()
            self._looking = None
        self._since = None if is_up else self._monotonic()
        if not is_up:
            self._look_later()

    def add(self, request: WaitingRequest) -> None:
        """Note a request that its task is to answer."""
        self._waiting[request.task] = request

    def remove(self, request: WaitingRequest) -> None:
        """Note that a request is answered."""
        self._waiting.pop(request.task, None)

    def let_wait(self) -> None:
        """Note that the request of the current task waits for its turn, and is not to be refused.

        The turn goes on when the server is back, and a repetition could be another turn.
        """
        self._waiting.pop(asyncio.current_task(), None)

    def _look_later(self) -> None:
        loop = asyncio.get_running_loop()
        self._looking = loop.call_later(_SECONDS_BETWEEN_LOOKS, self._look)

    def _look(self) -> None:
        now, since = self._monotonic(), self._since or 0.0
        for task, request in list(self._waiting.items()):
            if now - max(since, request.since) >= SECONDS_OF_PATIENCE:
                del self._waiting[task]
                request.is_refused = True
                refusal = asyncio.ensure_future(request.refuse())
                self._refusals.add(refusal)
                refusal.add_done_callback(self._refusals.discard)
        self._look_later()
