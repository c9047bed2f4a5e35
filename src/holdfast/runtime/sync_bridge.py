"""The bridge from synchronous code: a background event loop that all calls of `run_sync` share.

It works in a script, in a thread, and inside a running event loop such as a notebook, because the
work never runs on the event loop of the caller. It must never leave work running: a caller that is
interrupted cancels its work and waits until it has ended. Nothing that a tool does may stop the loop
for the other calls.
"""

from __future__ import annotations

import asyncio
import atexit
import logging
import os
import threading
from collections.abc import AsyncIterator, Coroutine, Iterator
from concurrent.futures import CancelledError as FutureCancelled
from contextlib import suppress
from typing import TypeVar

_LAST_SECONDS = 2.0  # how long the exit of the program waits for connections to close
_LONGEST_END = 5.0  # seconds that an interrupted caller waits for its work to end

_log = logging.getLogger("holdfast")

T = TypeVar("T")


class _BackgroundLoop:
    """One loop per process, in its own thread, so that calls can reuse connections."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Reset after a fork: the child process has the loop, but not the thread that ran it."""
        # Replace the lock too, because another thread may have held it during the fork.
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_closing = False
        self._thread: threading.Thread | None = None

    def get_loop(self) -> asyncio.AbstractEventLoop:
        """Return the running loop; the first call starts it."""
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(
                    target=self._keep_running, name="holdfast-run-sync", daemon=True
                )
                self._thread.start()
            return self._loop

    def _keep_running(self) -> None:
        """Run the loop until the program exits.

        `loop.stop()` in a tool ends `run_forever`, and so does KeyboardInterrupt or SystemExit of a
        task. asyncio has stored such an exception in the task, and the caller of that task gets it.
        """
        loop = self._loop
        while loop is not None and not self._is_closing:
            try:
                loop.run_forever()
            except (KeyboardInterrupt, SystemExit) as error:
                _log.warning("a task of run_sync raised %s", type(error).__name__)

    def close(self) -> None:
        """Close the loop at exit, after its async generators have closed their connections."""
        loop, thread = self._loop, self._thread
        if loop is None or thread is None or not thread.is_alive():
            return
        ending = asyncio.run_coroutine_threadsafe(loop.shutdown_asyncgens(), loop)
        with suppress(TimeoutError, FutureCancelled):
            ending.result(timeout=_LAST_SECONDS)
        self._is_closing = True
        loop.call_soon_threadsafe(loop.stop)
        thread.join(_LAST_SECONDS)


_background = _BackgroundLoop()
atexit.register(_background.close)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_background.reset)


def run_blocking(work: Coroutine[object, object, T]) -> T:
    """Run `work` on the background loop and wait for it.

    Args:
        work: a coroutine that has not started.

    Raises:
        RuntimeError: called on the background loop itself, which would be a deadlock.
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
        # Ctrl-C can arrive after the work has begun but before `future` is assigned.
        if future is None or not future.done():
            _cancel_and_wait(work, loop)
        raise


def iterate_blocking(items: AsyncIterator[T]) -> Iterator[T]:
    """Yield the items of an asynchronous iterator; leaving the loop early ends it."""

    async def read_next() -> tuple[T] | None:
        try:
            return (await anext(items),)
        except StopAsyncIteration:
            return None

    async def close() -> None:
        end = getattr(items, "aclose", None)
        if end is not None:
            await end()

    try:
        found = run_blocking(read_next())
        while found is not None:
            yield found[0]
            found = run_blocking(read_next())
    finally:
        run_blocking(close())


def _cancel_and_wait(
    work: Coroutine[object, object, object], loop: asyncio.AbstractEventLoop
) -> None:
    """Cancel the work and wait for its end, with a timeout in case it ignores cancellation."""
    done = asyncio.run_coroutine_threadsafe(_cancel_work(work), loop)
    try:
        done.result(timeout=_LONGEST_END)
    except (FutureCancelled, TimeoutError):
        return


async def _cancel_work(work: Coroutine[object, object, object]) -> None:
    # The loop runs callbacks of other threads in order, so work without a task has not begun.
    mine = [task for task in asyncio.all_tasks() if task.get_coro() is work]
    for task in mine:
        task.cancel()
    if mine:
        await asyncio.wait(mine)
    else:
        work.close()
