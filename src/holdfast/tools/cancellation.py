"""Ends a tool that was cancelled, whatever the tool does.

A coroutine can catch its cancellation and continue. Then the limit of a turn, a timeout or
`run.cancel()` would wait for it without end. Here a cancelled tool has some seconds to clean up.
After that it is *abandoned*: its code is not resumed. A value or an exception with which a tool
answers its cancellation is dropped, because the caller asked for the end.

The tool runs in the task of its caller. A task of its own would cost more than all other work of a
call. This module must never end a tool that was not cancelled.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Generator
from types import coroutine
from typing import Any, TypeVar

_log = logging.getLogger("holdfast.tools")

LONGEST_CLEANUP = 5.0
"""Seconds that a tool may take to end after its cancellation."""

T = TypeVar("T")


@coroutine
def end_when_cancelled(
    work: Awaitable[T], name: str, find_cleanup: Callable[[], float] | None = None
) -> Generator[Any, None, T]:
    """Await work that must end soon after its task was cancelled.

    Args:
        work: the awaitable of the tool.
        name: the name of the tool, for the log.
        find_cleanup: returns the most seconds for its cleanup, if these are fewer than usual; called
            when the task was cancelled.

    Raises:
        CancelledError: the task was cancelled meanwhile, and the work has ended in whatever way.
    """
    task = asyncio.current_task()
    before = 0 if task is None else task.cancelling()
    steps = work.__await__()
    cleanup: _Cleanup | None = None
    thrown: BaseException | None = None
    try:
        while True:
            try:
                waits_for = next(steps) if thrown is None else _throw(steps, thrown)
            except Exception as end:
                # A timeout within the tool is no cancellation from outside.
                if task is not None and task.cancelling() > before:
                    raise asyncio.CancelledError from end
                if isinstance(end, StopIteration):
                    return end.value  # type: ignore[no-any-return]  # REASON: Any in typeshed
                raise
            if cleanup is None and task is not None and task.cancelling() > before:
                bound = LONGEST_CLEANUP if find_cleanup is None else find_cleanup()
                cleanup = _Cleanup(task, min(LONGEST_CLEANUP, bound))
            thrown = None
            try:
                yield waits_for
            except GeneratorExit:
                _close(steps, name)
                raise
            except BaseException as error:  # REASON: the tool gets it
                if cleanup is not None and cleanup.is_overdue:
                    cleanup.abandon(steps, name)
                    raise
                thrown = error
    finally:
        if cleanup is not None:
            cleanup.timer.cancel()


class _Cleanup:
    """The time that a tool has to end after its cancellation.

    Args:
        task: the task that was cancelled; it is cancelled again when the time is over.
        seconds: the time.
    """

    __slots__ = ("_seconds", "_task", "is_overdue", "timer")

    def __init__(self, task: asyncio.Task[Any], seconds: float) -> None:
        self._task = task
        self._seconds = seconds
        self.is_overdue = False
        self.timer = asyncio.get_running_loop().call_later(seconds, self._give_up)

    def _give_up(self) -> None:
        self.is_overdue = True
        self._task.cancel()

    def abandon(self, steps: Generator[Any, Any, object], name: str) -> None:
        """Leave the work, which does not end."""
        self._task.uncancel()  # the request of `_give_up`; the first one is still counted
        _log.warning(
            "function %r did not end within %g seconds of its cancellation, and is abandoned",
            name,
            self._seconds,
        )
        _close(steps, name)


_abandoned: list[Generator[Any, Any, Any]] = []


def _throw(steps: Generator[Any, Any, Any], error: BaseException) -> object:
    """Raise an error in the work; an awaitable without `throw` raises it itself."""
    throw = getattr(steps, "throw", None)
    if throw is None:
        raise error
    return throw(error)


def _close(steps: Generator[Any, Any, Any], name: str) -> None:
    """Close the work without waiting for it."""
    close = getattr(steps, "close", None)
    if close is None:
        return
    try:
        close()
    except RuntimeError:
        # It awaits something instead of ending. Python would try to close it again when it is
        # collected, and print an error.
        _abandoned.append(steps)
    except Exception as error:  # noqa: BLE001  # REASON: the tool is the user's code
        _log.warning("function %r raised %s when it was closed", name, type(error).__name__)
