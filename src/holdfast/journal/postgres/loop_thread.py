"""Runs an event loop in a separate thread, for a journal that several loops and threads share.

The thread starts with the first job, so that the process may fork before it. A job whose caller was
cancelled is dropped if it has not begun.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine
from typing import TypeAlias, TypeVar

from holdfast.journal.handoff import Handoff
from holdfast.journal.journal_errors import JournalClosedError

T = TypeVar("T")

Begin: TypeAlias = Callable[[], None]
"""A job calls it before it changes anything; it raises WithdrawnError if the caller was cancelled."""

LoopJob: TypeAlias = Callable[[Begin], Coroutine[object, object, T]]


class WithdrawnError(BaseException):
    """The caller of a job was cancelled before the job began."""


class LoopThread:
    """Runs jobs until it is closed.

    Args:
        path: names the journal in errors.
        on_close: called when the last job has ended.
    """

    def __init__(self, path: str, on_close: Callable[[], Coroutine[object, object, None]]) -> None:
        self.path = path
        self._on_close = on_close
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._acts: dict[asyncio.Task[object], Begin] = {}
        self._closed = False

    def submit(self, act: LoopJob[T]) -> Handoff[T]:
        """Start a job. Raises JournalClosedError after `close`, and after a fork."""
        way: Handoff[T] = Handoff()
        self._call(self._start_act, act, way)
        return way

    def start(
        self, work: Callable[[], Coroutine[object, object, None]], begin: Begin | None = None
    ) -> None:
        """Start work that hands its outcomes over itself, and that `close` waits for.

        Args:
            work: the work.
            begin: called by `close`; raises WithdrawnError if nobody waits for the work any more.

        Raises:
            JournalClosedError: as `submit` does.
        """
        self._call(self._start_work, work, begin or _begin_nothing)

    def check_open(self) -> None:
        """Raise JournalClosedError after `close`, and after a fork."""
        if self._closed:
            raise JournalClosedError(self.path, "is closed", fix="Open it again")
        if self._loop is not None and os.getpid() != self._process:
            raise JournalClosedError(
                self.path,
                "was in use before this process was forked",
                fix="Open a journal in the child",
            )

    def _call(self, function: Callable[..., None], *arguments: object) -> None:
        with self._lock:
            self.check_open()
            self._running_loop().call_soon_threadsafe(function, *arguments)

    def _start_work(
        self, work: Callable[[], Coroutine[object, object, None]], begin: Begin
    ) -> None:
        task = asyncio.get_running_loop().create_task(work())
        self._acts[task] = begin
        task.add_done_callback(self._acts.pop)

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            self._process = os.getpid()
            # Not the default loop: the PostgreSQL driver does not support that of Windows.
            self._loop = asyncio.SelectorEventLoop()
            self._thread = threading.Thread(
                target=_run_loop, args=(self._loop,), name="holdfast-journal", daemon=True
            )
            self._thread.start()
        return self._loop

    def _start_act(self, act: LoopJob[T], handoff: Handoff[T]) -> None:
        begun = False

        def begin() -> None:
            nonlocal begun
            begun = begun or handoff.claim()
            if not begun:
                raise WithdrawnError

        task = asyncio.get_running_loop().create_task(act(begin))
        self._acts[task] = begin

        def ended(task: asyncio.Task[T]) -> None:
            del self._acts[task]
            if task.cancelled():
                return  # it was withdrawn
            if (error := task.exception()) is None:
                handoff.value = task.result()
            handoff.error = error
            if begun or handoff.claim():  # else nobody waits for it
                handoff.finish()

        task.add_done_callback(ended)

    def close(self, seconds: float | None = None) -> bool:
        """Wait until every job has ended, and stop the thread.

        Args:
            seconds: how long to wait for that at most; None for as long as it takes.

        Returns:
            Whether the thread has ended.
        """
        if os.getpid() != self._process:
            return True
        with self._lock:
            was_closed, self._closed = self._closed, True
            loop, thread = self._loop, self._thread
        if loop is None or thread is None:
            return True
        if not was_closed:
            asyncio.run_coroutine_threadsafe(self._drain_and_stop(loop), loop)
        # The garbage collector may finalize a journal in any thread, including this one.
        if threading.current_thread() is not thread:
            thread.join(seconds)
        return not thread.is_alive()

    async def _drain_and_stop(self, loop: asyncio.AbstractEventLoop) -> None:
        try:
            for task, begin in self._acts.items():
                try:
                    begin()
                except WithdrawnError:
                    task.cancel()  # do not wait for a server that does not respond
            while self._acts:
                await asyncio.wait(self._acts)
            await self._on_close()
        finally:
            loop.stop()


def _begin_nothing() -> None:
    """Work that hands its outcomes over itself begins each job itself."""


def _run_loop(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    loop.run_forever()
    loop.run_until_complete(loop.shutdown_asyncgens())
    loop.close()
