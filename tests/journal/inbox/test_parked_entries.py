"""An entry that is given up is over in the transaction that closes its turn: it is parked, or was cancelled."""

from __future__ import annotations

import pytest
from tests.journal.inbox.queued_turns import InboxUnderTest

from holdfast.core.events import Status, TurnClosed, TurnInterrupted, TurnOpened
from holdfast.core.messages import user
from holdfast.journal.inbox.entries import EntryState, InboxEntry
from holdfast.journal.inbox.queue_limits import QueueLimits

WHY = "4 workers died."
CLOSED = TurnClosed("t1.closed", 3.0, Status.FAILED)
CANCELLED = TurnClosed("t1.closed", 3.0, Status.CANCELLED)


async def begin_turn(box: InboxUnderTest) -> tuple[InboxEntry, InboxEntry]:
    """A turn that a worker has begun, and the next one of its session."""
    await box.add_worker()
    await box.submit("s")
    entry = await box.begin()
    later = await box.submit("s")
    opened = TurnOpened("t1", 1.0, user("Hi."), agent="cook", request=entry.request)
    await box.journal.for_tenant("acme").append("s", opened)
    return entry, later


async def test_a_parked_turn_and_its_entry_are_over_together(box: InboxUnderTest) -> None:
    entry, later = await begin_turn(box)
    journal = box.journal.for_tenant("acme")
    assert await box.inbox.park(entry.id, "w", 1, WHY)
    assert await box.states(entry, later) == ["admitted", "blocked"]
    told = (await box.inbox.find_request("acme", entry.request)) or entry
    assert (told.parking, told.turn) == (WHY, 1)
    interrupted = TurnInterrupted("t1.interrupted", 2.0, "parked", why=WHY, deliveries=4)
    await journal.append("s", interrupted)
    assert await box.states(entry, later) == ["admitted", "blocked"]
    await journal.append("s", CLOSED)
    assert await box.states(entry, later) == ["parked", "ready"]
    parked = await box.inbox.find(entry.id)
    assert parked is not None
    assert (parked.error, parked.parking) == (WHY, "")
    await box.check()
    await box.end(
        entry, EntryState.PARKED, error=WHY
    )  # as its worker does, which knows nothing of that
    assert await box.state(entry) == "parked"
    await box.check()


async def test_a_turn_that_completed_after_all_is_not_parked(box: InboxUnderTest) -> None:
    entry, later = await begin_turn(box)
    await box.inbox.park(entry.id, "w", 1, WHY)
    completed = TurnClosed("t1.closed", 3.0, Status.COMPLETED)
    await box.journal.for_tenant("acme").append("s", completed)
    assert await box.states(entry, later) == ["done", "ready"]
    await box.check()


async def test_only_whoever_has_an_entry_parks_it(box: InboxUnderTest) -> None:
    entry, _ = await begin_turn(box)
    assert not await box.inbox.park(entry.id, "other", 1, WHY)
    await box.journal.for_tenant("acme").append("s", CLOSED)
    assert await box.state(entry) == "admitted"  # its worker is about to say what became of it


async def test_whoever_begins_an_entry_next_sees_that_it_is_to_be_parked(
    box: InboxUnderTest,
) -> None:
    """The worker has died between its two steps."""
    entry, _ = await begin_turn(box)
    await box.inbox.park(entry.id, "w", 1, WHY)
    box.clock.at += 20
    await box.add_worker("other")
    await box.inbox.put_again(await box.inbox.find_stalled())
    assert (await box.begin_admitted(entry.id, "other")).parking == WHY


@pytest.mark.parametrize("state", ["admitted", "ready", "waiting"])
async def test_a_cancelled_turn_and_its_entry_are_over_together(
    box: InboxUnderTest, state: str
) -> None:
    """In whatever state it is when somebody closes it: the console, a command, or its worker."""
    entry, later = await begin_turn(box)
    await box.inbox.set_limits("all", QueueLimits(is_paused=True))
    if state == "waiting":
        await box.end(entry, EntryState.WAITING, turn=1)
    if state == "ready":
        await box.end(entry, EntryState.POSTPONED, turn=1)
        await box.inbox.wake(entry.id)
    await box.inbox.cancel(entry.id, "ann")
    await box.journal.for_tenant("acme").append("s", CANCELLED)
    assert await box.states(entry, later) == ["done", "ready"]
    await box.check()


async def test_the_end_of_another_turn_ends_no_entry(box: InboxUnderTest) -> None:
    """Of a subagent, of another session or tenant; and one that did not end as cancelled."""
    entry, later = await begin_turn(box)
    await box.inbox.cancel(entry.id, "ann")
    for tenant, run, closed in (
        ("acme", "s/t1.i0.tool.0", CANCELLED),
        ("acme", "t", CANCELLED),
        ("other", "s", CANCELLED),
        ("acme", "s", CLOSED),
    ):
        await box.journal.for_tenant(tenant).append(run, closed)
        assert await box.states(entry, later) == ["admitted", "blocked"]
    await box.check()


async def test_words_of_a_tool_do_not_end_an_entry(box: InboxUnderTest) -> None:
    """What the journal says is looked for in its JSON, where an error may have any text."""
    from holdfast.core.errors import ErrorCategory, ErrorInfo

    entry, _ = await begin_turn(box)
    await box.inbox.cancel(entry.id, "ann")
    error = ErrorInfo(category=ErrorCategory.UNKNOWN, safe='{"status":"cancelled"}')
    closed = TurnClosed("t1.closed", 3.0, Status.FAILED, error)
    await box.journal.for_tenant("acme").append("s", closed)
    assert await box.state(entry) == "admitted"


async def test_a_parked_turn_that_is_retried_has_no_deaths(box: InboxUnderTest) -> None:
    entry, _ = await begin_turn(box)
    await box.inbox.isolate(entry.id, "w")
    box.clock.at += 20
    await box.inbox.put_again(await box.inbox.find_stalled())
    await box.add_worker("x")
    again = await box.begin_admitted(entry.id, "x")
    await box.inbox.park(again.id, "x", 1, WHY)
    await box.journal.for_tenant("acme").append("s", CLOSED)
    assert await box.inbox.retry(entry.id)
    found = await box.inbox.find(entry.id)
    assert found is not None
    assert (found.deaths, found.deaths_alone, found.error, found.turn) == (0, 0, "", 1)
    await box.check()


async def test_a_dropped_turn_says_why_it_was_parked(box: InboxUnderTest) -> None:
    entry, _ = await begin_turn(box)
    await box.inbox.park(entry.id, "w", 1, WHY)
    await box.journal.for_tenant("acme").append("s", CLOSED)
    assert await box.inbox.drop(entry.id)
    found = await box.inbox.find(entry.id)
    assert found is not None
    assert (found.state, found.error) == ("dropped", WHY)
