"""Groups of operations of a PostgreSQL journal: one statement for all that wait at the same time.

While the server works on one group, the next one gathers. So the number of transactions does not
grow with the number of runs that a process drives at the same time, and the two threads wake each
other once for a group. A run with many new records is left out of a group of reads and read alone, so
that the others do not wait for it.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from functools import partial
from typing import Generic, NamedTuple, TypeAlias, TypeVar, cast

from holdfast.journal.handoff import Handoff, finish_all
from holdfast.journal.journal_errors import JournalClosedError
from holdfast.journal.postgres import postgres_statements as sql
from holdfast.journal.postgres.loop_thread import LoopThread, WithdrawnError
from holdfast.journal.postgres.postgres_inserts import to_array
from holdfast.journal.rows import SEQ, Row

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
        perform: performs a group, and returns the outcome of each job. Its exception is raised to
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
        # Not at once: jobs that the other tasks of this loop submit now belong to the same group.
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


Values = Mapping[str, object]


FetchRows: TypeAlias = Callable[[str, Values], Awaitable[list[Row]]]
"""Fetches the rows of a statement with its values, in the thread of the journal."""


class ReadGroups:
    """Reads runs in groups.

    Args:
        thread: the thread of the journal.
        fetch: fetches the rows of a statement in that thread.
    """

    def __init__(self, thread: LoopThread, fetch: FetchRows) -> None:
        def make_lane(statement: str, join: Callable[[Sequence[Values]], Values]) -> ReadLane:
            perform = partial(_read_group, fetch, statement, join)
            return GroupLane(thread, perform, may_be_withdrawn=True)

        self._lines = make_lane(sql.LINES_GROUP, _join_lines)
        self._keys = make_lane(sql.KEYS_GROUP, _join_names)
        self._picked = make_lane(sql.PICK_GROUP, _join_keys)

    async def fetch_lines(self, values: Values) -> list[Row] | None:
        """Return the result of the statement LINES; None if the run must be read alone."""
        rows = await _submit(self._lines, values)
        is_partial = rows and rows[0][SEQ] is None and rows[0][-1] != values["after"]
        return None if is_partial else rows

    def fetch_keys(self, values: Values) -> Handoff[list[Row]]:
        """Return the keys of a run."""
        return _submit(self._keys, values)

    def fetch_picked(self, values: Values) -> Handoff[list[Row]]:
        """Return the records of a run that have one of the keys `keys`."""
        return _submit(self._picked, values)


ReadLane: TypeAlias = GroupLane[Values, list[Row]]


def _submit(lane: ReadLane, values: Values) -> Handoff[list[Row]]:
    return lane.submit(values, object())


async def _read_group(
    fetch: FetchRows,
    statement: str,
    join: Callable[[Sequence[Values]], Values],
    jobs: Sequence[Values],
) -> Sequence[list[Row]]:
    found: list[list[Row]] = [[] for _ in jobs]
    for number, *row in await fetch(statement, join(jobs)):
        found[int(str(number)) - 1].append(tuple(row))
    return found


def _join_names(jobs: Sequence[Values]) -> dict[str, object]:
    return {f"{name}s": to_array([job[name] for job in jobs]) for name in ("tenant", "name")}


def _join_lines(jobs: Sequence[Values]) -> Values:
    return {**_join_names(jobs), "afters": to_array([job["after"] for job in jobs])}


def _join_keys(jobs: Sequence[Values]) -> Values:
    pairs = [(number, key) for number, job in enumerate(jobs, 1) for key in _read_keys(job)]
    return {
        **_join_names(jobs),
        "numbers": to_array([number for number, _ in pairs]),
        "keys": to_array([key for _, key in pairs]),
    }


def _read_keys(job: Values) -> set[str]:
    """Return the wanted keys that a record can have; one other key would fail the whole group."""
    keys = cast("Sequence[str]", job["keys"])
    return {
        key for key in keys if "\x00" not in key and key.encode(errors="ignore").decode() == key
    }
