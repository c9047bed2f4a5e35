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
from collections.abc import Awaitable, Generator
from typing import Any, Generic, TypeVar

_log = logging.getLogger("holdfast.tools")

LONGEST_CLEANUP = 5.0
"""Seconds that a tool may take to end after its cancellation."""

T = TypeVar("T")


class EndsWhenCancelled(Generic[T]):
    """An awaitable that ends soon after its task was cancelled.

    Args:
        work: the awaitable of the tool.
        name: the name of the tool, for the log.
    """

    __slots__ = ("_before", "_is_overdue", "_name", "_task", "_timer", "_work")

    def __init__(self, work: Awaitable[T], name: str) -> None:
        self._work = work
        self._name = name
        self._before = 0
        self._task: asyncio.Task[Any] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._is_overdue = False

    def __await__(self) -> Generator[Any, None, T]:
        """Await the work. Raises CancelledError if its task is cancelled meanwhile."""
        self._task = task = asyncio.current_task()
        self._before = task.cancelling() if task is not None else 0
        steps = self._work.__await__()
        thrown: BaseException | None = None
        try:
            while True:
                try:
                    waits_for = self._resume(steps, thrown)
                except StopIteration as end:
                    return end.value  # type: ignore[no-any-return]  # REASON: Any in typeshed
                thrown = None
                try:
                    yield waits_for
                except GeneratorExit:
                    _close(steps, self._name)
                    raise
                except BaseException as error:  # REASON: the tool gets it
                    if self._is_overdue:
                        self._abandon(steps)
                        raise
                    thrown = error
        finally:
            if self._timer is not None:
                self._timer.cancel()

    def _resume(self, steps: Generator[Any, Any, T], thrown: BaseException | None) -> object:
        """Resume the work until it waits again, and return what it waits for.

        Raises:
            StopIteration: the work has returned.
            CancelledError: the work has ended after its cancellation, in whatever way.
        """
        try:
            waits_for = next(steps) if thrown is None else _throw(steps, thrown)
        except Exception as end:
            if self._is_cancelled():
                raise asyncio.CancelledError from end
            raise
        if self._timer is None and self._is_cancelled():
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(LONGEST_CLEANUP, self._give_up)
        return waits_for

    def _is_cancelled(self) -> bool:
        """Whether the task was cancelled from outside; a timeout within the tool does not count."""
        return self._task is not None and self._task.cancelling() > self._before

    def _give_up(self) -> None:
        self._is_overdue = True
        if self._task is not None:
            self._task.cancel()

    def _abandon(self, steps: Generator[Any, Any, T]) -> None:
        if self._task is not None:
            self._task.uncancel()  # the request of `_give_up`; the first one is still counted
        _log.warning(
            "function %r did not end within %g seconds of its cancellation, and is abandoned",
            self._name,
            LONGEST_CLEANUP,
        )
        _close(steps, self._name)


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
