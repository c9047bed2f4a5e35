"""The one bridge from synchronous code: a background loop that all of `run_sync` shares.

It works from a plain script, from a thread, and from inside a running event loop (a notebook),
because the work never runs on the caller's own loop. It must never leave work behind: a caller
that is interrupted cancels what it asked for and waits until it is gone.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
from collections.abc import Coroutine
from concurrent.futures import CancelledError as FutureCancelled
from contextlib import suppress
from typing import TypeVar

_LAST_SECONDS = 2.0  # that the end of a program waits for connections to close
_LONGEST_END = 5.0  # seconds that whoever is interrupted waits for the end of what it asked for

T = TypeVar("T")


class _BackgroundLoop:
    """One loop per process, on a thread of its own, so that connections are kept between calls."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Begin anew: in a forked child the loop is there, but the thread that ran it is not."""
        # The lock too: at the fork another thread may have held it.
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def get_loop(self) -> asyncio.AbstractEventLoop:
        """The running loop; the first call starts it."""
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(
                    target=self._loop.run_forever, name="holdfast-run-sync", daemon=True
                )
                self._thread.start()
            return self._loop

    def close(self) -> None:
        """At the end of the program: let what holds connections close them, so that none is lost."""
        loop, thread = self._loop, self._thread
        if loop is None or thread is None or not thread.is_alive():
            return
        ending = asyncio.run_coroutine_threadsafe(loop.shutdown_asyncgens(), loop)
        with suppress(TimeoutError, FutureCancelled):
            ending.result(timeout=_LAST_SECONDS)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(_LAST_SECONDS)


_background = _BackgroundLoop()
atexit.register(_background.close)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_background.reset)


def run_blocking(work: Coroutine[object, object, T]) -> T:
    """Run `work` on the background loop and wait for it.

    Args:
        work: a coroutine that was not started.

    Raises:
        RuntimeError: called on the background loop itself, which would wait for ever.
    """
    loop = _background.get_loop()
    try:
        running = asyncio.get_running_loop()
    except RuntimeError:
        running = None
    if running is loop:
        work.close()
        raise RuntimeError("run_sync cannot wait on its own loop: use `await agent.run(...)` here")
    future = None
    try:
        future = asyncio.run_coroutine_threadsafe(work, loop)
        return future.result()
    except BaseException:
        # Ctrl-C may come before there is a future, and after the work has begun.
        if future is None or not future.done():
            _cancel_and_wait(work, loop)
        raise


def _cancel_and_wait(
    work: Coroutine[object, object, object], loop: asyncio.AbstractEventLoop
) -> None:
    """Cancel the work and let the loop turn until it had its say; bounded, as it may refuse."""
    done = asyncio.run_coroutine_threadsafe(_cancel_work(work), loop)
    try:
        done.result(timeout=_LONGEST_END)
    except (FutureCancelled, TimeoutError):
        return


async def _cancel_work(work: Coroutine[object, object, object]) -> None:
    # The loop takes in order what other threads hand to it: what has no task now was never begun.
    mine = [task for task in asyncio.all_tasks() if task.get_coro() is work]
    for task in mine:
        task.cancel()
    if mine:
        await asyncio.wait(mine)
    else:
        work.close()
