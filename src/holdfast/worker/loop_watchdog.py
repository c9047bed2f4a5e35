"""Ends a process whose event loop is blocked for so long that it has lost its turns.

Another worker cannot take over the turns of such a process while a thread of it renews their leases. A thread
looks whether the loop answers. Code that holds the interpreter itself stops this thread too, and the renewal of the
leases with it. This module must never run in a process that is no worker, unless that asked for it.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic

EXIT_STATUS = 70
"""The status of a process that ended itself."""

_LOOKS = 20  # in the time after which a process ends
_SECONDS_TO_SAY_WHY = 2.0

_log = logging.getLogger("holdfast.worker")


def end_process() -> None:
    """End the process at once: whatever blocks its loop would block an orderly end too."""
    os._exit(EXIT_STATUS)


def _say_why(seconds: float) -> None:
    """Write a line to the log, unless the log blocks the loop."""
    text = "the event loop was blocked for %.0f s: the process ends, and another worker takes over"
    writing = threading.Thread(target=_log.critical, args=(text, seconds), daemon=True)
    writing.start()
    writing.join(_SECONDS_TO_SAY_WHY)


class LoopWatchdog:
    """Looks whether an event loop answers.

    Args:
        loop: the loop.
        seconds: for how long it may be blocked.
        end: is called then, in the thread of the watchdog.
        now: returns the time, in seconds.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        seconds: float,
        end: Callable[[], None] = end_process,
        now: Callable[[], float] = monotonic,
    ) -> None:
        self._loop = loop
        self._seconds = seconds
        self._pause = seconds / _LOOKS
        self._end = end
        self._now = now
        self._blocked = 0.0
        self._answered = threading.Event()
        self._is_over = threading.Event()

    def look(self, passed: float) -> bool:
        """Note that time has passed; return whether the loop was blocked for too long.

        A time much longer than a pause counts as one pause: the process itself was stopped, and the loop
        could not have answered.

        Args:
            passed: the seconds since the last look.
        """
        if self._answered.is_set():
            self._blocked = 0.0
            self._answered.clear()
            self._loop.call_soon_threadsafe(self._answered.set)
        else:
            self._blocked += min(passed, 2 * self._pause)
        return self._blocked >= self._seconds

    def run(self) -> None:
        """Look until `close` is called or the loop is closed."""
        self._answered.set()
        last = self._now()
        while not self._is_over.wait(self._pause):
            now = self._now()
            try:
                if self.look(now - last):
                    _say_why(self._blocked)
                    self._end()
                    return
            except RuntimeError:  # the loop is closed
                return
            last = now

    def close(self) -> None:
        """Stop looking."""
        self._is_over.set()


@contextmanager
def watch_loop(seconds: float, end: Callable[[], None] = end_process) -> Iterator[None]:
    """End the process if the running event loop is blocked for so long within the block.

    Args:
        seconds: for how long it may be blocked.
        end: ends the process.
    """
    watchdog = LoopWatchdog(asyncio.get_running_loop(), seconds, end)
    thread = threading.Thread(target=watchdog.run, name="holdfast-watchdog", daemon=True)
    thread.start()
    try:
        yield
    finally:
        watchdog.close()
