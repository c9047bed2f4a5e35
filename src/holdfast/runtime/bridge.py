"""The one bridge from synchronous code: a background loop that all of `run_sync` shares.

It works from a plain script, from a thread, and from inside a running event loop (a notebook),
because the work never runs on the caller's own loop. It must never leave work behind: a caller
that is interrupted cancels what it asked for and waits until it is gone.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import CancelledError as FutureCancelled
from typing import TypeVar

T = TypeVar("T")


class _Background:
    """One loop per process, on a thread of its own, so that connections are kept between calls."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None

    def loop(self) -> asyncio.AbstractEventLoop:
        """The running loop; the first call starts it."""
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                thread = threading.Thread(
                    target=self._loop.run_forever, name="holdfast-run-sync", daemon=True
                )
                thread.start()
            return self._loop


_background = _Background()


def run_blocking(work: Coroutine[object, object, T]) -> T:
    """Run `work` on the background loop and wait for it.

    Args:
        work: a coroutine that was not started.

    Raises:
        RuntimeError: called on the background loop itself, which would wait for ever.
    """
    loop = _background.loop()
    try:
        running = asyncio.get_running_loop()
    except RuntimeError:
        running = None
    if running is loop:
        work.close()
        raise RuntimeError("run_sync cannot wait on its own loop: use `await agent.run(...)` here")
    future = asyncio.run_coroutine_threadsafe(work, loop)
    try:
        return future.result()
    except BaseException:
        if not future.done():
            future.cancel()
            _wait_until_gone(loop)
        raise


def _wait_until_gone(loop: asyncio.AbstractEventLoop) -> None:
    """Let the loop turn until the cancelled work had its say; bounded, as it may refuse."""
    done = asyncio.run_coroutine_threadsafe(asyncio.sleep(0.05), loop)
    try:
        done.result(timeout=5)
    except (FutureCancelled, TimeoutError):
        return
