"""What workers and people do with an entry, in each of its states, and what an answer in the journal does."""

from __future__ import annotations

import asyncio

import pytest
from tests.journal.inbox.queued_turns import InboxUnderTest

from holdfast.core.events import QuestionAnswered, Status, TurnClosed
from holdfast.errors import ConflictError
from holdfast.journal.inbox.driving import NEVER
from holdfast.journal.inbox.entries import EntryState, InboxEntry
from holdfast.journal.inbox.inbox import InboxChanges
from holdfast.journal.inbox.queue_limits import QueueLimits
from holdfast.journal.inbox.sweeping import StalledEntry

STATES = [state.value for state in EntryState]


async def make_entry(box: InboxUnderTest, state: str, session: str = "s") -> InboxEntry:
    """An entry in a state."""
    await box.add_worker()
    at = box.clock.at + 100 if state == "scheduled" else 0.0
    if state == "blocked":
        await box.submit(session)
    entry = await box.submit(session, not_before=at)
    if state not in ("scheduled", "blocked", "ready"):
        await box.admit()
        entry = await box.begin_admitted(entry.id)
    if state not in ("scheduled", "blocked", "ready", "admitted"):
        error = "No." if state == "failed" else ""
        due_at = box.clock.at + 100 if state == "postponed" else 0.0
        await box.end(entry, EntryState(state), turn=1, error=error, due_at=due_at)
    assert await box.state(entry) == state
    return entry


async def make_entries(box: InboxUnderTest) -> list[tuple[str, InboxEntry]]:
    """An entry in each state, each with a session of its own; nothing more begins."""
    await box.inbox.set_limits("all", QueueLimits())
    order = sorted(STATES, key=("ready", "blocked", "scheduled").__contains__)
    entries = [(state, await make_entry(box, state, f"of {state}")) for state in order]
    await box.inbox.set_limits("all", QueueLimits(is_paused=True))
    return entries


async def test_a_second_delivery_does_nothing(box: InboxUnderTest) -> None:
    entry = await make_entry(box, "admitted")
    await box.add_worker("other")
    assert (entry.worker, entry.deliveries) == ("w", 1)
    assert await box.inbox.begin(entry.id, "other") is None
    again = await box.inbox.begin(entry.id, "w")  # the answer of the database was lost
    assert again is not None
    await box.end(entry)
    for worker in ("w", "other"):
        assert await box.inbox.begin(entry.id, worker) is None


async def test_a_turn_ends_whatever_characters_its_error_has(box: InboxUnderTest) -> None:
    """PostgreSQL stores no NUL and no half of a pair: such a turn could not end, nor what ended with it."""
    entry = await make_entry(box, "admitted")
    await box.end(entry, EntryState.FAILED, error="a\0b\ud800c\x1b[2J")
    found = await box.inbox.find(entry.id)
    assert found is not None
    assert (found.state, found.error) == (EntryState.FAILED, r"a\x00b\ud800c\x1b[2J")


@pytest.mark.slow  # takes half a second or more
async def test_only_what_was_admitted_can_begin(box: InboxUnderTest) -> None:
    for state, entry in await make_entries(box):
        assert (await box.inbox.begin(entry.id, "w") is None) is (state != "admitted")
        assert await box.state(entry) == state
    assert await box.inbox.begin(10_000, "w") is None


@pytest.mark.slow  # takes half a second or more
async def test_the_end_lets_the_next_turn_of_the_session_begin(box: InboxUnderTest) -> None:
    first = await make_entry(box, "admitted")
    second, third = await box.submit("s"), await box.submit("s")
    assert await box.end(first, turn=7) == [second.id]
    found = await box.inbox.find(first.id)
    assert found is not None
    assert (found.state, found.turn, found.worker, found.error) == ("done", 7, "w", "")
    assert await box.states(second, third) == ["admitted", "blocked"]
    await box.check()


async def test_a_worker_that_was_taken_over_changes_nothing(box: InboxUnderTest) -> None:
    entry = await make_entry(box, "admitted")
    box.clock.at += 20
    await box.add_worker("other")
    [stalled] = await box.inbox.find_stalled()
    assert stalled == StalledEntry(entry.id, "w")
    [job] = await box.inbox.put_again([stalled])
    assert job.id == entry.id
    taken = await box.begin_admitted(entry.id, "other")
    await box.end(entry, EntryState.FAILED)
    assert await box.inbox.hand_back(entry.id, "w") in (None, (), [])
    assert await box.state(entry) == "admitted"
    await box.end(taken)
    assert await box.state(entry) == "done"
    await box.check()


async def test_what_a_dead_worker_has_is_taken_from_it_first_and_that_is_counted(
    box: InboxUnderTest,
) -> None:
    entry = await make_entry(box, "admitted")
    await box.add_worker("other")
    box.clock.at += 14.9
    assert await box.inbox.find_stalled() == []
    box.clock.at += 0.2
    await box.add_worker("other")
    assert await box.inbox.begin(entry.id, "other") is None
    await box.inbox.put_again(await box.inbox.find_stalled())
    begun = await box.begin_admitted(entry.id, "other")
    assert (begun.deliveries, begun.deaths, begun.deaths_alone) == (2, 1, 0)
    isolated = await box.inbox.isolate(entry.id, "other")
    assert isolated is not None
    box.clock.at += 15.1
    await box.inbox.put_again(await box.inbox.find_stalled())
    await box.add_worker("third")
    last = await box.begin_admitted(entry.id, "third")
    assert (last.deaths, last.deaths_alone) == (1, 1)


@pytest.mark.slow  # takes half a second or more
@pytest.mark.parametrize("leaves", ["stops", "says goodbye"])
async def test_a_worker_that_stops_has_not_died(box: InboxUnderTest, leaves: str) -> None:
    entry = await make_entry(box, "admitted")
    (worker,) = await box.inbox.list_workers()
    if leaves == "stops":
        await box.inbox.note_worker(worker.info.mark_stopping())
    else:
        await box.inbox.remove_worker("w")
    box.clock.at += 15.1
    await box.inbox.put_again(await box.inbox.find_stalled())
    await box.add_worker("other")
    assert (await box.begin_admitted(entry.id, "other")).deaths == 0


async def test_only_entries_that_are_still_stalled_are_put_again(box: InboxUnderTest) -> None:
    await box.add_worker()
    entry = await box.submit()
    await box.admit()
    stalled = await box.inbox.find_stalled()
    assert stalled == [StalledEntry(entry.id, "")]
    assert len(await box.inbox.put_again(stalled)) == 1
    await box.begin_admitted(entry.id)
    assert await box.inbox.put_again(stalled) == []
    assert await box.inbox.find_stalled() == []


async def test_an_entry_that_is_handed_back_is_not_counted_as_a_delivery(
    box: InboxUnderTest,
) -> None:
    entry = await make_entry(box, "admitted")
    await box.add_worker("other")
    assert await box.inbox.hand_back(entry.id, "w")
    begun = await box.begin_admitted(entry.id, "other")
    assert (begun.worker, begun.deliveries) == ("other", 1)


async def test_another_try_keeps_its_place_in_the_session(box: InboxUnderTest) -> None:
    """A turn whose session was busy is not overtaken by a later one."""
    first = await make_entry(box, "admitted")
    second = await box.submit("s")
    at = box.clock.at + 5
    assert await box.end(first, EntryState.POSTPONED, due_at=at) == []
    assert await box.states(first, second) == ["postponed", "blocked"]
    await box.inbox.promote_due()
    assert await box.admit() == []
    box.clock.at = at
    await box.inbox.promote_due()
    await box.add_worker()
    assert await box.admit() == [first.id]
    assert await box.state(second) == "blocked"
    await box.check()


async def test_a_question_without_a_deadline_waits_for_ever(box: InboxUnderTest) -> None:
    entry = await make_entry(box, "admitted")
    await box.end(entry, EntryState.WAITING, turn=1)
    found = await box.inbox.find(entry.id)
    assert found is not None
    assert found.due_at == NEVER
    box.clock.at += 10 * 365 * 86_400.0
    await box.inbox.promote_due()
    assert await box.state(entry) == "waiting"


async def test_a_question_that_nobody_answers_in_time_goes_on(box: InboxUnderTest) -> None:
    entry = await make_entry(box, "admitted")
    await box.end(entry, EntryState.WAITING, due_at=box.clock.at + 60)
    box.clock.at += 60
    await box.inbox.promote_due()
    assert await box.state(entry) == "ready"
    await box.check()


# --- people


async def test_drop_takes_out_what_has_not_begun_or_failed(box: InboxUnderTest) -> None:
    for state, entry in await make_entries(box):
        behind = await box.submit(entry.session)
        can = state in ("scheduled", "blocked", "ready", "failed", "parked")
        assert await box.inbox.drop(entry.id) is can
        assert await box.state(entry) == ("dropped" if can else state)
        is_held = state in ("blocked", "admitted", "waiting", "postponed")
        assert await box.state(behind) == ("blocked" if is_held else "ready")
        await box.check()
    assert not await box.inbox.drop(10_000)


async def test_retry_queues_again_what_failed_or_was_dropped(box: InboxUnderTest) -> None:
    for state, entry in await make_entries(box):
        can = state in ("failed", "dropped", "parked")
        assert await box.inbox.retry(entry.id) is can
        found = await box.inbox.find(entry.id)
        assert found is not None
        assert found.state == ("ready" if can else state)
        if can:
            assert (found.deliveries, found.error) == (0, "")
        await box.check()
    assert not await box.inbox.retry(10_000)


async def test_a_retry_waits_for_the_turn_that_runs(box: InboxUnderTest) -> None:
    entry = await make_entry(box, "failed")
    later = await box.submit("s")
    await box.admit()
    assert await box.inbox.retry(entry.id)
    assert await box.states(entry, later) == ["blocked", "admitted"]
    await box.end(await box.begin_admitted(later.id))
    assert await box.state(entry) == "admitted"
    await box.check()


async def test_cancel_in_each_state(box: InboxUnderTest) -> None:
    after = dict.fromkeys(("scheduled", "blocked", "ready"), "dropped")
    after |= dict.fromkeys(("waiting", "postponed"), "ready")
    entries = dict(await make_entries(box))
    for state, entry in entries.items():
        assert await box.inbox.cancel(entry.id, "ann") == after.get(state, state)
        assert await box.state(entry) == after.get(state, state)
        await box.check()
    worker = (await box.inbox.list_workers())[0].info
    assert await box.inbox.note_worker(worker) == {entries["admitted"].id: "ann"}
    await box.inbox.set_limits("all", QueueLimits())
    assert entries["waiting"].id in await box.admit()
    assert (await box.begin_admitted(entries["waiting"].id)).cancelled_by == "ann"
    assert await box.inbox.cancel(10_000) is None


async def test_a_turn_that_is_cancelled_while_it_is_about_to_wait_goes_on(
    box: InboxUnderTest,
) -> None:
    entry = await make_entry(box, "admitted")
    await box.inbox.cancel(entry.id, "ann")
    assert await box.end(entry, EntryState.WAITING) == [entry.id]
    await box.check()


async def test_a_turn_that_has_begun_is_not_dropped_between_two_deliveries(
    box: InboxUnderTest,
) -> None:
    """Its turn may be open in the journal, so that a worker has to close it."""
    entry = await make_entry(box, "admitted")
    await box.inbox.set_limits("all", QueueLimits(is_paused=True))
    await box.end(entry, EntryState.POSTPONED)
    await box.inbox.promote_due()
    assert await box.state(entry) == "ready"
    assert not await box.inbox.drop(entry.id)
    assert await box.inbox.cancel(entry.id, "ann") == "ready"
    await box.inbox.set_limits("all", QueueLimits())
    assert (await box.begin()).cancelled_by == "ann"


async def test_a_turn_that_was_handed_back_and_then_busy_is_not_dropped(
    box: InboxUnderTest,
) -> None:
    """No delivery is counted, but the turn may be open in the journal."""
    entry = await make_entry(box, "admitted")
    await box.inbox.hand_back(entry.id, "w")
    again = await box.begin_admitted(entry.id)
    await box.inbox.set_limits("all", QueueLimits(is_paused=True))
    await box.end(again, EntryState.POSTPONED, was_busy=True)
    await box.inbox.promote_due()
    found = await box.inbox.find(entry.id)
    assert found is not None
    assert (found.state, found.deliveries) == ("ready", 0)
    assert not await box.inbox.drop(entry.id)
    assert await box.inbox.cancel(entry.id, "ann") == "ready"


async def test_wake_lets_only_go_on_what_waits(box: InboxUnderTest) -> None:
    for state, entry in await make_entries(box):
        assert await box.inbox.wake(entry.id) is (state in ("waiting", "postponed"))
        assert await box.state(entry) == ("ready" if state in ("waiting", "postponed") else state)
        await box.check()
    assert not await box.inbox.wake(10_000)


async def test_old_entries_and_workers_are_deleted(box: InboxUnderTest) -> None:
    done = await make_entry(box, "done")
    box.clock.at += 100
    failed = await make_entry(box, "failed")
    ready = await box.submit()
    assert await box.inbox.prune(100.5) == 0
    box.clock.at += 1
    assert await box.inbox.prune(100.5) == 1
    assert await box.inbox.find(done.id) is None
    assert await box.states(failed, ready) == ["failed", "ready"]
    box.clock.at += 3601
    await box.inbox.prune(10_000.0)
    assert await box.inbox.list_workers() == []
    await box.check()


async def test_workers_are_listed_with_what_they_drive(box: InboxUnderTest) -> None:
    await make_entry(box, "admitted")
    await box.add_worker("idle", slots=3)
    box.clock.at += 14
    await box.add_worker("idle", slots=3)
    box.clock.at += 2
    found = {one.info.id: one for one in await box.inbox.list_workers()}
    assert (found["w"].driving, found["w"].is_alive) == (1, False)
    assert (found["idle"].driving, found["idle"].is_alive) == (0, True)
    assert found["idle"].info.slots == 3
    await box.inbox.remove_worker("w")
    assert [one.info.id for one in await box.inbox.list_workers()] == ["idle"]


# --- answers in the journal


def answer(number: int = 1) -> QuestionAnswered:
    return QuestionAnswered(f"t1.i0.tool.0.ask.{number}", 1.0, "yes")


async def wait_for_answer(box: InboxUnderTest, **changes: object) -> InboxEntry:
    await box.add_worker()
    await box.submit("s", **changes)
    entry = await box.begin()
    await box.end(entry, EntryState.WAITING, turn=1)
    return entry


async def test_an_answer_in_the_journal_lets_the_turn_go_on(box: InboxUnderTest) -> None:
    """Also one to a question of a subagent, which has a run of its own."""
    entry = await wait_for_answer(box)
    for run in ("s", "s/t1.i0.tool.2", "s/t1.i0.tool.2.again.1/t1.i3.tool.0"):
        with box.inbox.watch() as changes:
            await box.journal.for_tenant("acme").append(run, answer())
            assert await changes.wait(10.0)
        assert await box.state(entry) == "ready"
        await box.check()
        assert await box.admit() == [entry.id]
        await box.end(await box.begin_admitted(entry.id), EntryState.WAITING, turn=1)
        assert await box.state(entry) == "waiting"


async def test_tasks_that_share_a_watch_are_all_woken(box: InboxUnderTest) -> None:
    with box.inbox.watch() as changes:
        other = changes.share()
        await box.submit("s")
        assert await changes.wait(10.0)
        assert await other.wait(10.0)
        changes.note()
        assert await other.wait(10.0)


def test_a_change_after_the_end_of_a_loop_is_no_error() -> None:
    async def make_changes() -> InboxChanges:
        return InboxChanges()

    asyncio.run(make_changes()).note()


async def test_a_turn_that_ended_elsewhere_does_not_wait_for_ever(box: InboxUnderTest) -> None:
    """Somebody abandoned it, and the session would be stuck."""
    entry = await wait_for_answer(box)
    closed = TurnClosed("t1.closed", 2.0, Status.CANCELLED)
    await box.journal.for_tenant("acme").append("s", closed)
    assert await box.state(entry) == "ready"
    await box.check()


async def test_an_answer_of_another_session_or_tenant_changes_nothing(box: InboxUnderTest) -> None:
    entry = await wait_for_answer(box)
    for tenant, run in (("acme", "t"), ("other", "s"), ("acme", "s2/t1.i0.tool.0"), ("acme", "ss")):
        await box.journal.for_tenant(tenant).append(run, answer())
    assert await box.state(entry) == "waiting"


async def test_an_answer_that_is_not_saved_lets_nothing_go_on(box: InboxUnderTest) -> None:
    journal = box.journal.for_tenant("acme")
    await journal.append("s", answer())
    entry = await wait_for_answer(box)
    with pytest.raises(ConflictError):
        await journal.append("s", answer())
    assert await box.state(entry) == "waiting"
    await box.check()


async def test_an_answer_before_the_entry_waits_is_not_lost(box: InboxUnderTest) -> None:
    """The question is in the journal, and the worker is about to say that the turn waits."""
    await box.add_worker()
    await box.submit("s")
    entry = await box.begin()
    await box.journal.for_tenant("acme").append("s", answer())
    assert await box.end(entry, EntryState.WAITING, turn=1) == [entry.id]
    again = await box.begin_admitted(entry.id)
    assert await box.end(again, EntryState.WAITING, turn=1) == []
    assert await box.state(entry) == "waiting"
    await box.check()


async def test_an_answer_is_forgotten_when_the_turn_ends(box: InboxUnderTest) -> None:
    await box.add_worker()
    await box.submit("s")
    entry = await box.begin()
    await box.journal.for_tenant("acme").append("s", answer())
    assert await box.end(entry) == []
    assert await box.state(entry) == "done"
    await box.check()
