"""The commit log of one turn: each event is checked, saved in the journal, and then applied.

An event must never be applied or emitted before it is saved. After an event that could not be
saved, no other event may be saved.

The times of events are wall time, for people and for a turn that no process drove. The limits of a
live turn count monotonic time. A wall clock steps when it is corrected, or when a computer sleeps, and
such steps are saved.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, MutableMapping, Sequence
from functools import partial
from typing import TypeVar

import msgspec

from holdfast.core.acts import Act
from holdfast.core.effects import Effect
from holdfast.core.events import Event, ModelReplied, OutputChecked, ToolFinished, TurnClosed
from holdfast.core.session_state import Phase
from holdfast.journal.port import Record
from holdfast.journal.readable_events import make_readable
from holdfast.resilience.clock import Clock
from holdfast.runtime.sessions.session_pool import OpenSession
from holdfast.runtime.turn_state.channel import wake_all

T = TypeVar("T")
_LEAST = 1.0  # seconds; smaller differences add up until they reach it


class TurnLog:
    """Saves the events of one turn and applies them to its machine.

    Args:
        run_id: the run id.
        opened: the session; each event is applied to its machine and folds after it is saved.
        emit: publishes a saved event; None when there is no observer or reader.
        meters: the usage meters of the tools in progress. The meter of a call is removed when its
            outcome is applied, because the machine counts its usage from then on.
        clock: the clock of the turn.
    """

    __slots__ = (
        "_emit",
        "_journal",
        "_meters",
        "_only_results",
        "_pending_events",
        "_run_id",
        "_steps",
        "_waiters",
        "_waiting_results",
        "drive",
        "error",
        "folds",
        "idle_seconds",
        "machine",
    )

    def __init__(
        self,
        run_id: str,
        opened: OpenSession,
        emit: Callable[[Event], None] | None,
        meters: MutableMapping[str, object],
        clock: Clock,
    ) -> None:
        self.machine = opened.machine
        self.folds = opened.folds
        self.error: BaseException | None = None
        """Why an event could not be saved; nothing may be saved after it."""
        self.idle_seconds = 0.0
        """Seconds of the wall clock that are no time of the turn: no process drove it, or the clock
        stepped. The next event records them."""
        self.drive = ""
        """The `traceparent` of a drive that has continued the turn. The next event records it."""
        self._steps = ClockSteps(clock)
        self._run_id = run_id
        self._journal = opened.log
        self._emit = emit
        self._meters = meters
        self._pending_events: list[Event] = []  # being saved, not applied yet
        self._only_results = False  # whether these are results of tools
        self._waiting_results: list[asyncio.Future[None]] = []
        self._waiters: deque[asyncio.Future[None]] = deque()

    async def commit(
        self,
        event: Event,
        effect: Effect | None = None,
        *,
        marker: Event | None = None,
        act: Act | None = None,
    ) -> None:
        """Check an event against the machine, save it and apply it; one event after another.

        Answers to questions come from other tasks, and an event must fit the events before it in
        the journal. Only results of tools fit in any order, so they may be saved at the same time.

        Args:
            event: the event.
            effect: the effect that was performed.
            marker: an event that is saved in the same transaction, directly after the first.
            act: the act that writes the event, saved in the same transaction.

        Raises:
            BaseException: this event, or one before it, could not be saved.
        """
        pending = self._pending_events
        try:
            if pending:
                await self._wait_for_place(is_result=type(event) is ToolFinished)
            event = self._prepare_event(event)
            marker = marker if marker is None else make_readable(marker)
        except BaseException:
            self._wake_next()  # in the place of this event
            raise
        applied = self.machine.event_count
        # A hook can end the turn instead of the effect; its event is not the outcome of the effect.
        ended = effect if effect is not None and effect.key == event.key else None
        self._only_results = type(event) is ToolFinished
        pending.append(event)
        if marker is not None:
            pending.append(marker)
        try:
            save = self._journal.append if act is None else partial(self._journal.append, act=act)
            await save(self._run_id, event, ended, marker=marker)
        except asyncio.CancelledError:
            await self._apply_saved()
            raise
        except Exception as error:
            self.error = error
            raise
        else:
            self._apply(event, is_checked=self.machine.event_count == applied)
            if marker is not None:
                self._apply(marker)
        finally:
            if pending:
                self._forget_pending(event, marker)
            if self._waiting_results or self._waiters:
                self._wake_next()

    def _forget_pending(self, *events: Event | None) -> None:
        """Forget those of the events that were not applied."""
        for one in events:
            if one in self._pending_events:
                self._pending_events.remove(one)

    def _prepare_event(self, event: Event) -> Event:
        """Check an event, and return it as it is saved."""
        # A tool or a hook may have caught the error and returned a result, which must not be saved.
        self.raise_if_failed()
        step = 0.0 if type(event) is TurnClosed else self._steps.take()
        # In a turn that waits for an answer no time counts, whatever the clock says.
        if step and self.machine.phase is not Phase.IDLE and not self.machine.questions.is_paused:
            self.idle_seconds += step
        if self.idle_seconds and isinstance(event, ModelReplied | ToolFinished | OutputChecked):
            event = msgspec.structs.replace(event, downtime=self.idle_seconds)
            self.idle_seconds = 0.0
        if self.drive and isinstance(event, ModelReplied | ToolFinished | OutputChecked):
            event = msgspec.structs.replace(event, drive=self.drive)
            self.drive = ""
        event = make_readable(event)
        self.machine.check_event(event)
        return event

    async def _apply_saved(self) -> None:
        """Apply the pending events that were saved although their append was cancelled.

        They are applied in the order of the journal, or the next event would not fit. An outcome of
        another driver is skipped.
        """
        try:
            for record in await _finish_uncancelled(self._journal.read(self._run_id)):
                self._apply(record.event)
        except Exception as error:
            self.error = error
            raise

    def _apply(self, event: Event, *, is_checked: bool = False) -> None:
        try:
            self._pending_events.remove(event)
        except ValueError:
            return  # it was applied already, when a later commit was cancelled
        self.machine.apply(event, is_checked=is_checked)
        if self._meters:
            self._meters.pop(event.key, None)
        if self.folds.states:
            self.folds.apply(event)
        if self._emit is not None:
            self._emit(event)

    def raise_if_failed(self) -> None:
        """Raise the error with which an event of the turn could not be saved, if there is one."""
        if self.error is not None:
            raise self.error

    async def wait_applied(self) -> None:
        """Wait until every event that is being saved is applied."""
        try:
            await self._wait_for_place(is_result=False)
        finally:
            self._wake_next()

    async def _wait_for_place(self, *, is_result: bool) -> None:
        """Wait until an event can be saved: one after another, but results of tools together."""
        while self._pending_events and not (is_result and self._only_results):
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            (self._waiting_results if is_result else self._waiters).append(waiter)
            await waiter

    def _wake_next(self) -> None:
        """Wake the next event that waits, or all results of tools, if no event is being saved.

        Waking all of many events for one of them to go on would take quadratic time.
        """
        if self._pending_events:
            return
        if self._waiting_results:
            wake_all(self._waiting_results)
            return
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return

    async def read(self) -> Sequence[Record]:
        """Return the records of the run, in order."""
        return await self._journal.read(self._run_id)


async def _finish_uncancelled(work: Coroutine[object, object, T]) -> T:
    """Await a short operation to its end, even if the caller is cancelled again meanwhile."""
    task = asyncio.ensure_future(work)
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError:
            continue  # the caller raises the first cancellation afterwards
    return task.result()


class ClockSteps:
    """The steps of the wall clock since this object was made.

    Args:
        clock: the clock of the turn.
    """

    __slots__ = ("_clock", "_offset")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._offset = clock.now() - clock.monotonic()

    def take(self) -> float:
        """Return the seconds by which the clock stepped since the last call; back is negative."""
        before = self._clock.monotonic()
        offset = self._clock.now() - before
        step = offset - self._offset
        if abs(step) < _LEAST:
            return 0.0
        paused = self._clock.monotonic() - before  # the process, between the two readings
        if paused > _LEAST / 2:
            return 0.0
        self._offset = offset
        return step
