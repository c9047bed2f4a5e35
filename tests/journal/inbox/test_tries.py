"""What counts as a try of a turn, when it is tried again, and when its worker counts as gone."""

from __future__ import annotations

import pytest

from holdfast.journal.inbox.driving import EndedEntry, EntryOutcome
from holdfast.journal.inbox.entries import EntryState, InboxEntry, Submission
from holdfast.journal.inbox.inbox import Inbox
from holdfast.journal.inbox.sqlite_inbox import MemoryInboxStore
from holdfast.journal.inbox.worker_entries import WorkerInfo

pytestmark = pytest.mark.anyio


class Box:
    """An inbox at a time that the test sets, with one entry that a worker has."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.inbox = Inbox(MemoryInboxStore(lambda: self.now))

    async def begin(self, seconds_to_live: float = 1000.0) -> InboxEntry:
        worker = WorkerInfo(
            id="w",
            host="h",
            process=1,
            agents=("cook",),
            slots=4,
            engine="e",
            started_at=0.0,
            seconds_to_live=seconds_to_live,
        )
        await self.inbox.note_worker(worker)
        wanted = Submission(
            tenant="t", agent="cook", session="s", request="r", body=b"{}", digest="d"
        )
        entry = await self.inbox.submit(wanted)
        await self.inbox.admit()
        return await self.begin_again(entry)

    async def begin_again(self, entry: InboxEntry) -> InboxEntry:
        begun = await self.inbox.begin(entry.id, "w")
        assert begun is not None
        return begun


async def test_a_busy_session_is_no_try_and_is_tried_again_by_the_clock_of_the_database() -> None:
    box = Box()
    entry = await box.begin()
    for _ in range(30):
        assert entry.deliveries == 1
        busy = EntryOutcome(state=EntryState.POSTPONED, retry_after=2.0, was_busy=True)
        await box.inbox.end([EndedEntry(entry.id, busy)], "w")
        box.now += 1.9
        await box.inbox.promote_due()
        assert await box.inbox.begin(entry.id, "w") is None
        box.now += 0.2
        await box.inbox.promote_due()
        await box.inbox.admit()
        entry = await box.begin_again(entry)


async def test_a_turn_may_ask_any_number_of_questions() -> None:
    box = Box()
    entry = await box.begin()
    for _ in range(30):
        assert entry.deliveries == 1
        await box.inbox.end([EndedEntry(entry.id, EntryOutcome(state=EntryState.WAITING))], "w")
        await box.inbox.wake(entry.id)
        await box.inbox.admit()
        entry = await box.begin_again(entry)


async def test_a_try_that_got_nowhere_counts() -> None:
    box = Box()
    entry = await box.begin()
    await box.inbox.end(
        [EndedEntry(entry.id, EntryOutcome(state=EntryState.POSTPONED, retry_after=1.0))], "w"
    )
    box.now += 2
    await box.inbox.promote_due()
    await box.inbox.admit()
    assert (await box.begin_again(entry)).deliveries == 2


async def test_a_worker_is_gone_after_the_seconds_that_it_told() -> None:
    box = Box()
    await box.begin(seconds_to_live=3.0)
    box.now += 2.9
    assert not await box.inbox.find_stalled()
    box.now += 0.2
    assert [stalled.worker for stalled in await box.inbox.find_stalled()] == ["w"]
    assert not (await box.inbox.list_workers())[0].is_alive


async def test_a_turn_that_is_tried_again_does_not_wait_for_a_clock_that_was_set_back() -> None:
    box = Box()
    box.now = 50_000.0
    entry = await box.begin()
    busy = EntryOutcome(state=EntryState.POSTPONED, retry_after=30.0, was_busy=True)
    await box.inbox.end([EndedEntry(entry.id, busy)], "w")
    for now, is_due in ((1000.0, False), (1029.0, False), (1031.0, True)):
        box.now = now
        await box.inbox.promote_due()
        await box.inbox.admit()
        assert (await box.inbox.begin(entry.id, "w") is not None) is is_due


async def test_a_worker_that_died_is_noticed_although_the_clock_was_set_back() -> None:
    box = Box()
    box.now = 50_000.0
    await box.begin(seconds_to_live=15.0)
    for now, is_gone in ((1000.0, False), (1014.0, False), (1016.0, True)):
        box.now = now
        await box.inbox.promote_due()
        assert bool(await box.inbox.find_stalled()) is is_gone
