"""A turn that workers have died of: nobody begins it again, and whoever wants to know is told why."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast import Agent, tool
from holdfast.core.errors import HoldfastError
from holdfast.core.events import Event, Status, TurnClosed, TurnInterrupted, TurnOpened
from holdfast.core.messages import user
from holdfast.core.turn_failures import TURN_CANCELLED
from holdfast.hosting.service_tenants import ServiceTenants
from holdfast.journal import Journal, MemoryJournal, SqliteJournal
from holdfast.journal.inbox.entries import EntryState
from holdfast.journal.inbox.inbox import Inbox
from holdfast.journal.inbox.inbox_errors import QueuedTurnError
from holdfast.journal.inbox.opening_inbox import open_inbox
from holdfast.journal.inbox.statements import Statement, Transaction
from holdfast.testing import ScriptedModel
from holdfast.testing.emulator import call
from holdfast.worker import QuarantineOptions, QueuedRun, Worker
from holdfast.worker.loop_watchdog import LoopWatchdog, watch_loop

SECONDS = 60.0


@pytest.fixture(params=["memory", "sqlite"])
def journal(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Journal]:
    if request.param == "memory":
        yield MemoryJournal()
        return
    with SqliteJournal(tmp_path / "talk.db") as opened:
        yield opened


def make_agent(journal: Journal, *replies: Any, **more: Any) -> Agent[str]:
    return Agent(ScriptedModel(*replies), name="greeter", journal=journal, **more)


async def change_entry(inbox: Inbox, entry: int, changes: str) -> None:
    """Change an entry as deaths of workers would."""

    def change() -> Transaction[None]:
        yield Statement(
            f"UPDATE holdfast_inbox SET {changes} WHERE id = {entry}"
        )  # REASON: of this file

    await inbox._store.perform(change)


async def leave_open(agent: Agent[str], journal: Journal, *events: Event) -> QueuedRun[str]:
    """Submit a turn whose worker has died after it had begun it."""
    run = await agent.submit("Hi.", session="ada", request="r1")
    opened = TurnOpened("t1", 1.0, user("Hi."), agent="greeter", request="r1")
    for event in (opened, *events):
        await journal.append("ada", event)
    return run


PARKED_IN_PART = TurnInterrupted("t1.interrupted", 2.0, "parked", why="4 died", deliveries=4)


@pytest.mark.slow  # takes half a second or more
@pytest.mark.parametrize(
    ("changes", "events"),
    [
        ("deaths = 2, deaths_alone = 2", ()),
        ("parking = '4 workers died', turn = 1", ()),
        ("parking = '4 workers died', turn = 1", (PARKED_IN_PART,)),
    ],
    ids=["before the first step", "after the first step", "between the two records"],
)
async def test_a_turn_that_workers_died_of_is_closed_and_not_begun(
    journal: Journal, changes: str, events: tuple[Event, ...]
) -> None:
    """Whichever step of it the worker before has done."""
    agent = make_agent(journal, "Hello.")
    run = await leave_open(agent, journal, *events)
    after = await agent.submit("And?", session="ada")
    await change_entry(open_inbox(journal), run.id, changes)
    async with Worker(agent):
        with pytest.raises(QueuedTurnError, match="parked: 4 ") as refused:
            await run.wait(SECONDS)
        assert (await after.wait(SECONDS)).text == "Hello."  # the only reply that there is
    assert (refused.value.state, await run.read_state()) == ("parked", EntryState.PARKED)
    assert refused.value.result is not None
    saved = [record.event for record in await journal.read("ada")]
    (interrupted,) = [event for event in saved if isinstance(event, TurnInterrupted)]
    assert interrupted.reason == "parked"
    closed = next(event for event in saved if isinstance(event, TurnClosed))
    assert closed.error is not None
    assert (closed.status, closed.error.code) == (Status.FAILED, "parked")
    with pytest.raises(HoldfastError, match="4 ") as failed:  # of the turn itself, as before
        await agent.run("Hi.", session="ada", request="r1")
    assert failed.value.info.code == "parked"


async def test_a_parked_turn_can_be_retried(journal: Journal) -> None:
    agent = make_agent(journal, "Hello.")
    run = await leave_open(agent, journal)
    inbox = open_inbox(journal)
    await change_entry(inbox, run.id, "deaths = 2, deaths_alone = 2")
    async with Worker(agent):
        with pytest.raises(QueuedTurnError):
            await run.wait(SECONDS)
        assert await inbox.retry(run.id)
        assert (await run.wait(SECONDS)).text == "Hello."


async def test_parking_closes_no_later_turn_of_the_session(journal: Journal) -> None:
    """Somebody has closed the turn with a message of his own, which the inbox does not know."""
    agent = make_agent(journal)
    closed = TurnClosed("t1.closed", 2.0, Status.CANCELLED, TURN_CANCELLED)
    again = TurnOpened("t2", 3.0, user("And?"), agent="greeter")
    interrupted = TurnInterrupted("t1.interrupted", 2.0, "cancelled")
    run = await leave_open(agent, journal, interrupted, closed, again)
    await change_entry(open_inbox(journal), run.id, "deaths = 2, deaths_alone = 2")
    async with Worker(agent):
        with pytest.raises(HoldfastError, match="cancelled"):
            await run.wait(SECONDS)
    assert await run.read_state() is EntryState.DONE


@pytest.mark.parametrize("state", ["parked", "failed", "dropped", "admitted", "done"])
async def test_nobody_but_the_inbox_continues_a_turn_that_it_knows(
    journal: Journal, state: str
) -> None:
    """Not `recover()`, not a worker that starts, not the next message; even if it was left open by mistake."""
    agent = make_agent(journal, "Hello.")
    run = await leave_open(agent, journal)
    inbox = open_inbox(journal)
    await change_entry(inbox, run.id, f"state = '{state}', worker = 'w', error = 'No.'")
    assert await agent.recover() == []
    service = ServiceTenants(agent, journal)
    tenant = service.for_tenant()
    async with Worker(agent) as worker:
        tenant = worker._driving._tenants.for_tenant()
        await tenant.open_turns.look()
        assert not tenant.runner.driven
        assert not tenant.open_turns.is_queued("ada")
        if state != "admitted":
            after = await agent.submit("And?", session="ada")
            assert (await after.wait(SECONDS)).text == "Hello."
    events = [record.event for record in await journal.read("ada")]
    assert sum(isinstance(event, TurnOpened) for event in events) == 1 + (state != "admitted")


@pytest.mark.parametrize("state", ["failed", "dropped", "parked"])
async def test_whoever_waits_for_a_turn_that_never_ends_is_told_why(
    journal: Journal, state: str
) -> None:
    agent = make_agent(journal)
    for run in (await leave_open(agent, journal), await agent.submit("Hi.", session="bob")):
        await change_entry(open_inbox(journal), run.id, f"state = '{state}', error = 'No.'")
        with pytest.raises(QueuedTurnError, match=f"is {state}: No[.]") as refused:
            await run.wait(SECONDS)
        assert (refused.value.state, refused.value.why) == (state, "No.")


async def test_an_open_turn_of_the_queue_is_abandoned_with_its_entry(journal: Journal) -> None:
    agent = make_agent(journal, "Hello.")
    run = await leave_open(agent, journal)
    after = await agent.submit("And?", session="ada")
    inbox = open_inbox(journal)
    await change_entry(inbox, run.id, "state = 'admitted', worker = 'w'")
    service = ServiceTenants(agent, journal)
    tenant = service.for_tenant()
    tenant.queue_turns(inbox, drives=False)
    await tenant.abandon("ada", by="ann")
    assert await run.read_state() is EntryState.DONE
    assert await after.read_state() is EntryState.READY
    last = await tenant.last_turn("ada")
    assert last.status == "cancelled"


# --- the quarantine


async def test_a_turn_that_workers_died_of_is_driven_alone(journal: Journal) -> None:
    """The others end first or are handed back, and none begins until it has ended."""
    log: list[str] = []
    alone: list[tuple[str, ...]] = []
    may_end = asyncio.Event()
    driven: dict[str, int] = {}

    @tool(effect="read")
    async def work() -> str:
        """Work for a while."""
        driven["n"] = driven.get("n", 0) + 1
        log.append("work")
        try:
            await may_end.wait()
        finally:
            driven["n"] -= 1
        return "worked"

    @tool(effect="read")
    async def taste() -> str:
        """Tell who else is driven."""
        alone.append((str(driven.get("n", 0)),))
        await asyncio.sleep(0.05)
        alone.append((str(driven.get("n", 0)),))
        may_end.set()
        return "tasted"

    agent = Agent(
        ScriptedModel(call("work"), call("taste"), *["Done."] * 8, call("work"), *["Done."] * 8),
        name="greeter",
        journal=journal,
        tools=[work, taste],
    )
    first = await agent.submit("one", session="n1")
    async with Worker(
        agent, parallel=4, quarantine=QuarantineOptions(drain_seconds=0.05)
    ) as worker:
        while not log:
            await asyncio.sleep(0.01)
        suspect = await agent.submit("two", session="p", not_before=1e10)
        await change_entry(open_inbox(journal), suspect.id, "deaths = 2, state = 'ready'")
        worker._driving._dispatcher.wake()
        assert (await suspect.wait(SECONDS)).text == "Done."
        assert (await first.wait(SECONDS)).text == "Done."
        assert not worker._driving._slots.is_paused
    assert alone == [("0",), ("0",)]


async def test_a_worker_that_stops_while_it_drains_hands_the_suspect_back(
    journal: Journal,
) -> None:
    """It was not driven alone yet, so nothing counts against it."""
    begun = asyncio.Event()

    @tool(effect="read")
    async def work() -> str:
        """Work for long."""
        begun.set()
        await asyncio.sleep(60)
        return "worked"

    agent = make_agent(journal, call("work"), tools=[work])
    inbox = open_inbox(journal)
    first = await agent.submit("one", session="n1")
    async with Worker(agent, parallel=4, grace=0.1) as worker:
        await begun.wait()
        suspect = await agent.submit("two", session="p", not_before=1e10)
        await change_entry(inbox, suspect.id, "deaths = 2, state = 'ready'")
        worker._driving._dispatcher.wake()
        while worker._driving._quarantine.entry is None:
            await asyncio.sleep(0.01)
        assert (await inbox.list_workers())[0].info.id == worker.id
    for run, deaths in ((first, 0), (suspect, 2)):
        entry = await run.read_entry()
        assert (entry.state, entry.worker, entry.deaths, entry.deaths_alone) == (
            EntryState.ADMITTED,
            "",
            deaths,
            0,
        )
    assert await journal.read("p") == []


def test_the_watchdog_counts_only_what_the_loop_was_blocked() -> None:
    """A process that was stopped as a whole, and then goes on, was not blocked."""
    loop = asyncio.new_event_loop()
    try:
        watchdog = LoopWatchdog(loop, 20.0)
        watchdog._answered.set()
        assert not watchdog.look(1.0)
        assert not watchdog.look(600.0)
        assert not any(watchdog.look(1.0) for _ in range(17))
        assert watchdog.look(1.0)
        loop.run_until_complete(asyncio.sleep(0))
        assert not watchdog.look(1.0)
    finally:
        loop.close()


@pytest.mark.slow  # takes half a second or more
async def test_a_process_whose_loop_is_blocked_ends_itself(
    caplog: pytest.LogCaptureFixture,
) -> None:
    ended = threading.Event()
    with caplog.at_level("CRITICAL"), watch_loop(1.0, ended.set):
        await asyncio.sleep(1.5)
        assert not ended.is_set()
        assert ended.wait(SECONDS)  # which blocks the loop
    assert "the event loop was blocked" in caplog.text
