"""Continues the turns of a tenant that no process drives: their process was killed or stopped.

A turn that waits for an answer is continued when the time for the answer is over, and otherwise stays
as it is; one timer serves all sessions that wait. So does a turn of an agent that this process does not
have. A turn that cannot be finished now, since a provider is down, is tried again later. This module
must never try a turn again that has ended.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
import math
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from time import monotonic
from typing import TypeAlias

from msgspec import Struct

from holdfast.core.effects import is_nested_run
from holdfast.core.errors import HoldfastError
from holdfast.core.events import QuestionAsked
from holdfast.core.question_log import asked_key
from holdfast.hosting.bound_agents import AnyAgent
from holdfast.hosting.turns.turn_runner import TurnRunner
from holdfast.journal.inbox.entries import InboxEntry
from holdfast.journal.port import RunEntry
from holdfast.resilience.clock import Clock
from holdfast.runtime.open_runs.recovery import ONLY_ANSWERED, read_time_to_continue
from holdfast.sessions.session_index import SessionIndex

MOST_AT_ONCE = 200
"""The number of turns that are continued at once."""

FIRST_PAUSE, LONGEST_PAUSE = 5.0, 300.0
"""Seconds after which a turn that could not be finished is tried again; each pause is twice the last."""

_PAUSE = (
    1.0  # seconds until a session is looked at again that another driver has or nobody can read
)

_log = logging.getLogger("holdfast.hosting")

FindEntry: TypeAlias = Callable[[str], Awaitable[InboxEntry | None]]
"""Returns the entry of the inbox that the open turn of a session belongs to, or that keeps it busy."""

LONGEST_SLEEP = 60.0
"""Seconds after which the time of day is read again, since it may jump."""


async def _find_nothing(_session: str) -> InboxEntry | None:
    return None


class _Seen(Struct):
    """A run that was left open, when it was looked at.

    Args:
        records: the number of its records when it was looked at.
        pause: seconds until it is tried again.
        due_at: the time from which it is tried again; None while it waits for an answer.
    """

    records: int
    pause: float = 0.0
    due_at: float | None = None


class OpenTurns:
    """The turns of one tenant that were left open.

    Args:
        journal: the journal of the tenant.
        runner: drives the turns.
        agents: the agents by name.
        clock: the clock of the agents, which sets until when a question may be answered.
    """

    def __init__(
        self,
        journal: SessionIndex,
        runner: TurnRunner,
        agents: Mapping[str, AnyAgent],
        clock: Clock,
    ) -> None:
        self._journal = journal
        self._runner = runner
        self._agents = agents
        self._seen: dict[str, _Seen] = {}
        self._places = asyncio.Semaphore(MOST_AT_ONCE)
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._deadlines = QuestionDeadlines(clock, self._look_at)
        self.find_entry: FindEntry = _find_nothing
        """Returns the entry of the inbox that the open turn of a session belongs to."""
        runner.note_waiting = self._note_waiting
        runner.note_unfinished = self._note_unfinished

    def leave_to_others(self, find_entry: FindEntry) -> None:
        """Continue only the turns that the inbox does not know, and those only when they are looked for.

        Args:
            find_entry: returns the entry of a session in the inbox.
        """
        self.find_entry = find_entry
        self._runner.note_waiting = self._runner.note_unfinished = None

    def is_queued(self, session: str) -> bool:
        """Whether the turn of a session is looked at here, or about to be continued."""
        return session in self._tasks

    @property
    def has_unfinished(self) -> bool:
        """Whether a turn is to be tried again later."""
        return any(seen.due_at is not None for seen in self._seen.values())

    async def look(self) -> None:
        """Begin to continue the turns that were left open, and return.

        Raises:
            JournalError: the journal cannot be read.
        """
        entries = await self._journal.runs(turn_open=True)
        runs = {entry.run for entry in entries}
        for run in [run for run in self._seen if run not in runs]:
            del self._seen[run]
        for entry in entries:
            if self._may_continue(entry) and not await self._is_left(entry):
                self.begin(entry)

    async def _is_left(self, entry: RunEntry) -> bool:
        """Whether a run is not to be continued here now."""
        return await self.find_entry(entry.run) is not None or await self._waits(entry)

    def _may_continue(self, entry: RunEntry) -> bool:
        if entry.leased or entry.run in self._tasks or self._runner.is_driven(entry.run):
            return False
        return entry.agent in self._agents and not is_nested_run(entry.run)

    async def waits(self, session: str) -> bool:
        """Whether the open turn of a session just waits for answers that may still come.

        Raises:
            JournalError: the journal cannot be read.
        """
        at = await read_time_to_continue(self._journal, session)
        if self._deadlines.is_over(at):
            return False
        self._deadlines.set_time(session, at)
        return True

    async def _waits(self, entry: RunEntry) -> bool:
        """Whether a run is to be left alone for now, because it waits or was just tried."""
        seen = self._seen.get(entry.run)
        if seen is not None and seen.records == entry.records:
            return seen.due_at is None or monotonic() < seen.due_at
        self._seen[entry.run] = _Seen(entry.records)
        return await self.waits(entry.run)

    def _note_unfinished(self, session: str) -> None:
        """Note that a turn stopped here without its end in the journal, which could not be written."""
        seen = self._seen.setdefault(session, _Seen(0))
        seen.due_at = monotonic() + max(FIRST_PAUSE, seen.pause)

    def _note_waiting(self, session: str, questions: Sequence[str]) -> None:
        """Note that a turn rests here, with the keys of the questions that it waits for, if known."""
        if not questions:  # it may have its answers, and could not be read
            self._deadlines.set_pause(session, _PAUSE)
            return
        self._begin_task(session, self._read_deadline(session, questions))

    async def _read_deadline(self, session: str, questions: Sequence[str]) -> None:
        """Read until when the first of some questions may be answered."""
        keys = [asked_key(key) for key in questions]
        try:
            records = await self._journal.read_by_keys(session, keys)
        except HoldfastError:
            self._deadlines.set_pause(session, _PAUSE)
            return
        asked = [record.event for record in records if isinstance(record.event, QuestionAsked)]
        ends = [event.until for event in asked if event.until is not None]
        self._deadlines.set_time(session, min(ends, default=ONLY_ANSWERED))

    def _look_at(self, session: str) -> None:
        """Look at a turn that waited: the time for an answer is over."""
        if session in self._tasks:
            self._deadlines.set_pause(session, _PAUSE)
        elif not self._runner.is_driven(session):  # otherwise it is noted when it rests again
            self._begin_task(session, self._continue_overdue(session))

    async def _continue_overdue(self, session: str) -> None:
        """Continue a turn whose question nobody has answered in time, here or in another process."""
        try:
            found = await self._journal.find_runs(session, session)
            waits = bool(found) and found[0].turn_open and await self.waits(session)
        except HoldfastError as error:
            _log.warning("the waiting turn of %s cannot be read: %s", session, error)
            self._deadlines.set_pause(session, _PAUSE)
            return
        for entry in found:
            if entry.leased:
                self._deadlines.set_pause(session, _PAUSE)
            elif entry.turn_open and not waits and entry.agent in self._agents:
                self._seen[session] = _Seen(entry.records, FIRST_PAUSE)
                await self._continue(entry)

    def begin(self, entry: RunEntry) -> None:
        """Continue a run as soon as there is room."""
        seen = self._seen.setdefault(entry.run, _Seen(entry.records))
        seen.pause = min(max(FIRST_PAUSE, 2 * seen.pause), LONGEST_PAUSE)
        self._begin_task(entry.run, self._continue(entry))

    def _begin_task(self, session: str, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work, name=f"holdfast-open-{session}")
        self._tasks[session] = task
        task.add_done_callback(lambda _: self._forget_task(session, task))

    def _forget_task(self, session: str, task: asyncio.Task[None]) -> None:
        if self._tasks.get(session) is task:
            del self._tasks[session]

    async def _continue(self, entry: RunEntry) -> None:
        async with self._places:
            if self._runner.is_closing:
                return
            try:
                self._runner.recover(entry.run, self._agents[entry.agent])
            except HoldfastError as error:
                _log.warning("the open turn of %s is not continued: %s", entry.run, error)
            await self._runner.wait(entry.run)
        seen = self._seen.get(entry.run)
        if seen is not None:
            seen.due_at = monotonic() + seen.pause

    def close(self) -> None:
        """Continue nothing more."""
        self._deadlines.close()
        for task in self._tasks.values():
            task.cancel()


class QuestionDeadlines:
    """The sessions that are to be looked at later, and the timer for the first of them.

    Args:
        clock: the clock of the deadlines.
        look_at: is called with a session when its time has come; it must not raise.
    """

    def __init__(self, clock: Clock, look_at: Callable[[str], None]) -> None:
        self._clock = clock
        self._look_at = look_at
        self._times: dict[str, float] = {}
        self._queue: list[tuple[float, str]] = []
        """The times with those that were replaced; only a time that `_times` has counts."""
        self._timer: asyncio.Task[None] | None = None
        self._is_closed = False

    def set_time(self, session: str, at: float) -> None:
        """Look at a session at a time, in seconds since the epoch, and at no other time.

        An infinite time means that it is not looked at.
        """
        self._times.pop(session, None)
        if at == math.inf or self._is_closed:
            return
        self._times[session] = at
        heapq.heappush(self._queue, (at, session))
        if self._queue[0] == (at, session):
            self._start_timer()

    def set_pause(self, session: str, seconds: float) -> None:
        """Look at a session after some seconds."""
        self.set_time(session, self._clock.now() + seconds)

    def is_over(self, at: float) -> bool:
        """Whether a time has come."""
        return at <= self._clock.now()

    def close(self) -> None:
        """Look at nothing more."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()

    def _start_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()  # it sleeps, since the rest of it does not await
        self._timer = asyncio.create_task(self._wait(), name="holdfast-deadlines")

    async def _wait(self) -> None:
        while self._queue:
            at, session = self._queue[0]
            left = at - self._clock.now()
            if self._times.get(session) != at:
                heapq.heappop(self._queue)
            elif left > 0:
                await self._clock.sleep(min(left, LONGEST_SLEEP))
            else:
                heapq.heappop(self._queue)
                del self._times[session]
                self._look_at(session)
