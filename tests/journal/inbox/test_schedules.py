"""A tick is one turn, with any number of workers; what is late, overlaps or is paused does as the schedule says."""

from __future__ import annotations

import asyncio
import subprocess
import sys

import pytest
from msgspec.structs import replace
from tests.journal.inbox.queued_turns import NOON, InboxUnderTest

from holdfast import PostgresJournal
from holdfast.journal.inbox.entries import EntryState
from holdfast.journal.inbox.opening_inbox import open_inbox, open_schedules
from holdfast.journal.inbox.queue_limits import QueueLimits
from holdfast.journal.inbox.schedules.schedule import CatchUp, Overlap, Schedule
from holdfast.journal.inbox.schedules.schedule_store import Schedules

EACH_MINUTE = Schedule(
    name="report",
    tenant="acme",
    agent="cook",
    every=60,
    body=b'{"message": "Go."}',
    overlap=Overlap.QUEUE,
)


@pytest.fixture
def schedules(box: InboxUnderTest) -> Schedules:
    return Schedules(box.store)


async def outcomes(schedules: Schedules) -> list[str]:
    """The history, the oldest first: the minute after noon and what became of it."""
    history = await schedules.read_history("acme", "report")
    return [f"{(one.tick - NOON) / 60:g} {one.outcome}" for one in reversed(history)]


async def test_each_tick_is_a_turn(box: InboxUnderTest, schedules: Schedules) -> None:
    entry = await schedules.put(EACH_MINUTE)
    assert entry.next_tick == NOON + 60
    assert await schedules.fire_due() == []
    for number in (1, 2):
        box.clock.at = NOON + 60 * number + 0.5
        [fired] = await schedules.fire_due()
        assert await schedules.fire_due() == []
        assert fired.entry is not None
        assert fired.entry.request == f"schedule:report:2027-01-15T12:0{number}:00Z"
        assert fired.entry.session == fired.entry.request
        assert (fired.entry.body, fired.entry.tenant) == (EACH_MINUTE.body, "acme")
        assert fired.entry.made_by == "schedule report"
    assert await outcomes(schedules) == ["1 fired", "2 fired"]
    [latest, _] = await schedules.read_history("acme", "report")
    assert latest.state == "ready"
    await box.check()


async def test_a_tick_is_skipped_while_a_turn_of_the_schedule_runs(
    box: InboxUnderTest, schedules: Schedules
) -> None:
    await schedules.put(replace(EACH_MINUTE, overlap=Overlap.SKIP))
    await box.add_worker()
    for minute in (1, 2, 3):
        box.clock.at = NOON + 60 * minute
        await schedules.fire_due()
    await box.add_worker()
    entry = await box.begin()
    await box.end(entry, EntryState.WAITING)
    box.clock.at += 60
    await schedules.fire_due()
    await box.inbox.cancel(entry.id)
    await box.add_worker()
    await box.end(await box.begin())
    box.clock.at += 60
    await schedules.fire_due()
    assert await outcomes(schedules) == [
        "1 fired",
        "2 skipped",
        "3 skipped",
        "4 skipped",
        "5 fired",
    ]
    await box.check()


@pytest.mark.slow  # takes half a second or more
@pytest.mark.parametrize(
    ("policy", "wanted"),
    [
        ((CatchUp.NONE, 86_400), ["1 missed", "5 fired"]),
        ((CatchUp.LAST, 86_400), ["1 missed", "5 fired"]),
        ((CatchUp.ALL, 86_400), ["1 fired", "2 fired", "3 fired", "4 fired", "5 fired"]),
        ((CatchUp.ALL, 150), ["1 missed", "3 fired", "4 fired", "5 fired"]),
    ],
)
async def test_ticks_that_were_missed(
    box: InboxUnderTest,
    schedules: Schedules,
    policy: tuple[CatchUp, int],
    wanted: list[str],
) -> None:
    """No worker ran for five minutes."""
    catch_up, within = policy
    await schedules.put(replace(EACH_MINUTE, catch_up=catch_up, catch_up_within=within))
    box.clock.at = NOON + 330
    await schedules.fire_due()
    assert await outcomes(schedules) == wanted
    missed = [one.missed for one in await schedules.read_history("acme", "report") if one.missed]
    assert sum(missed) + len([one for one in wanted if "fired" in one]) == 5
    assert await schedules.fire_due() == []
    await box.check()


@pytest.mark.parametrize(
    ("catch_up", "wanted"), [(CatchUp.NONE, "missed"), (CatchUp.LAST, "fired")]
)
async def test_a_single_tick_that_is_late(
    box: InboxUnderTest, schedules: Schedules, catch_up: CatchUp, wanted: str
) -> None:
    await schedules.put(replace(EACH_MINUTE, every=3600, catch_up=catch_up))
    box.clock.at = NOON + 3600 + 120
    await schedules.fire_due()
    assert await outcomes(schedules) == [f"60 {wanted}"]
    box.clock.at += 3600
    await schedules.fire_due()
    assert (await outcomes(schedules))[1] == f"120 {wanted}"


async def test_years_without_a_worker_are_no_work(
    box: InboxUnderTest, schedules: Schedules
) -> None:
    """The ticks are counted in parts, and the latest one is done."""
    await schedules.put(replace(EACH_MINUTE, every=3600))
    box.clock.at = NOON + 500 * 86_400
    fired = await schedules.fire_due()
    assert [one.outcome for one in fired][-1] == "fired"
    assert sum(one.missed for one in fired) == 500 * 24 - 1
    assert fired[-1].tick == box.clock.at


@pytest.mark.slow  # takes half a second or more
async def test_a_full_queue_delays_a_tick_and_no_other_schedule(
    box: InboxUnderTest, schedules: Schedules
) -> None:
    await schedules.put(EACH_MINUTE)
    await schedules.put(replace(EACH_MINUTE, tenant="other"))
    await box.inbox.set_limits("tenant:acme", QueueLimits(queued=0))
    box.clock.at += 60
    [fired] = await schedules.fire_due()
    assert fired.entry is not None
    assert fired.entry.tenant == "other"
    assert await outcomes(schedules) == []
    await box.inbox.set_limits("tenant:acme", QueueLimits())
    box.clock.at += 5
    assert len(await schedules.fire_due()) == 1
    assert await outcomes(schedules) == ["1 fired"]
    await box.check()


@pytest.mark.slow  # takes half a second or more
async def test_a_paused_schedule_has_no_ticks_and_does_not_catch_up(
    box: InboxUnderTest, schedules: Schedules
) -> None:
    await schedules.put(replace(EACH_MINUTE, catch_up=CatchUp.ALL))
    assert await schedules.pause("acme", "report")
    box.clock.at += 300
    assert await schedules.fire_due() == []
    replaced = await schedules.put(replace(EACH_MINUTE, priority=1))
    assert replaced.is_paused
    assert await schedules.resume("acme", "report")
    assert await schedules.fire_due() == []
    box.clock.at += 60
    await schedules.fire_due()
    assert await outcomes(schedules) == ["6 fired"]
    assert not await schedules.pause("acme", "other")


async def test_a_schedule_is_replaced_listed_and_deleted(
    box: InboxUnderTest, schedules: Schedules
) -> None:
    await schedules.put(EACH_MINUTE)
    other = await schedules.put(replace(EACH_MINUTE, name="other", tenant="b"))
    box.clock.at += 90
    same_times = await schedules.put(replace(EACH_MINUTE, body=b"{}"))
    assert same_times.next_tick == NOON + 60  # what is due stays due
    new_times = await schedules.put(replace(EACH_MINUTE, every=30))
    assert new_times.next_tick == NOON + 120
    assert await schedules.list_schedules() == [new_times, other]
    assert await schedules.list_schedules("acme") == [new_times]
    assert await schedules.find("acme", "report") == new_times
    assert await schedules.delete("acme", "report")
    assert not await schedules.delete("acme", "report")
    assert await schedules.find("acme", "report") is None
    box.clock.at += 90
    assert [one.entry and one.entry.tenant for one in await schedules.fire_due()] == ["b"]


async def test_a_turn_at_once(box: InboxUnderTest, schedules: Schedules) -> None:
    await schedules.put(replace(EACH_MINUTE, session="news"))
    first = await schedules.trigger("acme", "report", "a")
    second = await schedules.trigger("acme", "report")
    assert first is not None
    assert second is not None
    assert first.id != second.id
    assert second.state == "blocked"
    again = await schedules.trigger("acme", "report", "a")
    assert again is not None
    assert again.id == first.id
    assert await schedules.trigger("acme", "other") is None
    assert (await outcomes(schedules))[:2] == ["0 triggered", "0 triggered"]


async def test_jitter_delays_the_turn_and_not_the_tick(
    box: InboxUnderTest, schedules: Schedules
) -> None:
    await schedules.put(replace(EACH_MINUTE, jitter=50))
    box.clock.at += 60
    [fired] = await schedules.fire_due()
    assert fired.entry is not None
    assert fired.entry.state == "scheduled"
    assert 0 < fired.entry.due_at - box.clock.at <= 50


async def test_a_schedule_that_has_ended_is_quiet(
    box: InboxUnderTest, schedules: Schedules
) -> None:
    await schedules.put(replace(EACH_MINUTE, ends_at=NOON + 100))
    box.clock.at += 70
    assert len(await schedules.fire_due()) == 1
    found = await schedules.find("acme", "report")
    assert found is not None
    assert found.next_tick is None
    box.clock.at += 1000
    assert await schedules.fire_due() == []


PROGRAM = """
import asyncio, sys, time
from holdfast import PostgresJournal
from holdfast.journal.inbox.opening_inbox import open_schedules
async def main():
    with PostgresJournal(sys.argv[1]) as journal:
        schedules = open_schedules(journal)
        await schedules.list_schedules()
        print("ready", flush=True)
        sys.stdin.readline()
        end = time.time() + 3.5
        while time.time() < end:
            await schedules.fire_due()
asyncio.run(main())
"""


@pytest.mark.slow  # starts four processes
def test_four_processes_fire_each_tick_once(url: str) -> None:
    asyncio.run(put_three(url))
    program = [sys.executable, "-c", PROGRAM, url]
    processes = [
        subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    for process in processes:
        process.communicate(timeout=60)
        assert process.returncode == 0
    asyncio.run(check_three(url))


async def put_three(url: str) -> None:
    with PostgresJournal(url) as journal:
        for name in ("a", "b", "c"):
            each_second = replace(
                EACH_MINUTE, name=name, every=1, catch_up=CatchUp.ALL, session="one"
            )
            await open_schedules(journal).put(each_second)


async def check_three(url: str) -> None:
    """Each second of the time has one turn of each schedule."""
    with PostgresJournal(url) as journal:
        entries = await open_inbox(journal).list_entries(limit=1000)
        for name in ("a", "b", "c"):
            history = await open_schedules(journal).read_history("acme", name)
            ticks = [one.tick for one in reversed(history)]
            assert len(ticks) >= 3
            assert ticks == list(range(ticks[0], ticks[0] + len(ticks)))
            assert {one.outcome for one in history} == {"fired"}
            assert len({one.entry for one in history}) == len(ticks)
            own = [one for one in entries if one.request.startswith(f"schedule:{name}:")]
            assert len(own) == len(ticks)
