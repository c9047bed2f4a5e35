"""How a recovered turn stops without being closed, so that a later recovery can go on with it.

Nothing is appended to the journal for it: the journal then says what it would say if the process
had been killed. Which failures lead here is decided by `core.turn_failures` alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
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

    It derives from BaseException, as CancelledError does: a tool or a hook that catches every
    Exception must not take it for an outcome.

    Args:
        error: why.
    """

    def __init__(self, error: HoldfastError) -> None:
        super().__init__(str(error))
        self.error = error


class Recovery:
    """What all runs of one call of `recover()` share: whether it is being stopped.

    It belongs to the task that makes it.
    """

    __slots__ = ("_cancelled_before", "_task", "is_stopped")

    def __init__(self) -> None:
        self._task = asyncio.current_task()
        self._cancelled_before = self._task.cancelling() if self._task is not None else 0
        self.is_stopped = False
        """Set when the time is over, or when the recovery was cancelled."""

    @property
    def is_cancelled(self) -> bool:
        """Whether somebody asked for the end of the recovery; known before its task learns of it."""
        task = self._task
        return task is not None and task.cancelling() > self._cancelled_before

    @property
    def is_stopping(self) -> bool:
        """Whether a cancellation of a run comes from outside, and not from the run itself.

        A signal handler that cancels all tasks of the program may reach the runs before the
        recovery can set `is_stopped`.
        """
        return self.is_stopped or self.is_cancelled


class TurnRecovery:
    """What one run knows of the recovery that drives it.

    Args:
        recovery: that of all runs.
    """

    __slots__ = ("_last_retry", "left_open", "recovery")

    def __init__(self, recovery: Recovery) -> None:
        self.recovery = recovery
        self.left_open: TurnLeftOpen | None = None
        """Why an effect of the turn was left open, while the effects beside it come to their end."""
        self._last_retry: RetryScheduled | None = None

    def note_retry(self, retry: RetryScheduled) -> None:
        """Keep the last retry of the run: it tells why a call is still under way."""
        self._last_retry = retry

    def check_failure(
        self, error: BaseException | None, info: ErrorInfo, tried: Sequence[FailedTarget] = ()
    ) -> None:
        """Raise TurnLeftOpen unless this failure ends the turn.

        Args:
            error: the exception, if there is one.
            info: what is known about it.
            tried: the models that were asked before: one of them may be able to answer later.
        """
        if closes_turn(info) and all(closes_turn(before.error) for before in tried):
            return
        if not isinstance(error, HoldfastError) or error.info.category is not info.category:
            made = exception_for(info)
            made.__cause__ = error
            error = made
        raise TurnLeftOpen(error)

    def check_stop(self, machine: SessionMachine, reason: Literal["cancelled", "deadline"]) -> None:
        """Raise TurnLeftOpen when the time of the turn went into attempts that failed.

        An agent that is a tool is cancelled by the deadline of its caller, so that either of the
        two may be the first to come here.

        Args:
            machine: the run that was stopped.
            reason: by what.
        """
        if reason == "deadline" and self.left_open is not None:
            raise self.left_open
        last = self._last_retry
        if last is not None and type(machine.find_pending(last.key)) is CallModel:
            self.check_failure(None, last.error)
