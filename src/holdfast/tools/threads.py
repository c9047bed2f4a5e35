"""Threads for sync tools. They are daemon threads of our own, so that a stuck tool blocks no other.

A caller that gives up (timeout, cancellation) returns at once. Python cannot stop the thread: it is
*abandoned*, no longer counts towards the limit, and is listed in `abandoned_tools`. A warning is
logged then, and when it ends. Work that has not begun when its caller gives up never begins. Work that waits
for some seconds, because tools without a timeout are stuck, gets a thread above the limit, or is
rejected if there are too many threads, so nothing waits forever. Work that a thread of the pool waits for gets a
thread at once, because the one that waits does nothing meanwhile. Daemon threads do not delay the end
of the process. This module never runs a call twice.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import os
import threading
import weakref
from collections import deque
from collections.abc import Callable
from itertools import count
from time import monotonic
from typing import Literal

from holdfast.core.argument_checks import check_arguments
from holdfast.core.constraints import PositiveFloat, PositiveInt
from holdfast.core.errors import (
    ConfigurationError,
    ErrorCategory,
    ErrorInfo,
    Landed,
    ToolFailedError,
)

_log = logging.getLogger("holdfast.tools")

THREADS = 64
MOST_THREADS = 512
PATIENCE = 5.0
"""Seconds in the queue after which a thread above the limit is started."""
_IDLE_SECONDS = 30.0


class ThreadCall:
    """One call that runs in a thread."""

    __slots__ = ("_call", "_context", "_future", "_loop", "error", "name", "state", "value")

    def __init__(self, name: str, call: Callable[[], object]) -> None:
        self.name = name
        self.state: Literal["waiting", "running", "done", "abandoned", "dropped"] = "waiting"
        self.value: object = None
        self.error: BaseException | None = None
        self._call = call
        self._context = contextvars.copy_context()
        self._loop = asyncio.get_running_loop()
        self._future: asyncio.Future[None] = self._loop.create_future()

    def run(self) -> None:
        """Run the call, in the thread. An exception is stored, because a future rejects StopIteration."""
        try:
            self.value = self._context.run(self._call)
        except BaseException as error:  # noqa: BLE001  # REASON: it is raised again in the caller's task
            self.error = error

    def notify_caller(self) -> None:
        """Wake the caller, from the thread, if its loop still runs."""
        try:
            self._loop.call_soon_threadsafe(self._wake_caller)
        except RuntimeError:
            _log.debug("the loop that waited for function %r has ended", self.name)

    def _wake_caller(self) -> None:
        if not self._future.done():
            self._future.set_result(None)

    def refuse(self, reason: str) -> None:
        """Fail the call, on the loop; it will never begin."""
        info = ErrorInfo(
            category=ErrorCategory.TRANSIENT,
            landed=Landed.NO,
            safe=f"Function '{self.name}' was not run: {reason}.",
            code="no_thread",
        )
        self.error = ToolFailedError(self.name, reason, info=info)
        self._wake_caller()

    async def wait(self) -> None:
        """Wait in the caller's task until the call is done."""
        await self._future


class ToolThreads:
    """A pool of threads that grows on demand and does not count stuck threads.

    Args:
        limit: the number of tools that run at once, without abandoned ones; others wait in a queue.
        max_threads: the maximum number of all threads; further work is rejected.
        queue_timeout: seconds in the queue after which a thread above the limit is started.
    """

    @check_arguments
    def __init__(
        self,
        limit: PositiveInt = THREADS,
        *,
        max_threads: PositiveInt = MOST_THREADS,
        queue_timeout: PositiveFloat = PATIENCE,
    ) -> None:
        if max_threads < limit:
            raise ConfigurationError("max_threads", f"must be at least {limit}, got {max_threads}")
        self._limit = limit
        self._max_threads = max_threads
        self._queue_timeout = queue_timeout
        self._numbers = count(1)
        self._of_thread = threading.local()
        self._start_empty()
        # A forked child process has none of its parent's threads.
        start_empty = weakref.WeakMethod(self._start_empty)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=lambda: (start := start_empty()) and start())

    def _start_empty(self) -> None:
        self._changed = threading.Condition(threading.Lock())
        self._waiting: deque[ThreadCall] = deque()
        self._threads = 0
        self._idle = 0
        self._abandoned: dict[ThreadCall, float] = {}

    @property
    def abandoned_tools(self) -> tuple[str, ...]:
        """The names of the tools whose callers gave up and that still run, oldest first."""
        with self._changed:
            return tuple(work.name for work in self._abandoned)

    async def run(self, work: ThreadCall) -> object:
        """Run `work` in a thread, and return its value or raise its exception.

        Raises:
            ToolFailedError: all threads are used by tools that do not end; the work did not run.
        """
        overdue = None
        if not self._submit_work(work):
            overdue = asyncio.get_running_loop().call_later(
                self._queue_timeout, self._start_extra_thread, work
            )
        try:
            await work.wait()
        except BaseException:
            self._abandon_work(work)
            raise
        finally:
            if overdue is not None:
                overdue.cancel()
        if work.error is not None:
            raise work.error
        return work.value

    def _submit_work(self, work: ThreadCall) -> bool:
        """Queue `work`, and return whether a thread will begin it at once."""
        is_waited_for = hasattr(self._of_thread, "serves")
        with self._changed:
            if is_waited_for:
                # Before work that has no thread yet, which could wait for more work in its turn.
                self._waiting.appendleft(work)
            else:
                self._waiting.append(work)
            if self._idle >= len(self._waiting):
                self._changed.notify()
                return True
            return (is_waited_for or self._threads < self._limit) and self._start_thread()

    def _start_extra_thread(self, work: ThreadCall) -> None:
        """Start a thread above the limit for work that has waited too long, or reject the work."""
        with self._changed:
            if work.state != "waiting":
                return
            if self._start_thread():
                return
            self._waiting.remove(work)
            work.state = "dropped"
        work.refuse("every thread is taken by a tool that does not end")

    def _abandon_work(self, work: ThreadCall) -> None:
        """Give up `work`: remove it from the queue, or abandon its thread."""
        with self._changed:
            if work.state == "waiting":
                self._waiting.remove(work)
                work.state = "dropped"
            elif work.state == "running":
                work.state = "abandoned"
                self._abandoned[work] = monotonic()
                self._threads -= 1
                _log.warning("function %r still runs in its thread after it was stopped", work.name)
                if len(self._waiting) > self._idle and self._threads < self._limit:
                    self._start_thread()

    def _start_thread(self) -> bool:
        """Start a thread, and return whether that succeeded."""
        if self._threads + len(self._abandoned) >= self._max_threads:
            return False
        name = f"holdfast-tool-{next(self._numbers)}"
        try:
            threading.Thread(target=self._serve_queue, name=name, daemon=True).start()
        except RuntimeError:
            _log.warning("the operating system cannot start more threads for tools")
            return False
        self._threads += 1
        self._idle += 1
        return True

    def _serve_queue(self) -> None:
        self._of_thread.serves = True
        while (work := self._next_work()) is not None:
            work.run()
            if self._finish_work(work):
                return
            work.notify_caller()
            del work

    def _next_work(self) -> ThreadCall | None:
        """Return the next work; None if the thread was idle for a while and should end."""
        with self._changed:
            has_work = self._changed.wait_for(lambda: bool(self._waiting), _IDLE_SECONDS)
            self._idle -= 1
            if not has_work:
                self._threads -= 1
                return None
            work = self._waiting.popleft()
            work.state = "running"
            return work

    def _finish_work(self, work: ThreadCall) -> bool:
        """End `work`, and return whether its thread was abandoned and must end."""
        with self._changed:
            since = self._abandoned.pop(work, None)
            if since is None:
                work.state = "done"
                # This comes before the caller wakes, so that the caller's next call finds this thread idle.
                self._idle += 1
                return False
            work.state = "done"
        _log.warning(
            "function %r ended %.1f seconds after its caller gave it up%s",
            work.name,
            monotonic() - since,
            f", with {type(work.error).__name__}" if work.error is not None else "",
        )
        return True
