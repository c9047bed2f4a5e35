"""A worker that admits turns has some of them at once, as if it had been given their jobs."""

from __future__ import annotations

from tests.journal.inbox.queued_turns import InboxUnderTest

from holdfast.journal.inbox.admitting import Offer
from holdfast.journal.inbox.dispatch_engine import Job, name_queue
from holdfast.journal.inbox.driving import EndedEntry, EntryOutcome
from holdfast.journal.inbox.entries import EntryState
from holdfast.journal.inbox.queue_limits import QueueLimits
from holdfast.journal.inbox.statements import Statement
from holdfast.journal.inbox.sweeping import StalledEntry

QUEUES = frozenset({"cook", "baker"})
DONE = EntryOutcome(state=EntryState.DONE)


async def test_a_worker_takes_as_many_as_it_offers_and_the_others_get_jobs(
    box: InboxUnderTest,
) -> None:
    await box.add_worker("w", slots=2)
    await box.add_worker("x", slots=1)
    entries = [await box.submit(priority=number) for number in range(4)][::-1]
    put: list[Job] = []

    def make_put(jobs: list[Job]) -> Statement:
        put.extend(jobs)
        return Statement("SELECT 1")

    admission = await box.inbox.admit(make_put, Offer("w", QUEUES, 2))  # type: ignore[arg-type]
    assert [entry.id for entry in admission.taken] == [entry.id for entry in entries[:2]]
    assert [job.id for job in admission.jobs] == [job.id for job in put] == [entries[2].id]
    for entry in admission.taken:
        assert (entry.state, entry.worker, entry.deliveries) == ("admitted", "w", 1)
        assert entry.body
        assert await box.inbox.begin(entry.id, "x") is None
    assert set(await box.inbox.list_held("w")) == {entry.id for entry in admission.taken}
    assert await box.inbox.list_held("x") == []
    (last,) = (
        await box.inbox.end([EndedEntry(entries[0].id, DONE)], "w", offer=Offer("w", QUEUES, 1))
    ).taken
    assert last.id == entries[3].id
    await box.check()


async def test_a_worker_takes_nothing_without_a_free_slot_and_nothing_of_other_queues(
    box: InboxUnderTest,
) -> None:
    await box.add_worker("w", slots=5)
    await box.add_worker("own", slots=5, tenants=("acme",))
    cook, baker = await box.submit(tenant="b"), await box.submit(tenant="b", agent="baker")
    pinned = await box.submit(tenant="acme")
    admission = await box.inbox.admit(offer=Offer("w", {"cook"}, 5))
    assert [entry.id for entry in admission.taken] == [cook.id]
    assert {job.id: job.queue for job in admission.jobs} == {
        baker.id: "baker",
        pinned.id: name_queue("cook", "acme"),
    }
    later = await box.submit(tenant="b")
    admission = await box.inbox.admit(offer=Offer("w", QUEUES, 0))
    assert [job.id for job in admission.jobs] == [later.id]
    assert not admission.taken


async def test_limits_bound_what_a_worker_takes(box: InboxUnderTest) -> None:
    await box.add_worker("w", slots=10)
    await box.inbox.set_limits("tenant", QueueLimits(running=2))
    for _ in range(4):
        await box.submit()
    offer = Offer("w", QUEUES, 10)
    admission = await box.inbox.admit(offer=offer)
    assert len(admission.taken) == 2
    assert not (await box.inbox.admit(offer=offer)).taken
    assert (
        len(
            (await box.inbox.end([EndedEntry(admission.taken[0].id, DONE)], "w", offer=offer)).taken
        )
        == 1
    )
    await box.check()


async def test_what_a_worker_took_that_died_is_found_and_put_again(box: InboxUnderTest) -> None:
    await box.add_worker("w")
    entry = await box.submit()
    assert (await box.inbox.admit(offer=Offer("w", QUEUES, 1))).taken
    assert await box.inbox.find_stalled() == []
    box.clock.at += 20
    await box.add_worker("x")
    stalled = await box.inbox.find_stalled()
    assert stalled == [StalledEntry(entry.id, "w")]
    assert [job.id for job in await box.inbox.put_again(stalled)] == [entry.id]
    assert (await box.begin_admitted(entry.id, "x")).deliveries == 2
