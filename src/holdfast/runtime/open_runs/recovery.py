"""Recovery: resumes every interrupted run of an agent, a limited number at a time.

Each run has its own outcome, and a run that fails does not stop the others. A turn is closed only
because of something that happened in it. If the recovery itself is stopped, the turn stays open.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Generic

from typing_extensions import TypeVar

from holdfast.core.argument_checks import check_value
from holdfast.core.constraints import PositiveFloat, PositiveInt
from holdfast.core.errors import (
    ConflictError,
    ErrorCategory,
    ErrorInfo,
    HoldfastError,
    SessionBusyError,
    exception_for,
)
from holdfast.core.events import Status
from holdfast.core.machine import SessionMachine
from holdfast.core.question_log import ASKED
from holdfast.core.session_state import Phase
from holdfast.journal.journal_errors import JournalUnreachableError, LeaseLostError
from holdfast.journal.port import Journal, RunEntry
from holdfast.runtime.active_turn import ActiveTurn, TurnContext
from holdfast.runtime.open_runs.suspension import all_suspended
from holdfast.runtime.questions.broker import QuestionBroker
from holdfast.runtime.result import Result
from holdfast.runtime.turn_state.channel import Channel
from holdfast.runtime.turn_state.leaving_open import Recovery, TurnLeftOpen
from holdfast.sessions.session_index import SessionIndex

T = TypeVar("T", default=str)

DEFAULT_PARALLEL = 8
DEFAULT_SECONDS = 300.0
LONGEST_WAIT = 5.0
"""Seconds that a stream waits for somebody who answers a question of the run."""
_LONGEST_RELEASE = 5.0  # seconds that a stopped run may take to release its session
_CANCELLED = ErrorInfo(
    category=ErrorCategory.CANCELLED, safe="The turn was cancelled.", code="cancelled"
)
"""The error of a run that was cancelled from within, and not by the recovery."""
_log = logging.getLogger("holdfast")
_unreleased_tasks: set[asyncio.Task[None]] = set()


class RecoveryStatus(StrEnum):
    """The outcome of one interrupted run.

    RECOVERED: the turn ended; `result` holds its result.
    WAITING: the turn continued until it needs an answer; `result` holds the questions.
    FAILED: the turn is closed; `error` holds the reason.
    LEFT_OPEN: the turn is still open and a later recovery tries again; `error` holds the reason.
    NOT_BEGUN: the time was over before the run was resumed.
    BUSY: another driver is running it.
    """

    RECOVERED = "recovered"
    WAITING = "waiting"
    FAILED = "failed"
    LEFT_OPEN = "left_open"
    NOT_BEGUN = "not_begun"
    BUSY = "busy"


@dataclass(frozen=True)
class RecoveredRun(Generic[T]):
    """The outcome of one interrupted run: its `status`, and its `result` or `error`."""

    run_id: str
    result: Result[T] | None = None
    error: Exception | None = None
    status: RecoveryStatus = field(kw_only=True)

    @property
    def reason(self) -> ErrorInfo | None:
        """The public part of the error info; None when there is a result."""
        if self.error is None:
            return None
        if isinstance(self.error, HoldfastError):
            return self.error.info.to_public()
        name = type(self.error).__name__
        safe = f"An unexpected {name} stopped the recovery of this run; the log has the details."
        return ErrorInfo(category=ErrorCategory.PROGRAMMING, safe=safe, code=name)


class RecoveryTime:
    """The time limit of one recovery.

    Args:
        seconds: the limit, counted from now; None sets no limit.

    Raises:
        ConfigurationError: `seconds` is not a valid number of seconds.
    """

    __slots__ = ("_end", "seconds")

    def __init__(self, seconds: float | None) -> None:
        check_value("seconds", seconds, PositiveFloat | None)
        self.seconds = seconds
        self._end = None if seconds is None else asyncio.get_running_loop().time() + seconds

    def seconds_left(self) -> float | None:
        """Return the seconds until the limit, at least 0, or None without a limit."""
        if self._end is None:
            return None
        return max(0.0, self._end - asyncio.get_running_loop().time())

    async def open_runs(self, journal: Journal) -> Sequence[RunEntry]:
        """List the runs whose last turn is still open.

        Raises:
            JournalError: the journal could not list the runs, or not in time.
        """
        limit = asyncio.timeout(self.seconds_left())
        try:
            async with limit:
                return await journal.runs(turn_open=True)
        except TimeoutError:
            if not limit.expired():
                raise
        path = str(getattr(journal, "path", type(journal).__name__))
        raise JournalUnreachableError(path, f"did not list its runs within {self.seconds:g} s")

    def make_error(self, *, begun: bool, cancelled: bool) -> HoldfastError:
        """Build the error of a run that the recovery did not finish."""
        when = "while this run was under way" if begun else "before this run was begun"
        if cancelled or self.seconds is None:
            said, code = "The recovery was cancelled", "recovery_cancelled"
            category = ErrorCategory.CANCELLED
        else:
            said, code = f"The {self.seconds:g} s of the recovery were over", "recovery_time"
            category = ErrorCategory.TIMEOUT
        said = f"{said} {when}. Its turn is still open."
        return HoldfastError(said, info=ErrorInfo(category=category, safe=said, code=code))


class RecoveryProgress(Generic[T]):
    """The progress of the recovery of one run.

    Args:
        run_id: the id of the run.
        recovery: the recovery that all runs share.
    """

    __slots__ = ("outcome", "recovery", "result", "run", "run_id")

    def __init__(self, run_id: str, recovery: Recovery) -> None:
        self.recovery = recovery
        self.run_id = run_id
        self.run: ActiveTurn | None = None
        """The turn, once it continues."""
        self.result: Result[T] | None = None
        """The result, once there is one."""
        self.outcome: RecoveredRun[T] | None = None

    def take_result(self) -> None:
        """Take the result of a turn that completed but was cancelled before it returned."""
        machine = self.run.machine if self.run is not None else None
        if self.run is None or machine is None or self.result is not None:
            return
        if machine.phase is Phase.IDLE and machine.status is Status.COMPLETED:
            self.result = self.run.build_result()  # type: ignore[assignment]  # the plan's output type is T


INTERRUPTED = float("-inf")
"""The time from which an interrupted turn continues."""

ONLY_ANSWERED = float("inf")
"""The time from which a turn continues that waits for answers without a deadline."""


def find_time_to_continue(machine: SessionMachine) -> float:
    """Return the time from which the turn can continue without an answer, in seconds since the epoch.

    A turn that was interrupted can always continue. One that just waits for answers can continue
    when the first of its questions is too late to answer.
    """
    if machine.phase is Phase.IDLE:
        return ONLY_ANSWERED  # another driver has already finished the turn
    if machine.questions.due_askers or not all_suspended(machine):
        return INTERRUPTED
    ends = [asked.until for asked in machine.questions.open_questions if asked.until is not None]
    return min(ends, default=ONLY_ANSWERED)


async def read_time_to_continue(journal: Journal, run_id: str) -> float:
    """Return the time from which the open turn of a run can continue; see `find_time_to_continue`.

    This takes no lease. A session that waits is not recovered, and must stay free for the answer.

    Args:
        journal: the journal of the run.
        run_id: the id of the run.
    """
    if isinstance(journal, SessionIndex) and not _has_asked(await journal.keys(run_id)):
        return INTERRUPTED  # its records are read once, when it is resumed
    events = [record.event for record in await journal.read(run_id)]
    if not _has_asked([event.key for event in events]):
        return INTERRUPTED
    machine = SessionMachine()
    for event in events:
        machine.apply(event)
    return find_time_to_continue(machine)


def _has_asked(keys: Sequence[str]) -> bool:
    return any(key.endswith(ASKED) for key in keys)


async def recover_one(
    resume: Callable[..., Awaitable[None]],
    run_id: str,
    channel: Channel,
    questions: QuestionBroker,
) -> Any:
    """Resume one run for a stream; return its result, or None if it was not interrupted.

    Args:
        resume: resumes the run with a context, and records its progress.
        run_id: the id of the run.
        channel: receives the events and notices.
        questions: handles the questions.

    Raises:
        HoldfastError: the turn failed, or it was left open.
    """
    recovery = Recovery(is_stream=True)
    context = TurnContext(channel=channel, questions=questions, recovery=recovery)
    progress = RecoveryProgress[Any](run_id, recovery)
    try:
        await resume(context, progress, LONGEST_WAIT)
    except TurnLeftOpen as left:
        raise left.error from left
    return progress.result


async def recover_each(
    runs: Sequence[str],
    resume: Callable[[RecoveryProgress[T]], Awaitable[None]],
    parallel: int,
    timing: RecoveryTime,
) -> list[RecoveredRun[T]]:
    """Resume each run. The result omits runs that prove not to be interrupted.

    If this is cancelled, it waits until every run has released its session. All unfinished turns
    stay open.

    Args:
        runs: the ids of the runs.
        resume: resumes one run and records its progress.
        parallel: the maximum number of runs at once.
        timing: the time limit for all runs.

    Raises:
        ConfigurationError: `parallel` is not a whole number of at least 1.
    """
    check_value("parallel", parallel, PositiveInt)
    recovery, places = Recovery(), asyncio.Semaphore(parallel)
    all_progress = [RecoveryProgress[T](run_id, recovery) for run_id in runs]

    async def drive(progress: RecoveryProgress[T]) -> None:
        try:
            async with places:
                await resume(progress)
        except BaseException as error:
            progress.outcome = _outcome_of_error(progress, error, recovery, timing)
            if progress.outcome is None:
                raise
        else:
            progress.outcome = _outcome_of_result(progress)

    tasks = [asyncio.create_task(drive(progress)) for progress in all_progress]
    if not tasks:
        return []
    try:
        await asyncio.wait(tasks, timeout=timing.seconds_left())
    finally:
        await _stop(tasks, recovery)
    pairs = zip(all_progress, tasks, strict=True)
    outcomes = [_find_outcome(progress, task, timing) for progress, task in pairs]
    return [outcome for outcome in outcomes if outcome is not None]


async def _stop(tasks: Sequence[asyncio.Task[None]], recovery: Recovery) -> None:
    """Cancel the tasks and wait until they have released their runs, even if cancelled again."""
    recovery.is_stopped = True
    left = {task for task in tasks if not task.done()}
    for task in left:
        task.cancel()
    loop, cancelled = asyncio.get_running_loop(), None
    end = loop.time() + _LONGEST_RELEASE
    while left and loop.time() < end:
        try:
            _, left = await asyncio.wait(left, timeout=max(0.0, end - loop.time()))
        except asyncio.CancelledError as error:
            cancelled = error
            left = {task for task in left if not task.done()}
    for task in left:
        _unreleased_tasks.add(task)
        task.add_done_callback(_unreleased_tasks.discard)
    if cancelled is not None:
        raise cancelled


def _find_outcome(
    progress: RecoveryProgress[T], task: asyncio.Task[None], timing: RecoveryTime
) -> RecoveredRun[T] | None:
    """Return the outcome of one run; None when the run was not interrupted."""
    if not task.done():
        busy = SessionBusyError(progress.run_id, "something in it does not stop")
        return RecoveredRun(progress.run_id, error=busy, status=RecoveryStatus.BUSY)
    if task.cancelled():  # before its first step
        error = timing.make_error(begun=False, cancelled=False)
        return RecoveredRun(progress.run_id, error=error, status=RecoveryStatus.NOT_BEGUN)
    task.result()
    return progress.outcome


def _outcome_of_result(progress: RecoveryProgress[T]) -> RecoveredRun[T] | None:
    result = progress.result
    if result is None:
        return None
    waits = result.status is Status.WAITING
    status = RecoveryStatus.WAITING if waits else RecoveryStatus.RECOVERED
    return RecoveredRun(progress.run_id, result, status=status)


def _outcome_of_error(
    progress: RecoveryProgress[T], error: BaseException, recovery: Recovery, timing: RecoveryTime
) -> RecoveredRun[T] | None:
    """Return the outcome for this exception; None when it does not concern the run."""
    if not isinstance(error, Exception | asyncio.CancelledError | TurnLeftOpen):
        return None
    if isinstance(error, asyncio.CancelledError):
        progress.take_result()
    known = _outcome_of_result(progress)
    if known is not None:
        return known  # the turn had already finished
    shown = _choose_error(progress, error, recovery, timing)
    status = _choose_status(progress, shown, stopped=isinstance(error, asyncio.CancelledError))
    if status is RecoveryStatus.LEFT_OPEN:
        _log.warning("the turn of run %s is left open: %s", progress.run_id, shown)
    return RecoveredRun(progress.run_id, error=shown, status=status)


def _choose_error(
    progress: RecoveryProgress[T], error: BaseException, recovery: Recovery, timing: RecoveryTime
) -> Exception:
    """Return the exception to report to the user."""
    run = progress.run
    if isinstance(error, TurnLeftOpen):
        return error.error
    if isinstance(error, Exception):
        return error
    if run is not None and run.machine.phase is Phase.IDLE and run.machine.error is not None:
        shown = exception_for(run.machine.error)
    elif run is None or recovery.is_stopping:
        return timing.make_error(begun=run is not None, cancelled=recovery.is_cancelled)
    else:
        shown = exception_for(_CANCELLED)
    shown.__cause__ = error
    return shown


def _choose_status(
    progress: RecoveryProgress[T], error: Exception, *, stopped: bool
) -> RecoveryStatus:
    """Choose the status from the error and the state of the turn."""
    run = progress.run
    other = isinstance(error, SessionBusyError) and error.session == progress.run_id
    if other or isinstance(error, LeaseLostError | ConflictError):
        return RecoveryStatus.BUSY
    if run is None:
        return RecoveryStatus.NOT_BEGUN if stopped else RecoveryStatus.LEFT_OPEN
    closed = run.machine.phase is Phase.IDLE
    return RecoveryStatus.FAILED if closed else RecoveryStatus.LEFT_OPEN
