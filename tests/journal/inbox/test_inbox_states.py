"""Any order of acts leaves the inbox as a small model in Python says: states, counts, order and limits."""

from __future__ import annotations

from collections import Counter
from typing import TypeVar

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.journal.inbox.queued_turns import (
    SetClock,
    check_tables,
    make_submission,
    make_worker,
    read_tables,
)

from holdfast.journal.inbox.admitting import admit_turns
from holdfast.journal.inbox.driving import (
    EndedEntry,
    EntryOutcome,
    begin_entry,
    end_entries,
    hand_back_entry,
)
from holdfast.journal.inbox.entries import EntryState, InboxEntry
from holdfast.journal.inbox.inbox_errors import QueueFullError
from holdfast.journal.inbox.queue_limits import QueueLimits
from holdfast.journal.inbox.sqlite_inbox import MemoryInboxStore, perform_all
from holdfast.journal.inbox.statements import Statement, Transaction
from holdfast.journal.inbox.steering import (
    cancel_entry,
    drop_entry,
    find_entry,
    note_answer,
    retry_entry,
    wake_entry,
)
from holdfast.journal.inbox.submitting import submit_turn
from holdfast.journal.inbox.sweeping import promote_due

T = TypeVar("T")
RUNNING, QUEUED = 2, 6
RESTING = ("waiting", "postponed")
ACTIVE = ("ready", "admitted", *RESTING)

tenants = st.sampled_from(["a", "b"])
sessions = st.sampled_from(["s", "t", "u"])
picks = st.integers(0, 10_000)


class Known:
    """What the model knows of an entry."""

    def __init__(self, number: int, tenant: str, session: str, due_at: float) -> None:
        self.number = number
        self.place = tenant, session
        self.tenant = tenant
        self.state = "ready"
        self.due_at = due_at
        self.has_begun = False
        self.is_begun = False  # a worker has it
        self.is_answered = False
        self.is_cancelled = False


class InboxMachine(RuleBasedStateMachine):
    """The inbox in memory, beside the model."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = SetClock()
        self.connection = MemoryInboxStore()._connection
        self.known: dict[int, Known] = {}
        self.requests = 0

    def perform(self, transaction: Transaction[T]) -> T:
        made = [transaction]
        return perform_all(self.connection, made.pop, self.clock)[0]

    def teardown(self) -> None:
        self.connection.close()

    # --- the model

    def active(self, place: tuple[str, str]) -> list[Known]:
        return [one for one in self.known.values() if one.place == place and one.state in ACTIVE]

    def unblock(self, place: tuple[str, str]) -> None:
        waiting = [
            one for one in self.known.values() if one.place == place and one.state == "blocked"
        ]
        if waiting and not self.active(place):
            min(waiting, key=lambda one: one.number).state = "ready"

    def queued(self, tenant: str) -> int:
        states = ("scheduled", "blocked", "ready")
        return sum(one.tenant == tenant and one.state in states for one in self.known.values())

    def pick(self, number: int, *states: str) -> Known | None:
        """Any entry, but mostly one in one of these states."""
        found = [one for one in self.known.values() if number % 4 == 0 or one.state in states]
        found = found or list(self.known.values())
        return found[number // 4 % len(found)] if found else None

    # --- acts

    @initialize()
    def set_limits(self) -> None:
        limits = QueueLimits(running=RUNNING, queued=QUEUED)
        text = msgspec.json.encode(limits).decode()
        self.connection.execute("INSERT INTO holdfast_inbox_limits VALUES ('tenant', ?)", [text])

    @rule(
        places=st.lists(
            st.tuples(tenants, sessions, st.sampled_from([0, 0, 30])), min_size=2, max_size=6
        )
    )
    def submit_some(self, places: list[tuple[str, str, int]]) -> None:
        for tenant, session, delay in places:
            self.submit(tenant, session, delay)

    def submit(self, tenant: str, session: str, delay: int) -> None:
        self.requests += 1
        due_at = self.clock.at + delay if delay else 0.0
        submission = make_submission(session, f"r{self.requests}", tenant=tenant, not_before=due_at)
        is_full = self.queued(tenant) >= QUEUED
        try:
            entry = self.perform(submit_turn(submission))
        except QueueFullError:
            assert is_full
            return
        assert not is_full
        assert self.perform(submit_turn(submission)) == entry
        known = Known(entry.id, tenant, session, due_at)
        if delay:
            known.state = "scheduled"
        elif self.active(known.place):
            known.state = "blocked"
        self.known[entry.id] = known

    @rule(slots=st.sampled_from([0, 1, 2, 5, 5]), begins=st.booleans())
    def admit(self, slots: int, begins: bool) -> None:
        info = msgspec.json.encode(make_worker("w", slots)).decode()
        self.connection.execute(
            "INSERT INTO holdfast_workers (id, info, seen_at, alive_until) VALUES ('w', ?, 0, ?)"
            " ON CONFLICT (id) DO UPDATE SET info = excluded.info, alive_until = excluded.alive_until",
            [info, self.clock.at + 15],
        )
        before = Counter(one.tenant for one in self.known.values() if one.state == "admitted")
        ready = {one.number for one in self.known.values() if one.state == "ready"}
        jobs = [job.id for job in self.perform(admit_turns()).jobs]
        assert set(jobs) <= ready
        assert len(jobs) == len(set(jobs))
        for number in jobs:
            self.known[number].state = "admitted"
            tenant = self.known[number].tenant
            ready -= {number}
            assert all(one > number for one in ready if self.known[one].tenant == tenant)
        self.check_admission(slots, before, len(jobs))
        for number in jobs if begins else ():
            self.begin_one(self.known[number])

    def check_admission(self, slots: int, before: Counter[str], admitted: int) -> None:
        """As much as possible was admitted, and the tenant with the fewest first."""
        after = Counter(one.tenant for one in self.known.values() if one.state == "admitted")
        assert all(after[tenant] <= max(RUNNING, before[tenant]) for tenant in "ab")
        room = max(slots - before.total(), 0)
        ready = [
            one.tenant
            for one in self.known.values()
            if one.state == "ready" and after[one.tenant] < RUNNING
        ]
        assert admitted <= room
        assert admitted == room or not ready
        for tenant in ready:  # nobody who began with as few has got more
            for other in "ab":
                if after[other] > before[other]:
                    assert after[other] <= after[tenant] + 1

    @rule(number=picks)
    def begin(self, number: int) -> None:
        known = self.pick(number, "admitted")
        if known is not None:
            self.begin_one(known)

    def begin_one(self, known: Known) -> None:
        info = msgspec.json.encode(make_worker("w")).decode()
        self.connection.execute(
            "INSERT INTO holdfast_workers (id, info, seen_at, alive_until) VALUES ('w', ?, 0, ?)"
            " ON CONFLICT (id) DO UPDATE SET alive_until = excluded.alive_until",
            [info, self.clock.at + 15],
        )
        entry = self.perform(begin_entry(known.number, "w"))
        assert (entry is not None) is (known.state == "admitted")
        if entry is not None:
            known.is_begun = known.has_begun = True
            known.is_answered = False

    @rule(
        numbers=st.lists(picks, min_size=1, max_size=3),
        state=st.sampled_from(["done", "failed", "waiting", "postponed"]),
    )
    def end(self, numbers: list[int], state: str) -> None:
        """Some end at once: as if one after the other."""
        found = {one.number: one for n in numbers if (one := self.pick(n, "admitted"))}
        if not found:
            return
        self.stop_workers()
        due_at = self.clock.at + 60
        outcome = EntryOutcome(state=EntryState(state), due_at=due_at)
        self.perform(end_entries([EndedEntry(number, outcome) for number in found], "w"))
        for known in found.values():
            self.note_end(known, state, due_at)

    def note_end(self, known: Known, state: str, due_at: float) -> None:
        if known.state == "admitted" and known.is_begun:
            known.is_begun = False
            known.state = state
            known.due_at = due_at
            if known.state in RESTING and (known.is_answered or known.is_cancelled):
                known.state = "ready"
            if known.state in ("done", "failed"):
                known.is_cancelled = False
                self.unblock(known.place)

    def stop_workers(self) -> None:
        """No slots, so that the end of an entry admits nothing."""
        self.connection.execute("DELETE FROM holdfast_workers")

    @rule(number=picks)
    def hand_back(self, number: int) -> None:
        known = self.pick(number, "admitted")
        if known is not None:
            was_begun = known.state == "admitted" and known.is_begun
            assert bool(self.perform(hand_back_entry(known.number, "w"))) is was_begun
            known.is_begun = False

    @rule(number=picks)
    def drop(self, number: int) -> None:
        known = self.pick(number, "scheduled", "blocked", "ready", "failed")
        if known is not None:
            is_queued = known.state in ("scheduled", "blocked", "ready") and not known.has_begun
            can = is_queued or known.state == "failed"
            assert self.perform(drop_entry(known.number)) is can
            if can:
                known.state = "dropped"
                self.unblock(known.place)

    @rule(number=picks)
    def retry(self, number: int) -> None:
        known = self.pick(number, "failed", "dropped")
        if known is not None:
            can = known.state in ("failed", "dropped")
            assert self.perform(retry_entry(known.number)) is can
            if can:
                known.state, known.has_begun = "blocked", False
                self.unblock(known.place)

    @rule(number=picks)
    def wake(self, number: int) -> None:
        known = self.pick(number, *RESTING)
        if known is not None:
            can = known.state in RESTING
            assert self.perform(wake_entry(known.number)) is can
            known.state = "ready" if can else known.state

    @rule(number=picks)
    def cancel(self, number: int) -> None:
        known = self.pick(number, "ready", "admitted", "waiting")
        if known is None:
            return
        result = self.perform(cancel_entry(known.number, "ann"))
        if known.state in ("scheduled", "blocked", "ready") and not known.has_begun:
            known.state = "dropped"
            self.unblock(known.place)
        elif known.state in ("ready", "admitted", *RESTING):
            known.is_cancelled = True
            known.state = "ready" if known.state in RESTING else known.state
        assert result == known.state

    @rule(tenant=tenants, session=sessions)
    def answer(self, tenant: str, session: str) -> None:
        self.perform(note_answer(tenant, session))
        for known in self.active((tenant, session)):
            if known.state in RESTING:
                known.state = "ready"
            elif known.state == "admitted":
                known.is_answered = True

    @rule(seconds=st.sampled_from([1, 40]))
    def wait(self, seconds: int) -> None:
        self.clock.at += seconds
        self.perform(promote_due())
        due = [one for one in self.known.values() if one.due_at <= self.clock.at]
        for known in due:
            if known.state == "scheduled":
                known.state = "blocked"
        for known in due:
            self.unblock(known.place)
            if known.state in RESTING:
                known.state = "ready"

    # --- what must hold

    def entry(self, known: Known) -> InboxEntry:
        found = self.perform(find_entry(known.number))
        assert found is not None
        return found

    @invariant()
    def the_tables_are_those_of_the_model(self) -> None:
        rows = self.perform(_read_states())
        assert rows == {one.number: one.state for one in self.known.values()}
        check_tables(self.perform(read_tables()), RUNNING)

    @precondition(lambda self: self.known)
    @invariant()
    def a_turn_that_was_cancelled_says_so(self) -> None:
        for known in self.known.values():
            if known.state in ACTIVE:
                assert (self.entry(known).cancelled_by is not None) is known.is_cancelled


def _read_states() -> Transaction[dict[int, str]]:
    rows = yield Statement("SELECT id, state FROM holdfast_inbox")
    return {int(str(number)): str(state) for number, state in rows}


InboxMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=40)
TestInbox = InboxMachine.TestCase
