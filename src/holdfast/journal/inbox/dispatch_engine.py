"""The port of a dispatch engine: it carries hints from the inbox to workers.

An engine may lose a job, carry it twice or late, and forget everything: the inbox puts jobs again, and
a second delivery of one does nothing. So an engine must never be asked for the work to do.
`holdfast.testing.EngineConformance` tests these rules.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Protocol, TypeAlias, runtime_checkable

from msgspec import Struct

from holdfast.journal.inbox.job_slots import JobSlots
from holdfast.journal.inbox.statements import Statement
from holdfast.journal.live_link import LinkedJournal, OpenLink


class Job(Struct, frozen=True):
    """A hint that an entry of the inbox was admitted.

    Args:
        id: the number of the entry.
        queue: names the workers that may have it, see `name_queue`; any text.
    """

    id: int
    queue: str


def name_queue(agent: str, tenant: str | None = None) -> str:
    r"""Return the name of the queue of an agent, or of an agent and a tenant that has its own workers.

    >>> name_queue("planner"), name_queue("planner", "acme")
    ('planner', 'planner\x1facme')
    """
    return agent if tenant is None else f"{agent}\x1f{tenant}"


HandleJob: TypeAlias = Callable[[int], Awaitable[None]]
"""Does a job and returns when it is over; the engine forgets the job then. If it
raises, the engine delivers the job again, later."""


class DispatchEngine(Protocol):
    """Carries jobs to workers."""

    @property
    def name(self) -> str:
        """Its name in logs and in the console, such as "postgres"."""
        ...

    async def open(self) -> None:
        """Prepare the engine, for instance create its tables. Safe to call from many workers at once.

        Raises:
            EngineError: it cannot be reached or prepared.
        """
        ...

    async def put(self, jobs: Sequence[Job]) -> None:
        """Put jobs. A job that is there already may be doubled.

        Raises:
            EngineError: some may not have been put; the inbox puts them again.
        """
        ...

    async def run(self, handle: HandleJob, queues: Sequence[str], slots: JobSlots) -> None:
        """Deliver jobs until cancelled; a lost connection is waited for and never raised.

        When it is cancelled, no further job is delivered, and calls of `handle` in progress are
        awaited before it returns; the caller ends them.

        Args:
            handle: does a job.
            queues: the names of the queues.
            slots: bounds the number of jobs at once. A job is fetched only once it has a slot, and
                whoever calls may take slots for other work.
        """
        ...

    async def find_lost(self, ids: Collection[int]) -> Collection[int]:
        """Return those of these entries for which the engine certainly has no live job.

        When in doubt an entry is left out: a job too many does less harm than one too few, and the
        inbox asks again. An engine that cannot know returns all of them after a time that is long
        enough for any delivery.

        Raises:
            EngineError: the engine cannot be asked.
        """
        ...

    async def close(self) -> None:
        """Close the connections. A second call does nothing."""
        ...


@runtime_checkable
class TransactionalEngine(DispatchEngine, Protocol):
    """An engine in the database of the journal, whose jobs are put in the transaction of the inbox."""

    def make_put(self, jobs: Sequence[Job]) -> Statement:
        """Return the statement that puts jobs."""
        ...


@runtime_checkable
class LinkingEngine(DispatchEngine, Protocol):
    """An engine that also carries the items of runs to other processes."""

    def make_open_link(self, journal: LinkedJournal) -> OpenLink:
        """Return a function that opens the live link of this process in place of the journal's."""
        ...
