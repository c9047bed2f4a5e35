"""A time limit that is paused while a person is asked.

People take minutes where tools take seconds: the limit of a tool or a turn is for its own work.
This module must never lengthen a limit for any other reason.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import Self


class PausableTimeout:
    """What runs in this block, and the tasks that it starts, can pause one `asyncio.timeout`.

    Pauses may overlap.

    Args:
        scope: the timeout; entered already, and left after this block.
    """

    __slots__ = ("_pauses", "_remaining", "_scope", "_token", "has_ended")

    def __init__(self, scope: asyncio.Timeout) -> None:
        self._scope = scope
        self._pauses = 0
        self._remaining = 0.0
        self.has_ended = False

    def __enter__(self) -> Self:
        self._token = _innermost.set(self)
        return self

    def __exit__(self, *_error: object) -> None:
        self.has_ended = True
        _innermost.reset(self._token)

    @contextmanager
    def pause(self) -> Iterator[None]:
        """Let no time count until the end of the block."""
        endless = self._scope.when() is None and not self._pauses
        if endless or self.has_ended or self._scope.expired():
            yield
            return
        loop = asyncio.get_running_loop()
        if not self._pauses:
            self._remaining = (self._scope.when() or 0.0) - loop.time()
            self._scope.reschedule(None)
        self._pauses += 1
        try:
            yield
        finally:
            self._pauses -= 1
            # A task that the work left behind may end its pause after the limit is gone.
            if not self._pauses and not self.has_ended:
                self._scope.reschedule(loop.time() + self._remaining)


_innermost: ContextVar[PausableTimeout | None] = ContextVar(
    "holdfast-pausable-timeout", default=None
)


def pause_timeout() -> AbstractContextManager[None]:
    """Pause the innermost limit that can be paused, if there is one."""
    innermost = _innermost.get()
    return innermost.pause() if innermost is not None else nullcontext()
