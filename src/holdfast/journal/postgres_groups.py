"""Groups of operations of a PostgreSQL journal: one statement for all that wait at the same time.

While the server works on one group, the next one gathers. So the number of transactions does not
grow with the number of runs that a process drives at the same time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Sequence
from typing import Generic, NamedTuple, TypeVar

from holdfast.journal.loop_thread import Begin, WithdrawnError

J = TypeVar("J")
T = TypeVar("T")

MOST_IN_GROUP = 256


class _WaitingJob(NamedTuple, Generic[J, T]):
    job: J
    key: Hashable
    begin: Begin
    outcome: asyncio.Future[T]


class GroupLane(Generic[J, T]):
    """Performs jobs of one kind in groups, one group at a time; it belongs to one event loop.

    Args:
        perform: performs a group, and returns the outcome of each job. What it raises is raised to
            every caller of the group.
    """

    def __init__(self, perform: Callable[[Sequence[J]], Awaitable[Sequence[T]]]) -> None:
        self._perform = perform
        self._waiting: list[_WaitingJob[J, T]] = []
        self._task: asyncio.Task[None] | None = None

    async def perform(self, job: J, key: Hashable, begin: Begin) -> T:
        """Perform a job together with others.

        Args:
            job: the job.
            key: two jobs with the same key are never in one group.
            begin: called before the job begins.
        """
        loop = asyncio.get_running_loop()
        outcome: asyncio.Future[T] = loop.create_future()
        self._waiting.append(_WaitingJob(job, key, begin, outcome))
        if self._task is None:
            self._task = loop.create_task(self._perform_groups())
        return await outcome

    async def _perform_groups(self) -> None:
        try:
            while self._waiting:
                group = [one for one in self._take_group() if _begin_job(one)]
                if group:
                    await self._perform_group(group)
        finally:
            self._task = None

    def _take_group(self) -> list[_WaitingJob[J, T]]:
        group: dict[Hashable, _WaitingJob[J, T]] = {}
        later: list[_WaitingJob[J, T]] = []
        for one in self._waiting:
            if len(group) == MOST_IN_GROUP or one.key in group:
                later.append(one)
            else:
                group[one.key] = one
        self._waiting = later
        return list(group.values())

    async def _perform_group(self, group: Sequence[_WaitingJob[J, T]]) -> None:
        try:
            outcomes = await self._perform([one.job for one in group])
        except BaseException as error:
            for one in group:
                if not one.outcome.done():
                    one.outcome.set_exception(error)
            if not isinstance(error, Exception):
                raise
            return
        for one, outcome in zip(group, outcomes, strict=True):
            if not one.outcome.done():
                one.outcome.set_result(outcome)


def _begin_job(one: _WaitingJob[J, T]) -> bool:
    if one.outcome.done():
        return False  # its task was cancelled
    try:
        one.begin()
    except WithdrawnError as error:
        one.outcome.set_exception(error)
        return False
    return True
