"""Many processes and connections use one inbox in PostgreSQL, and after each commit its tables are right."""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence

import pytest
from tests.journal.inbox.queued_turns import (
    check_tables,
    make_submission,
    make_worker,
    read_tables,
)
from tests.postgres_server import PostgresServer

from holdfast import PostgresJournal
from holdfast.core.events import QuestionAnswered
from holdfast.journal.inbox.driving import EndedEntry, EntryOutcome
from holdfast.journal.inbox.entries import EntryState, InboxEntry
from holdfast.journal.inbox.inbox import Inbox
from holdfast.journal.inbox.inbox_errors import QueueFullError
from holdfast.journal.inbox.opening_inbox import open_inbox
from holdfast.journal.inbox.queue_limits import QueueLimits

TENANTS = ("a", "b", "c")
RUNNING = 3
SECONDS = 90.0 if os.environ.get("HOLDFAST_FULL") else 3.0

WANTED = {"submitted", "begun", "done", "waiting", "postponed", "failed", "answered", "checked"}


@pytest.mark.slow  # starts eight processes
def test_one_request_of_eight_processes_is_one_entry(url: str) -> None:
    with PostgresJournal(url):
        pass
    bodies = ["[1]"] * 6 + ["[2]"] * 2
    program = [sys.executable, "-m", "tests.journal.inbox.submitting_process", url, "s", "r"]
    processes = [
        subprocess.Popen([*program, body], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for body in bodies
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    results = [process.communicate(timeout=60)[0].strip() for process in processes]
    accepted = {result for result in results if result != "refused"}
    assert len(accepted) == 1
    wins_first = [result != "refused" for result in results]
    assert wins_first in ([True] * 6 + [False] * 2, [False] * 6 + [True] * 2)


@pytest.mark.slow  # takes half a second or more
async def test_many_that_submit_at_once_do_not_pass_the_limit_of_all_tenants(url: str) -> None:
    """Each submission sees the turns of those before it, also of other tenants."""
    journals = [PostgresJournal(url) for _ in range(4)]
    boxes = [open_inbox(journal) for journal in journals]
    await boxes[0].set_limits("all", QueueLimits(queued=20))

    async def submit(number: int) -> bool:
        try:
            await boxes[number % 4].submit(
                make_submission(f"s{number}", f"r{number}", tenant=f"t{number % 10}")
            )
        except QueueFullError as error:
            return error.scope != "all tenants"
        return True

    try:
        accepted = await asyncio.gather(*(submit(number) for number in range(60)))
        assert sum(accepted) == 20
        assert sum(depth.count for depth in await boxes[0].count_entries()) == 20
        check_tables(await boxes[0]._store.perform(read_tables))
    finally:
        for journal in journals:
            journal.close()


class Crowd:
    """Submitters, workers, people and answers, on connections of their own."""

    def __init__(self, seed: int, seconds: float) -> None:
        self.rng = random.Random(seed)
        self.end = time.monotonic() + seconds
        self.latest_end = self.end + 45
        self.steps = Counter[str]()
        self.known: list[tuple[str, str]] = []
        self.ids: list[int] = []

    @property
    def is_open(self) -> bool:
        """Whether the time is not over, or something was not done yet on a busy machine."""
        now = time.monotonic()
        return now < self.end or (now < self.latest_end and bool(WANTED - self.steps.keys()))

    async def submit(self, inbox: Inbox, name: str) -> None:
        number = 0
        while self.is_open:
            number += 1
            tenant, session = self.rng.choice(TENANTS), f"s{self.rng.randrange(4)}"
            later = time.time() + 0.1 if self.rng.random() < 0.2 else 0.0
            entry = await inbox.submit(
                make_submission(
                    session,
                    f"{name}.{number}",
                    tenant=tenant,
                    agent=self.rng.choice(("cook", "baker")),
                    priority=self.rng.randrange(3),
                    not_before=later,
                )
            )
            self.known.append((tenant, session))
            self.ids.append(entry.id)
            self.steps["submitted"] += 1
            await asyncio.sleep(0.02)

    async def work(self, inbox: Inbox, name: str) -> None:
        jobs: list[int] = []
        while self.is_open:
            await inbox.note_worker(make_worker(name, slots=8))
            jobs += [job.id for job in (await inbox.admit()).jobs]
            jobs += self.rng.sample(self.ids, min(len(self.ids), 1))  # a job that was doubled
            await inbox.promote_due()
            jobs += [job.id for job in await inbox.put_again(await inbox.find_stalled())]
            todo, jobs = dict.fromkeys(jobs), []
            for entry_id in todo:
                entry = await inbox.begin(entry_id, name)
                if entry is not None:
                    self.steps["begun"] += 1
                    jobs += await self.finish(inbox, entry)

    async def finish(self, inbox: Inbox, entry: InboxEntry) -> Sequence[int]:
        luck = self.rng.random()
        if luck < 0.1:
            return [entry.id] if await inbox.hand_back(entry.id, entry.worker) else []
        state = self.rng.choice(
            (EntryState.DONE, EntryState.DONE, EntryState.WAITING, EntryState.POSTPONED)
        )
        state = EntryState.FAILED if luck > 0.9 else state
        outcome = EntryOutcome(state=state, due_at=time.time() + 0.05, turn=1)
        self.steps[state.value] += 1
        admission = await inbox.end([EndedEntry(entry.id, outcome)], entry.worker)
        return [job.id for job in admission.jobs]

    async def steer(self, inbox: Inbox) -> None:
        acts = (inbox.cancel, inbox.drop, inbox.retry, inbox.wake)
        while self.is_open:
            if self.ids:
                act = self.rng.choice(acts)
                if await act(self.rng.choice(self.ids[-30:])):
                    self.steps[act.__name__] += 1
            await asyncio.sleep(0.02)

    async def answer(self, journal: PostgresJournal) -> None:
        number = 0
        while self.is_open:
            number += 1
            wanted = [self.rng.choice(self.known) for _ in range(3) if self.known]
            await asyncio.gather(
                *(
                    journal.for_tenant(tenant).append(
                        session, QuestionAnswered(f"a.{number}.{index}", 1.0, "yes")
                    )
                    for index, (tenant, session) in enumerate(wanted)
                )
            )
            self.steps["answered"] += len(wanted)
            await asyncio.sleep(0.01)

    async def check(self, inbox: Inbox) -> None:
        while self.is_open:
            check_tables(await inbox._store.perform(read_tables), RUNNING)
            self.steps["checked"] += 1
            await asyncio.sleep(0.005)


@pytest.mark.slow  # starts a program or a server
async def test_a_crowd_leaves_every_table_right_after_each_commit(
    url: str, postgres: PostgresServer
) -> None:
    journals = [PostgresJournal(url) for _ in range(4)]
    boxes = [open_inbox(journal) for journal in journals]
    await boxes[0].set_limits("tenant", QueueLimits(running=RUNNING))
    before = count_deadlocks(postgres, url)
    crowd = Crowd(7, SECONDS)
    try:
        await asyncio.gather(
            crowd.submit(boxes[0], "x"),
            crowd.submit(boxes[1], "y"),
            *(crowd.work(inbox, f"w{number}") for number, inbox in enumerate(boxes)),
            crowd.steer(boxes[2]),
            crowd.answer(journals[3]),
            crowd.check(boxes[3]),
        )
        check_tables(await boxes[0]._store.perform(read_tables), RUNNING)
    finally:
        for journal in journals:
            journal.close()
    assert not WANTED - crowd.steps.keys()
    assert count_deadlocks(postgres, url) == before


def count_deadlocks(postgres: PostgresServer, url: str) -> object:
    return postgres.rows(
        url, "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
    )
