"""Admission: exact limits, fair between tenants, in order of priority, and never more than the workers take."""

from __future__ import annotations

from collections import Counter
from typing import Any, cast

import pytest
from tests.journal.inbox.queued_turns import InboxUnderTest, make_submission, make_worker

from holdfast.journal.inbox import admitting, inbox_statements
from holdfast.journal.inbox.admitting import Admission, Offer
from holdfast.journal.inbox.dispatch_engine import name_queue
from holdfast.journal.inbox.entries import EntryState, InboxEntry
from holdfast.journal.inbox.queue_limits import LimitTable, QueueLimits
from holdfast.journal.inbox.room import QueueFacts, Room
from holdfast.journal.inbox.statements import Statement, Transaction
from holdfast.journal.inbox.submitting import submit_turn


async def test_nothing_is_admitted_without_a_worker(box: InboxUnderTest) -> None:
    await box.submit()
    assert await box.admit() == []
    await box.add_worker("stopping", is_stopping=True)
    await box.add_worker("baker", agents=("baker",))
    assert await box.admit() == []
    await box.add_worker("w")
    assert len(await box.admit()) == 1
    assert await box.admit() == []
    await box.check()


async def test_no_more_is_admitted_than_workers_have_slots(box: InboxUnderTest) -> None:
    entries = [await box.submit() for _ in range(6)]
    await box.add_worker("a", slots=2)
    await box.add_worker("b", slots=2)
    assert await box.admit() == [entry.id for entry in entries[:4]]
    begun = await box.begin_admitted(entries[0].id, "a")
    assert await box.end(begun) == [entries[4].id]
    await box.check()


async def test_a_worker_that_drives_a_turn_alone_has_no_other_slot(box: InboxUnderTest) -> None:
    entries = [await box.submit() for _ in range(4)]
    await box.add_worker("a", slots=2, is_isolating=True)
    await box.add_worker("b", slots=2)
    assert await box.admit() == [entry.id for entry in entries[:3]]


async def test_a_worker_that_is_gone_is_given_nothing(box: InboxUnderTest) -> None:
    """Else each entry that it begins would be taken from it, and its death counted."""
    await box.add_worker("a", slots=1)
    entry = await box.submit()
    await box.add_worker("b", slots=0)
    box.clock.at += 20
    await box.add_worker("b", slots=1)
    assert not (await box.inbox.admit(offer=Offer("a", ["a"], 1))).taken
    assert await box.inbox.begin(entry.id, "a") is None
    assert (await box.begin_admitted(entry.id, "b")).worker == "b"


async def test_a_worker_that_is_gone_has_no_slots(box: InboxUnderTest) -> None:
    await box.add_worker("a", slots=1)
    first, second = await box.submit(), await box.submit()
    assert await box.admit() == [first.id]
    box.clock.at += 20
    await box.add_worker("b", slots=1)
    assert await box.admit() == []  # the turn of the worker that is gone still counts
    await box.end(await box.begin_admitted(first.id, "b"))
    assert await box.state(second) is EntryState.ADMITTED


@pytest.mark.slow  # takes half a second or more
@pytest.mark.parametrize(
    ("scope", "most"),
    [("all", 3), ("tenant", 6), ("tenant:acme", 23), ("agent:cook", 23)],
)
async def test_limits_of_running_turns_are_exact(
    box: InboxUnderTest, scope: str, most: int
) -> None:
    await box.inbox.set_limits(scope, QueueLimits(running=3))
    for tenant in ("acme", "other"):
        for _ in range(10):
            await box.submit(tenant=tenant, agent="cook" if tenant == "acme" else "baker")
    await box.submit(agent="baker")
    await box.submit(tenant="other", agent="cook")
    await box.add_worker()
    admitted = await box.admit()
    running = Counter[str]()
    for entry in await box.inbox.list_entries(states=[EntryState.ADMITTED]):
        running["all"] += 1
        running[f"tenant:{entry.tenant}"] += 1
        running[f"agent:{entry.agent}"] += 1
    wanted = {"all": 3, "tenant": 6, "tenant:acme": 3 + 11, "agent:cook": 3 + 11}[scope]
    assert running["all"] == len(admitted) == wanted, most
    assert running[scope if scope != "tenant" else "tenant:acme"] == 3
    assert await box.admit() == []
    entry = await box.begin_admitted(admitted[0])
    assert len(await box.end(entry)) == 1
    await box.check()


@pytest.mark.parametrize("scope", ["all", "tenant", "tenant:acme", "agent:cook"])
async def test_what_is_paused_does_not_begin(box: InboxUnderTest, scope: str) -> None:
    entry = await box.submit()
    await box.add_worker()
    await box.inbox.set_limits(scope, QueueLimits(is_paused=True))
    assert await box.admit() == []
    await box.inbox.set_limits(scope, QueueLimits())
    assert await box.admit() == [entry.id]


async def test_a_tenant_with_few_turns_is_not_behind_one_with_many(box: InboxUnderTest) -> None:
    for _ in range(40):
        await box.submit(tenant="large")
    small = [await box.submit(tenant="small") for _ in range(5)]
    await box.add_worker(slots=4)
    order: list[InboxEntry] = []
    admitted = await box.admit()
    while len(order) < 10:
        order.append(await box.begin_admitted(admitted.pop(0)))
        admitted += await box.end(order[-1])
    assert Counter(entry.tenant for entry in order) == {"small": 5, "large": 5}
    assert await box.states(*small) == [EntryState.DONE] * 5
    await box.check()


async def test_turns_of_an_idle_tenant_get_every_slot(box: InboxUnderTest) -> None:
    await box.add_worker(slots=4)
    for _ in range(4):
        await box.submit(tenant="large")
    await box.admit()
    for _ in range(3):
        await box.submit(tenant="large")
    small = [await box.submit(tenant="small") for _ in range(3)]
    running = await box.inbox.list_entries(states=[EntryState.ADMITTED])
    ended = []
    for entry in running[:2]:
        ended += await box.end(await box.begin_admitted(entry.id))
    assert ended == [small[0].id, small[1].id]


async def test_the_tenant_that_was_served_last_is_not_behind_the_others(
    box: InboxUnderTest,
) -> None:
    """The ring of tenants begins after it, and goes on to it."""
    await box.add_worker(slots=1)
    await box.submit(tenant="a")
    await box.end(await box.begin())
    await box.submit(tenant="a")
    for _ in range(2):
        await box.submit(tenant="b")
    await box.add_worker(slots=2)
    await box.admit()
    running = await box.inbox.list_entries(states=[EntryState.ADMITTED])
    assert {entry.tenant for entry in running} == {"a", "b"}


async def test_priority_goes_before_age_within_a_tenant(box: InboxUnderTest) -> None:
    old, new = await box.submit(), await box.submit()
    urgent = await box.submit(priority=5)
    urgent_bread = await box.submit(priority=5, agent="baker")
    await box.submit(tenant="other", priority=100)
    await box.add_worker(slots=5)
    admitted = await box.admit()
    own = [one for one in admitted if one in {old.id, new.id, urgent.id, urgent_bread.id}]
    assert own == [urgent.id, urgent_bread.id, old.id, new.id]


@pytest.mark.slow  # takes half a second or more
async def test_many_tenants_are_served_in_turn(box: InboxUnderTest) -> None:
    """More tenants than one look reads: none is left out."""
    turns = [(f"t{number:03}", f"{again}") for number in range(150) for again in "ab"]
    await box.submit_many([make_submission(a + b, a + b, tenant=a) for a, b in turns])
    await box.add_worker(slots=50)
    served = Counter[str]()
    admitted = await box.admit()
    for number in range(6):
        for entry in await box.inbox.list_entries(states=[EntryState.ADMITTED]):
            served[entry.tenant] += 1
        assert sorted(admitted) == sorted(set(admitted))
        if number == 2:
            assert set(served.values()) == {1}
            assert len(served) == 150
        await box.store.perform(end_all)
        admitted = await box.admit()
    assert set(served.values()) == {2}
    assert len(served) == 150
    await box.check()


def end_all() -> Transaction[None]:
    yield Statement("UPDATE holdfast_inbox SET state = 'done' WHERE state = 'admitted'")


async def test_more_than_one_transaction_admits_says_so(box: InboxUnderTest) -> None:
    await box.submit_many([make_submission(f"s{n}", f"r{n}") for n in range(205)])
    await box.add_worker(slots=1000)
    first = await box.inbox.admit()
    assert (len(first.jobs), first.has_more) == (200, True)
    second = await box.inbox.admit()
    assert (len(second.jobs), second.has_more) == (5, False)
    assert len({job.id for job in (*first.jobs, *second.jobs)}) == 205
    await box.check()


async def test_a_tenant_with_workers_of_its_own_has_these_alone(box: InboxUnderTest) -> None:
    pinned, other = await box.submit(tenant="acme"), await box.submit(tenant="other")
    await box.add_worker("shared", slots=10)
    await box.add_worker("own", slots=1, tenants=("acme",))
    second = await box.submit(tenant="acme")
    jobs = {job.id: job.queue for job in (await box.inbox.admit()).jobs}
    assert jobs == {pinned.id: name_queue("cook", "acme"), other.id: name_queue("cook")}
    box.clock.at += 20
    await box.add_worker("shared", slots=10)
    jobs = {job.id: job.queue for job in (await box.inbox.admit()).jobs}
    assert jobs == {second.id: name_queue("cook")}  # its own worker is gone


def test_turns_of_one_agent_leave_the_slots_of_workers_that_lack_it() -> None:
    cooks = make_worker("cooks", 10, agents=("cook",))
    others = make_worker("others", 10, agents=("baker", "smith"))
    room = Room(QueueFacts(LimitTable({}), [cooks, others], {}))
    for _ in range(10):
        assert "baker" in room.find_agents("acme")
        room.take("acme", "baker")
    assert room.find_agents("acme") == ["cook"]
    assert room.agents == ["cook"]


def test_a_worker_of_two_tenants_has_its_slots_once() -> None:
    worker = make_worker("w", 3, tenants=("a", "b"), agents=("cook",))
    room = Room(QueueFacts(LimitTable({}), [worker], {("a", "cook"): 2}))
    assert room.find_agents("b") == ["cook"]
    room.take("b", "cook")
    assert room.is_full
    assert room.find_agents("a") == room.find_agents("b") == room.find_agents("c") == []


async def test_a_turn_that_comes_during_an_admission_is_not_taken_twice(
    box: InboxUnderTest,
) -> None:
    """A more urgent turn stands before those that were read, and moves them."""
    for _ in range(3):
        await box.submit()
    await box.add_worker()

    def admit_meanwhile() -> Transaction[Admission]:
        rows: Any = None
        transaction = admitting.admit_turns()
        reads = 0
        try:
            while True:
                statement = transaction.send(rows)
                reads += statement.text == inbox_statements.READY
                if reads == 2 and statement.text == inbox_statements.READY:
                    yield from insert_urgent()
                rows = yield statement
        except StopIteration as end:
            return cast("Admission", end.value)

    admission = await box.store.perform(admit_meanwhile)
    ids = [job.id for job in admission.jobs]
    assert len(ids) == len(set(ids)) == 4
    await box.check()


def insert_urgent() -> Transaction[None]:
    yield from submit_turn(make_submission("urgent", "urgent", priority=9))
