"""Stops a turn without closing it, so that a later recovery can continue it.

Nothing is appended to the journal, which is then in the same state as after a crash. This module
must not decide which failures leave a turn open: `core.turn_failures` does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Literal

from holdfast.core.effects import CallModel
from holdfast.core.error_info import ErrorInfo
from holdfast.core.errors import HoldfastError, exception_for
from holdfast.core.events import FailedTarget
from holdfast.core.machine import SessionMachine
from holdfast.core.notices import RetryScheduled
from holdfast.core.turn_failures import closes_turn


class TurnLeftOpen(BaseException):
    """The turn stops here and stays open in the journal.

    It derives from BaseException, as CancelledError does, so that a tool or a hook that catches
    every Exception does not catch it.

    Args:
        error: the reason.
    """

    def __init__(self, error: HoldfastError) -> None:
        super().__init__(str(error))
        self.error = error


class Shutdown:
    """Whether a stream must leave its turn open, and the writing tools that it waits for first.

    A turn and the turns of its subagents share it. It belongs to their event loop.
    """

    __slots__ = ("_quiet", "_writes", "cancelled_by", "is_asked")

    def __init__(self) -> None:
        self.is_asked = False
        """Whether the turn must stop; no call begins any more, but of a writing tool saved as begun."""
        self.cancelled_by = ""
        """Who cancelled the stream, as the journal saves it."""
        self._writes: dict[str, set[str]] = {}
        self._quiet: asyncio.Future[None] | None = None

    async def begin_call(self, run_id: str, key: str, *, writes: bool = False) -> None:
        """Note that a model or a tool is about to be called; wait for the end once that is asked.

        Args:
            run_id: the run.
            key: the effect.
            writes: whether the call must not be cut, since it could not be repeated.
        """
        if self.is_asked and key not in self._writes.get(run_id, ()):
            await asyncio.get_running_loop().create_future()  # until the turn is cancelled
        if writes:
            self._writes.setdefault(run_id, set()).add(key)

    def expect_writes(self, run_id: str, keys: Iterable[str]) -> None:
        """Note writing tools that are about to be saved as begun, before they are called.

        If they were not called any more, nobody could know that they took no effect.

        Args:
            run_id: the run.
            keys: the effects.
        """
        if not self.is_asked:
            for key in keys:
                self._writes.setdefault(run_id, set()).add(key)

    def finish_call(self, run_id: str, key: str) -> None:
        """Note that the outcome of a call is saved, or that the call waits for an answer."""
        keys = self._writes.get(run_id)
        if keys is not None:
            keys.discard(key)
            if not keys:
                self.forget_run(run_id)

    def forget_run(self, run_id: str) -> None:
        """Note that a turn is no longer in progress."""
        self._writes.pop(run_id, None)
        if self._quiet is not None and not self._writes and not self._quiet.done():
            self._quiet.set_result(None)

    async def ask(self, grace: float) -> None:
        """Let no call begin any more, and wait for the writing tools under way.

        Args:
            grace: the longest time to wait, in seconds.
        """
        self.is_asked = True
        if self._writes:
            if self._quiet is None or self._quiet.done():
                self._quiet = asyncio.get_running_loop().create_future()
            await asyncio.wait([self._quiet], timeout=grace)


class Recovery:
    """One call of `recover()`, shared by all its runs: whether it is being stopped.

    It belongs to the task that creates it.

    Args:
        is_stream: whether it continues one run as a stream, whose cancellation closes the turn.
    """

    __slots__ = ("_cancelled_before", "_task", "is_stopped")

    def __init__(self, *, is_stream: bool = False) -> None:
        self._task = None if is_stream else asyncio.current_task()
        self._cancelled_before = self._task.cancelling() if self._task is not None else 0
        self.is_stopped = False
        """Set when the time is over or the recovery was cancelled."""

    @property
    def is_cancelled(self) -> bool:
        """Whether cancellation was requested, even before the task receives it."""
        task = self._task
        return task is not None and task.cancelling() > self._cancelled_before

    @property
    def is_stopping(self) -> bool:
        """Whether a cancellation comes from outside of the run, and not from the run itself.

        A signal handler that cancels all tasks of the program may reach the runs before the
        recovery can set `is_stopped`.
        """
        return self.is_stopped or self.is_cancelled


class TurnRecovery:
    """The recovery of one run.

    Args:
        recovery: the call of `recover()` that drives the run.
    """

    __slots__ = ("_last_retry", "left_open", "recovery")

    def __init__(self, recovery: Recovery) -> None:
        self.recovery = recovery
        self.left_open: TurnLeftOpen | None = None
        """Why an effect of the turn was left open, while the effects next to it finish."""
        self._last_retry: RetryScheduled | None = None

    def note_retry(self, retry: RetryScheduled) -> None:
        """Store the last retry of the run, which is the reason why a call is still in progress."""
        self._last_retry = retry

    def check_failure(
        self, error: BaseException | None, info: ErrorInfo, tried: Sequence[FailedTarget] = ()
    ) -> None:
        """Raise TurnLeftOpen unless this failure ends the turn.

        Args:
            error: the exception, if there is one.
            info: the error info.
            tried: the models that failed before; one of them may be able to answer later.
        """
        if closes_turn(info) and all(closes_turn(before.error) for before in tried):
            return
        if not isinstance(error, HoldfastError) or error.info.category is not info.category:
            made = exception_for(info)
            made.__cause__ = error
            error = made
        raise TurnLeftOpen(error)

    def check_stop(self, machine: SessionMachine, reason: Literal["cancelled", "deadline"]) -> None:
        """Raise TurnLeftOpen when the turn spent its time on failed attempts.

        A subagent is cancelled by the deadline of its caller, so either of the two may get here
        first.

        Args:
            machine: the machine of the run that was stopped.
            reason: why it was stopped.
        """
        if reason == "deadline" and self.left_open is not None:
            raise self.left_open
        last = self._last_retry
        if last is not None and type(machine.find_pending(last.key)) is CallModel:
            self.check_failure(None, last.error)
