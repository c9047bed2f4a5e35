"""Turns that end while a transaction is under way are saved together by the next one."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from holdfast.journal.inbox.admitting import Admission, Offer
from holdfast.journal.inbox.dispatch_engine import Job
from holdfast.journal.inbox.entries import EntryState
from holdfast.journal.inbox.inbox import InboxChanges
from holdfast.journal.inbox.inbox_errors import EngineError
from holdfast.journal.inbox.job_slots import JobSlots
from holdfast.journal.journal_errors import JournalStorageError
from holdfast.worker import EndedEntry, EntryOutcome
from holdfast.worker.dispatcher import DirectTurns, Dispatcher
from holdfast.worker.engines.asyncio_engine import AsyncioEngine

pytestmark = pytest.mark.anyio

DONE = EntryOutcome(state=EntryState.DONE)


class GatedInbox:
    """Performs one transaction for each permit, and notes what is saved and offered."""

    def __init__(self) -> None:
        self.permits = asyncio.Semaphore(0)
        self.saved: list[list[int]] = []
        self.offered: list[int] = []
        self.failure: Exception | None = None

    async def end(
        self, ended: Sequence[EndedEntry], worker: str, make_put: object, offer: Offer
    ) -> Admission:
        self.saved.append([one.id for one in ended])
        self.offered.append(offer.slots)
        await self.permits.acquire()
        if self.failure is not None:
            raise self.failure
        return Admission(jobs=[Job(100 + len(ended), "q")])


class ListingEngine(AsyncioEngine):
    """Lists what is put."""

    def __init__(self) -> None:
        super().__init__()
        self.jobs: list[int] = []
        self.failure: Exception | None = None

    async def put(self, jobs: Sequence[Job]) -> None:
        if self.failure is not None:
            raise self.failure
        self.jobs += [job.id for job in jobs]


class Bench:
    """A dispatcher of a worker with five slots, of which three have turns."""

    def __init__(self) -> None:
        self.inbox, self.engine = GatedInbox(), ListingEngine()
        slots = JobSlots(5)
        slots.take(3)
        direct = DirectTurns("w", ["q"], slots, lambda _: None)
        inbox: Any = self.inbox
        self.dispatcher = Dispatcher(inbox, InboxChanges(), self.engine, direct)

    async def end(self, *numbers: int) -> list[asyncio.Task[None]]:
        """Let turns end, and return their tasks, which wait."""
        tasks = [asyncio.create_task(self.dispatcher.end(number, DONE)) for number in numbers]
        for _ in range(3):
            await asyncio.sleep(0)
        return tasks


async def test_the_first_end_waits_for_no_other_and_the_next_ones_share_a_transaction() -> None:
    bench = Bench()
    first = await bench.end(1)
    others = await bench.end(2, 3)
    assert bench.inbox.saved == [[1]]
    bench.inbox.permits.release()
    await asyncio.gather(*first)
    assert not any(task.done() for task in others)
    bench.inbox.permits.release()
    await asyncio.gather(*others)
    assert bench.inbox.saved == [[1], [2, 3]]
    assert bench.inbox.offered == [3, 4]  # the two free slots, and those of the ended turns
    assert bench.engine.jobs == [101, 102]
    last = await bench.end(4)
    bench.inbox.permits.release()
    await asyncio.gather(*last)
    assert bench.inbox.saved[-1] == [4]


async def test_a_failure_is_told_to_all_whose_ends_were_not_saved_and_to_nobody_else() -> None:
    bench = Bench()
    first = await bench.end(1)
    others = await bench.end(2, 3)
    bench.inbox.permits.release()
    await asyncio.gather(*first)
    bench.inbox.failure = JournalStorageError("talk.db", "the disk is full")
    bench.inbox.permits.release()
    found = await asyncio.gather(*others, return_exceptions=True)
    assert [type(one) for one in found] == [JournalStorageError] * 2
    bench.inbox.failure = None
    bench.inbox.permits.release()
    await asyncio.gather(*(await bench.end(2, 3)))
    assert bench.inbox.saved == [[1], [2, 3], [2, 3]]


async def test_whoever_waits_can_be_cancelled_and_the_ends_are_saved_nevertheless() -> None:
    bench = Bench()
    (first,) = await bench.end(1)
    second, third = await bench.end(2, 3)
    first.cancel()
    second.cancel()
    await asyncio.wait([first, second])
    bench.inbox.permits.release()
    bench.inbox.permits.release()
    await third
    assert bench.inbox.saved == [[1], [2, 3]]


@pytest.mark.parametrize("failure", [EngineError("q", "is gone"), ValueError("a mistake")])
async def test_an_engine_that_fails_keeps_no_end_from_being_saved(failure: Exception) -> None:
    bench = Bench()
    bench.engine.failure = failure
    tasks = [*await bench.end(1), *await bench.end(2)]
    bench.inbox.permits.release()
    bench.inbox.permits.release()
    await asyncio.gather(*tasks)
    assert bench.inbox.saved == [[1], [2]]
