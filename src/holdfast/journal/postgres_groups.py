"""Groups of operations of a PostgreSQL journal: one statement for all that wait at the same time.

While the server works on one group, the next one gathers. So the number of transactions does not
grow with the number of runs that a process drives at the same time, and the two threads wake each
other once for a group.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Hashable, Sequence
from typing import Generic, NamedTuple, TypeVar

from holdfast.journal.handoff import Handoff, finish_all
from holdfast.journal.journal_errors import JournalClosedError
from holdfast.journal.loop_thread import LoopThread, WithdrawnError

J = TypeVar("J")
T = TypeVar("T")

MOST_IN_GROUP = 256


class _WaitingJob(NamedTuple, Generic[J, T]):
    job: J
    key: Hashable
    handoff: Handoff[T]


class GroupLane(Generic[J, T]):
    """Performs jobs of one kind in groups, one group at a time.

    Args:
        thread: performs them.
        perform: performs a group, and returns the outcome of each job. What it raises is raised to
            every caller of the group.
        is_for_all: whether a job is also performed when its caller was cancelled before.
        may_be_withdrawn: whether a caller who is cancelled does not wait for the group: a job that
            changes nothing.
    """

    def __init__(
        self,
        thread: LoopThread,
        perform: Callable[[Sequence[J]], Awaitable[Sequence[T]]],
        *,
        is_for_all: bool = False,
        may_be_withdrawn: bool = False,
    ) -> None:
        self._thread = thread
        self._perform = perform
        self._is_for_all = is_for_all
        self._may_be_withdrawn = may_be_withdrawn
        self._lock = threading.Lock()
        self._waiting: list[_WaitingJob[J, T]] = []
        self._is_running = False
        self._waking: asyncio.AbstractEventLoop | None = None
        self._group: Sequence[_WaitingJob[J, T]] = ()

    def submit(self, job: J, key: Hashable) -> Handoff[T]:
        """Start a job, together with others.

        Args:
            job: the job.
            key: two jobs with the same key are never in one group.

        Raises:
            JournalClosedError: the thread was closed.
        """
        self._thread.check_open()
        handoff: Handoff[T] = Handoff()
        with self._lock:
            self._waiting.append(_WaitingJob(job, key, handoff))
            if self._is_running or self._waking is handoff.loop:
                return handoff
            self._waking = handoff.loop
        # Not at once: what the other tasks of this loop submit now belongs to the same group.
        handoff.loop.call_soon(self._wake)
        return handoff

    def _wake(self) -> None:
        with self._lock:
            self._waking = None
            if self._is_running or not self._waiting:
                return
            self._is_running = True
        try:
            begin = self._claim_reads if self._may_be_withdrawn else None
            self._thread.start(self._perform_groups, begin)
        except JournalClosedError as error:
            with self._lock:
                self._is_running = False
                waiting, self._waiting = self._waiting, []
            _fail_jobs([one for one in waiting if one.handoff.claim()], error)

    async def _perform_groups(self) -> None:
        while self._take_group():
            if not self._may_be_withdrawn:
                self._group = [
                    one for one in self._group if one.handoff.claim() or self._is_for_all
                ]
            if self._group:
                await self._perform_group(self._group)
            self._group = ()  # a job may hold the last reference to a lease

    def _claim_reads(self) -> None:
        """Claim the jobs when the journal is closed. Raises WithdrawnError if nobody waits for one."""
        with self._lock:
            jobs = [*self._group, *self._waiting]
        claimed = [one.handoff.claim() for one in jobs]
        if not any(claimed):
            raise WithdrawnError

    def _take_group(self) -> bool:
        """Take the next jobs; returns whether there are any, so that the lane goes on."""
        with self._lock:
            if not self._waiting:
                self._is_running = False
                return False
            group: dict[Hashable, _WaitingJob[J, T]] = {}
            later: list[_WaitingJob[J, T]] = []
            for one in self._waiting:
                if len(group) == MOST_IN_GROUP or one.key in group:
                    later.append(one)
                else:
                    group[one.key] = one
            self._waiting = later
            self._group = list(group.values())
        return True

    async def _perform_group(self, group: Sequence[_WaitingJob[J, T]]) -> None:
        try:
            outcomes = await self._perform([one.job for one in group])
        except BaseException as error:
            _fail_jobs(group, error)
            if not isinstance(error, Exception):
                with self._lock:
                    self._is_running = False
                raise
            return
        for one, outcome in zip(group, outcomes, strict=True):
            one.handoff.value = outcome
        finish_all([one.handoff for one in group])


def _fail_jobs(jobs: Sequence[_WaitingJob[J, T]], error: BaseException) -> None:
    for one in jobs:
        one.handoff.error = error
    finish_all([one.handoff for one in jobs])
