"""The worker: each job is done once for its key, retried, given up, taken over."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Any

import pytest
from apps.registration.tests.outbox.fakes import Clock

from holdfast.outbox import JobFailed, JobOutcome, JobRetry
from registration.outbox import Done, Handler, Worker
from registration.store import ConstraintViolated, Database, DatabaseUnavailable
from registration.store.outbox import Job, NewJob, claim_job, enqueue, find_job
from registration.store.tasks import list_tasks


class Script:
    """A handler that gives one outcome after the other."""

    def __init__(self, *outcomes: JobOutcome | Exception) -> None:
        self.outcomes = list(outcomes)
        self.seen: list[str] = []

    async def __call__(self, job: Job) -> JobOutcome:
        self.seen.append(job.key)
        outcome = self.outcomes.pop(0) if self.outcomes else Done({"id": "1"})
        if isinstance(outcome, Exception):
            raise outcome
        return outcome


async def put(database: Database, key: str, due_at: float = 0.0) -> None:
    new = NewJob(key, "sms", {"template": "paid"}, registration_id="r")
    await database.transact(lambda tx: enqueue(tx, new, 0.0, due_at))


async def look_up(database: Database, key: str) -> Job:
    job = await database.read(lambda tx: find_job(tx, key))
    assert job is not None
    return job


async def test_a_job_is_done_with_its_key(database: Database) -> None:
    script = Script(Done({"id": "SM1"}))
    finished: list[Any] = []
    handler = Handler(script, finish=lambda tx, job, outcome, now: finished.append(outcome))
    await put(database, "r/paid")
    worker = Worker(database, {"sms": handler}, Clock(10))
    assert await worker.drain() == 1
    job = await look_up(database, "r/paid")
    assert (job.state, job.result, script.seen) == ("sent", {"id": "SM1"}, ["r/paid"])
    assert finished == [Done({"id": "SM1"})]


async def test_three_retries_wait_longer_each_time_and_then_the_office_is_told(
    database: Database,
) -> None:
    script = Script(*[JobRetry("sms: busy")] * 9)
    await put(database, "r/paid")
    clock = Clock(0)
    worker = Worker(database, {"sms": Handler(script, waits=(60, 300, 1800))}, clock)
    attempts = []
    for second in range(0, 2400, 20):
        clock.now = float(second)
        if await worker.drain():
            attempts.append(second)
    assert attempts == [0, 60, 360, 2160]
    job = await look_up(database, "r/paid")
    assert (job.state, job.reason) == ("failed", "sms: busy")
    (task,) = await database.read(list_tasks)
    assert (task.kind, task.registration_id) == ("refused", "r")
    assert task.reason == "sms: it did not happen (sms: busy; 4 attempts)"


async def test_a_provider_may_ask_to_wait_longer(database: Database) -> None:
    await put(database, "a")
    clock = Clock(0)
    worker = Worker(database, {"sms": Handler(Script(JobRetry("busy", after=500)))}, clock)
    await worker.drain()
    assert (await look_up(database, "a")).due_at == 500


@pytest.mark.parametrize(
    ("outcome", "kind"),
    [(JobFailed("refused"), "refused"), (JobFailed("no answer", in_doubt=True), "in_doubt")],
)
async def test_a_failure_is_a_task(database: Database, outcome: JobFailed, kind: str) -> None:
    await put(database, "a")
    await Worker(database, {"sms": Handler(Script(outcome))}, Clock(0)).drain()
    (task,) = await database.read(list_tasks)
    assert (task.kind, task.key) == (kind, "a/failed")


async def test_the_job_of_a_killed_worker_is_done_by_another(database: Database) -> None:
    await put(database, "a")
    await database.transact(lambda tx: claim_job(tx, ("sms",), "killed", 0, 60))
    script, clock = Script(), Clock(59)
    worker = Worker(database, {"sms": Handler(script)}, clock)
    assert await worker.drain() == 0
    clock.now = 60
    assert await worker.drain() == 1
    assert (script.seen, (await look_up(database, "a")).attempts) == (["a"], 2)


async def test_a_job_that_ends_every_process_is_given_up(database: Database) -> None:
    await put(database, "a")
    script = Script()
    clock = Clock(0)
    for death in range(7):
        clock.now = death * 100.0
        await database.transact(lambda tx: claim_job(tx, ("sms",), "x", clock.now, clock.now + 60))
    clock.now = 1000
    await Worker(database, {"sms": Handler(script)}, clock).drain()
    (task,) = await database.read(list_tasks)
    assert (task.kind, script.seen) == ("in_doubt", [])


async def test_a_worker_that_lost_its_job_saves_nothing(database: Database) -> None:
    await put(database, "a")
    clock = Clock(0)

    async def perform(job: Job) -> JobOutcome:
        if clock.now == 0:
            clock.now = 61  # this process was paused; meanwhile another does the job
            await other.drain()
            return JobFailed("too late")
        return Done({"by": "other"})

    other = Worker(database, {"sms": Handler(perform)}, clock)
    await Worker(database, {"sms": Handler(perform)}, clock).drain()
    job = await look_up(database, "a")
    assert (job.state, job.result) == ("sent", {"by": "other"})
    assert await database.read(list_tasks) == []


async def test_a_mistake_in_a_handler_is_retried_and_quotes_nothing(
    database: Database, caplog: pytest.LogCaptureFixture
) -> None:
    await put(database, "a")
    script = Script(ValueError("Zebedee Quackenbush"))
    with caplog.at_level(logging.DEBUG):
        await Worker(database, {"sms": Handler(script)}, Clock(0)).drain()
    job = await look_up(database, "a")
    assert (job.state, job.reason) == ("queued", "a mistake of this program (ValueError)")
    assert "Zebedee" not in caplog.text
    assert "ValueError" in caplog.text


@pytest.mark.parametrize(
    "error", [KeyError("Zebedee Quackenbush"), ConstraintViolated("registrations.link_hash")]
)
async def test_a_mistake_in_what_follows_is_a_task_and_stops_no_worker(
    database: Database, error: Exception
) -> None:
    def finish(tx: Any, job: Job, outcome: JobOutcome, now: float) -> None:
        tx.execute("UPDATE outbox SET kind = 'half done'")
        raise error

    for key in ("a", "b"):
        await put(database, key)
    assert await Worker(database, {"sms": Handler(Script(), finish)}, Clock(0)).drain() == 2
    tasks = await database.read(list_tasks)
    assert [(task.key, task.kind) for task in tasks] == [
        ("a/failed", "in_doubt"),
        ("b/failed", "in_doubt"),
    ]
    assert "Zebedee" not in repr(tasks)
    assert (await look_up(database, "a")).kind == "sms"


async def test_a_slow_handler_is_given_up(database: Database) -> None:
    async def perform(job: Job) -> JobOutcome:
        await asyncio.Event().wait()
        return Done()

    await put(database, "a")
    await Worker(database, {"sms": Handler(perform, time_limit=0.01)}, Clock(0)).drain()
    assert (await look_up(database, "a")).reason == "it took too long"


@pytest.mark.slow  # takes half a second or more
async def test_a_job_that_takes_longer_than_its_lease_is_not_taken_by_another(
    database: Database,
) -> None:
    seen: list[str] = []

    async def perform(job: Job) -> JobOutcome:
        seen.append(job.key)
        await asyncio.sleep(3.0)
        return Done()

    await put(database, "a")
    workers = [Worker(database, {"sms": Handler(perform)}, time.time, lease=2.0) for _ in range(2)]
    first = asyncio.create_task(workers[0].drain())
    await asyncio.sleep(2.5)
    assert await workers[1].run_once() is False
    assert (await first, seen) == (1, ["a"])


async def test_workers_of_several_processes_do_each_job_once(database: Database) -> None:
    for n in range(30):
        await put(database, f"job-{n:02}")
    script = Script()
    workers = [Worker(database, {"sms": Handler(script)}, Clock(0)) for _ in range(4)]
    await asyncio.gather(*(worker.drain() for worker in workers))
    assert sorted(script.seen) == [f"job-{n:02}" for n in range(30)]


async def test_a_running_worker_is_woken_and_stopped(database: Database) -> None:
    script, done = Script(), asyncio.Event()
    finish = Handler(
        script, finish=lambda tx, job, outcome, now: loop.call_soon_threadsafe(done.set)
    )
    loop = asyncio.get_running_loop()
    worker = Worker(database, {"sms": finish}, Clock(0))
    running = asyncio.ensure_future(worker.run(at_once=2))
    await put(database, "a")
    worker.wake()
    await asyncio.wait_for(done.wait(), 60)
    worker.stop()
    await asyncio.wait_for(running, 60)
    assert script.seen == ["a"]


@pytest.mark.parametrize(
    "error", [DatabaseUnavailable("its disk is full"), ValueError("Jack Smith")]
)
async def test_a_database_that_fails_stops_no_worker(
    database: Database,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    error: Exception,
) -> None:
    script, away = Script(), asyncio.Event()
    transact = database.transact

    async def fail(work: Any) -> Any:
        away.set()
        raise error

    monkeypatch.setattr(database, "transact", fail)
    worker = Worker(database, {"sms": Handler(script)}, Clock(0))
    running = asyncio.ensure_future(worker.run(at_once=1))
    await asyncio.wait_for(away.wait(), 60)
    monkeypatch.setattr(database, "transact", transact)
    await put(database, "a")
    worker.wake()
    while not script.seen:
        await asyncio.sleep(0.01)
    worker.stop()
    await asyncio.wait_for(running, 60)
    assert "Jack" not in caplog.text
