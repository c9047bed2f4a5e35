"""A time limit that stands still while a person is asked.

People take minutes where tools take seconds: the limit of a tool or a turn is for its own work.
Nothing here may lengthen a limit for any other reason.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar


class Patience:
    """Pauses one `asyncio.timeout` while it is entered; pauses may overlap.

    Args:
        scope: the timeout.
    """

    __slots__ = ("_left", "_pauses", "_scope", "ended")

    def __init__(self, scope: asyncio.Timeout) -> None:
        self._scope = scope
        self._pauses = 0
        self._left = 0.0
        self.ended = False

    def end_now(self) -> None:
        """Let the limit run out at once: what it limits is in vain."""
        if not self.ended and not self._scope.expired():
            self.ended = True
            self._scope.reschedule(asyncio.get_running_loop().time())

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Let no time count until the end of the block."""
        endless = self._scope.when() is None and not self._pauses
        if endless or self.ended or self._scope.expired():
            yield
            return
        loop = asyncio.get_running_loop()
        if not self._pauses:
            self._left = (self._scope.when() or 0.0) - loop.time()
            self._scope.reschedule(None)
        self._pauses += 1
        try:
            yield
        finally:
            self._pauses -= 1
            # A task that the work left behind may end its pause after the limit is gone.
            if not self._pauses and not self.ended:
                self._scope.reschedule(loop.time() + self._left)


_innermost: ContextVar[Patience | None] = ContextVar("holdfast-patience", default=None)


class pausable:  # noqa: N801 - used as a function, and twice as fast as one that yields
    """What runs in this block, and the tasks that it starts, can pause `scope`.

    Args:
        scope: entered already, and left after this block.
    """

    __slots__ = ("_patience", "_token")

    def __init__(self, scope: asyncio.Timeout) -> None:
        self._patience = Patience(scope)

    def __enter__(self) -> Patience:
        self._token = _innermost.set(self._patience)
        return self._patience

    def __exit__(self, *_error: object) -> None:
        self._patience.ended = True
        _innermost.reset(self._token)


def paused() -> AbstractContextManager[None]:
    """Pause the innermost limit that can be paused, if there is one."""
    patience = _innermost.get()
    return patience.paused() if patience is not None else nullcontext()
