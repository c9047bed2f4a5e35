"""A time limit that is paused while a person is asked.

People take minutes where tools take seconds: the limit of a tool or a turn is for its own work.
A limit that is a share of another one is paused with that one. This module must never lengthen a
limit for any other reason.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import Self


class PausableTimeout:
    """Lets the code of a block, and the tasks that it starts, pause one `asyncio.timeout`.

    Pauses may overlap.

    Args:
        scope: the timeout; entered already, and left after this block.
        within: the limit of which this one is a share; a pause of it is a pause of this one.
    """

    __slots__ = ("_remaining", "_scope", "_token", "_within", "has_ended", "pauses", "shares")

    def __init__(self, scope: asyncio.Timeout, within: PausableTimeout | None = None) -> None:
        self._scope = scope
        self._within = within
        self.shares: set[PausableTimeout] = set()
        self.pauses = 0
        self._remaining: float | None = None  # while it is paused
        self.has_ended = False

    def __enter__(self) -> Self:
        self._token = _innermost.set(self)
        if self._within is not None:
            self._within.shares.add(self)
            for _ in range(self._within.pauses):
                self.begin_pause()
        return self

    def __exit__(self, *_error: object) -> None:
        self.has_ended = True
        if self._within is not None:
            self._within.shares.discard(self)
        _innermost.reset(self._token)

    @property
    def seconds_left(self) -> float | None:
        """The seconds until the limit, below 0 when it is over; None without a limit."""
        if self._remaining is not None:
            return self._remaining
        when = self._scope.when()
        return None if when is None else when - asyncio.get_running_loop().time()

    @contextmanager
    def pause(self) -> Iterator[None]:
        """Let no time count until the end of the block."""
        self.begin_pause()
        try:
            yield
        finally:
            self.end_pause()

    def begin_pause(self) -> None:
        """Let no time count, here and in the shares, until `end_pause` was called as often."""
        self.pauses += 1
        if self.pauses == 1 and not self.has_ended and not self._scope.expired():
            self._remaining = self.seconds_left
            if self._remaining is not None:
                self._scope.reschedule(None)
        for share in self.shares:
            share.begin_pause()

    def end_pause(self) -> None:
        """End one pause."""
        self.pauses -= 1
        # A task that the work left behind may end its pause after the limit is gone.
        if not self.pauses and self._remaining is not None and not self.has_ended:
            self._scope.reschedule(asyncio.get_running_loop().time() + self._remaining)
        if not self.pauses:
            self._remaining = None
        for share in self.shares:
            share.end_pause()


LEFT_FOR_THE_TURN = 60.0
"""Seconds that the share of one piece of work leaves to the rest of its turn."""


def find_share(seconds: float) -> float:
    """Return the seconds that work without a limit of its own may take: all but 60, or but a fifth.

    Args:
        seconds: the time that the turn has left.

    >>> find_share(300.0), find_share(100.0)
    (240.0, 80.0)
    """
    left = max(0.0, seconds)
    return left - min(LEFT_FOR_THE_TURN, left / 5)


_innermost: ContextVar[PausableTimeout | None] = ContextVar(
    "holdfast-pausable-timeout", default=None
)


def pause_timeout() -> AbstractContextManager[None]:
    """Pause the innermost limit that can be paused, if there is one."""
    innermost = _innermost.get()
    return innermost.pause() if innermost is not None else nullcontext()
