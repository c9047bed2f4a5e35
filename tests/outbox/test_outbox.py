"""The outbox on SQLite and PostgreSQL: written with its cause, done once for its key, retried, given up, taken over."""

from __future__ import annotations

import asyncio
import logging
import signal
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.outbox.connections import Script, Shop, connect

from holdfast.errors import ConfigurationError, OutboxUnavailableError
from holdfast.outbox import (
    DbapiOutboxStore,
    JobDone,
    JobFailed,
    JobHandler,
    JobRetry,
    Outbox,
    OutboxJob,
    OutboxWorker,
)

ROOT = Path(__file__).parents[2]


def script(*outcomes: Any) -> Script:
    return Script(*outcomes, otherwise=JobDone)


@pytest.fixture(params=["sqlite", "postgres"])
async def shop(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Shop]:
    if request.param == "sqlite":
        address = str(tmp_path / "shop.db")
    else:
        address = request.getfixturevalue("postgres").new_url()
    shop = Shop(address)
    shop.make_tables()
    yield shop
    await shop.close()


async def test_a_job_is_written_with_its_cause_or_not_at_all(shop: Shop) -> None:
    connection = connect(shop.address)
    for name, is_kept in (("lamp", False), ("chair", True)):
        cursor = connection.cursor()
        cursor.execute(f"INSERT INTO orders VALUES ('{name}')")
        cursor.execute(*shop.outbox.insert(f"{name}/mail", "mail", {"order": name}))
        (connection.commit if is_kept else connection.rollback)()
    connection.close()
    seen: list[OutboxJob] = []

    async def perform(job: OutboxJob) -> JobDone:
        seen.append(job)
        return JobDone({"id": 1})

    assert await shop.worker(JobHandler(perform)).drain() == 1
    assert [(job.key, job.payload, job.attempts) for job in seen] == [
        ("chair/mail", {"order": "chair"}, 1)
    ]
    assert "order" not in repr(seen)
    assert shop.states() == {"chair/mail": ("done", 1, None)}
    assert shop.change(shop.outbox.count()) == [("mail", "done", 1)]


async def test_a_key_that_is_known_is_not_written_again(shop: Shop) -> None:
    shop.put("a")
    performed = script()
    worker = shop.worker(JobHandler(performed))
    await worker.drain()
    shop.put("a")
    assert await worker.drain() == 0
    assert performed.seen == ["a"]


async def test_a_job_waits_for_its_time(shop: Shop) -> None:
    shop.put("later", due_at=10.0)
    shop.put("now")
    performed = script()
    worker = shop.worker(JobHandler(performed))
    await worker.drain()
    assert performed.seen == ["now"]
    shop.clock.now = 10.0
    await worker.drain()
    assert performed.seen == ["now", "later"]


async def test_no_job_waits_longer_because_the_clock_was_set_back(shop: Shop) -> None:
    """What is due at once stays so, a wait and a lease end after their seconds, and a time of day stays one."""
    hours = 5 * 3600.0
    shop.clock.now = hours
    shop.put("busy", "lost")
    shop.put("dated", due_at=hours + 10)
    performed = script(JobRetry("busy"), JobDone())
    worker = shop.worker(JobHandler(performed, waits=(60.0,)), lease=30.0)
    assert await worker.run_once()
    assert await shop.stores[0].claim(["mail"], hours, hours + 30.0) is not None  # its process dies
    shop.put("at once")
    shop.clock.now = 100.0
    await worker.drain()
    assert performed.seen == ["busy", "at once"]
    for now in (129.0, 131.0, 159.0, 161.0, hours + 9, hours + 11):
        shop.clock.now = now
        before = len(performed.seen)
        await worker.drain()
        performed.seen[before:] = [f"{now:g} {key}" for key in performed.seen[before:]]
    assert performed.seen[2:] == ["131 lost", "161 busy", f"{hours + 11:g} dated"]


async def test_a_lease_that_is_renewed_after_the_clock_was_set_back_is_not_lost(shop: Shop) -> None:
    shop.clock.now = 7200.0
    shop.put("a")
    shop.worker(JobHandler(script()))
    store = shop.stores[0]
    job = await store.claim(["mail"], 7200.0, 7260.0)
    assert job is not None
    assert await store.claim(["mail"], 10.0, 70.0) is None  # it is still that of the first
    await store.renew(job, 20.0, 80.0)
    assert await store.claim(["mail"], 79.0, 139.0) is None
    assert await store.record(job, JobDone(), 79.0, None)


async def test_workers_whose_clocks_differ_a_little_do_each_job_once(shop: Shop) -> None:
    shop.put("a", "b")
    shop.worker(JobHandler(script()))
    shop.worker(JobHandler(script()))
    ahead, behind = shop.stores
    first = await ahead.claim(["mail"], 2.0, 62.0)
    second = await behind.claim(["mail"], 0.5, 60.5)
    assert {job.key for job in (first, second) if job} == {"a", "b"}
    assert await behind.claim(["mail"], 30.0, 90.0) is None
    assert await ahead.claim(["mail"], 31.5, 91.5) is None


async def test_a_job_is_tried_again_and_is_a_dead_letter_in_the_end(shop: Shop) -> None:
    shop.put("a")
    performed = script(JobRetry("busy"), JobRetry("busy", after=500.0), JobRetry("busy"))
    finished: list[Any] = []
    handler: JobHandler[Any, Any] = JobHandler(
        performed, lambda _connection, _job, outcome, _now: finished.append(outcome), (60, 300)
    )
    worker = shop.worker(handler)
    times = []
    for second in range(0, 1000, 20):
        shop.clock.now = float(second)
        if await worker.drain():
            times.append(second)
    assert times == [0, 60, 560]
    assert shop.states() == {"a": ("failed", 3, "busy")}
    assert finished == [JobFailed("busy")]
    assert shop.change(shop.outbox.list_dead_letters()) == [("a", "mail", 3, "busy")]
    shop.change(shop.outbox.requeue("a"))
    await worker.drain()
    assert shop.states() == {"a": ("done", 1, None)}
    assert shop.change(shop.outbox.list_dead_letters()) == []


async def test_a_reason_may_have_any_character(shop: Shop) -> None:
    """It quotes what a server says, and PostgreSQL stores no NUL: the job would begin again after each lease."""
    shop.put("a")
    await shop.worker(JobHandler(script(JobFailed("no\0\ud800")))).drain()
    assert shop.states() == {"a": ("failed", 1, r"no\x00\ud800")}


async def test_only_old_jobs_that_were_done_are_deleted(shop: Shop) -> None:
    shop.put("old", "failed", "queued")
    worker = shop.worker(JobHandler(script(JobFailed("refused"), JobDone(), JobRetry("busy"))))
    await worker.drain()  # in the order of their keys
    shop.change(shop.outbox.delete_done(before=0.0))
    assert set(shop.states()) == {"failed", "old", "queued"}
    shop.change(shop.outbox.delete_done(before=1.0))
    assert set(shop.states()) == {"failed", "queued"}


async def test_what_follows_is_saved_with_the_outcome_or_not_at_all(shop: Shop) -> None:
    def finish(connection: Any, job: OutboxJob, outcome: object, _now: float) -> None:
        connection.cursor().execute(f"INSERT INTO orders VALUES ('{job.key}')")
        if job.key == "bad":
            raise KeyError("Zebedee")

    def finish_failed(connection: Any, job: OutboxJob, outcome: Any, _now: float) -> None:
        connection.cursor().execute(f"INSERT INTO orders VALUES ('{job.key}: {outcome.in_doubt}')")

    shop.put("bad", "good")
    worker = shop.worker(JobHandler(script(), finish), finish_failed=finish_failed)
    assert await worker.drain() == 2
    assert shop.change("SELECT name FROM orders ORDER BY name") == [("bad: True",), ("good",)]
    assert shop.states() == {
        "bad": ("failed", 1, "a mistake of this program (KeyError)"),
        "good": ("done", 1, None),
    }


async def test_a_wrong_argument_in_what_follows_saves_nothing_of_it(shop: Shop) -> None:
    def finish(connection: Any, _job: object, _outcome: object, _now: float) -> None:
        cursor = connection.cursor()
        cursor.execute("INSERT INTO orders VALUES ('half')")
        cursor.execute(*shop.outbox.insert("", "mail", {}))

    shop.put("a")
    await shop.worker(JobHandler(script(), finish)).drain()
    assert shop.states() == {"a": ("failed", 1, "a mistake of this program (ConfigurationError)")}
    assert shop.change("SELECT name FROM orders") == []


async def test_a_wrong_statement_in_what_follows_is_a_mistake_and_not_an_outage(
    shop: Shop,
) -> None:
    def finish(connection: Any, _job: object, _outcome: object, _now: float) -> None:
        connection.cursor().execute("INSERT INTO no_such_table VALUES (1)")

    shop.put("a")
    await shop.worker(JobHandler(script(), finish)).drain()
    assert shop.states()["a"][0] == "failed"


async def test_a_worker_that_lost_its_job_saves_nothing(shop: Shop) -> None:
    async def perform(_job: OutboxJob) -> JobDone | JobFailed:
        if shop.clock.now == 0.0:
            shop.clock.now = 61.0  # this process was paused; meanwhile another does the job
            assert await other.drain() == 1
            return JobFailed("too late")
        return JobDone()

    finished: list[object] = []
    handler: JobHandler[Any, Any] = JobHandler(
        perform, lambda _connection, _job, outcome, _now: finished.append(outcome)
    )
    shop.put("a")
    other = shop.worker(handler)
    await shop.worker(handler).drain()
    assert shop.states() == {"a": ("done", 2, None)}
    assert finished == [JobDone()]


async def test_workers_do_each_job_once(shop: Shop) -> None:
    keys = [f"job-{n:02}" for n in range(20)]
    shop.put(*keys)
    performed = script()
    workers = [shop.worker(JobHandler(performed)) for _ in range(3)]
    await asyncio.gather(*(worker.drain() for worker in workers))
    assert sorted(performed.seen) == keys


async def test_a_job_that_ends_every_process_is_given_up(shop: Shop) -> None:
    shop.put("a")
    for death in range(7):
        shop.change(shop.outbox.claim(["mail"], "x", death * 100.0, death * 100.0 + 60))
    shop.clock.now = 1000.0
    performed = script()
    await shop.worker(JobHandler(performed)).drain()
    assert performed.seen == []
    assert shop.states() == {"a": ("failed", 8, "each process that began it ended")}


async def test_a_mistake_of_a_handler_is_tried_again_and_quotes_nothing(
    shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    shop.put("a")
    with caplog.at_level(logging.DEBUG):
        await shop.worker(JobHandler(script(ValueError("Zebedee")))).drain()
    assert shop.states() == {"a": ("queued", 1, "a mistake of this program (ValueError)")}
    assert "Zebedee" not in caplog.text
    assert "ValueError" in caplog.text


async def test_a_handler_that_returns_no_outcome_is_a_mistake(shop: Shop) -> None:
    shop.put("a", "b")
    outcomes = script(None, JobDone({"it": object()}))
    worker = shop.worker(JobHandler(outcomes))
    assert await worker.drain() == 2
    assert shop.states() == {
        "a": ("queued", 1, "a mistake of this program (TypeError)"),
        "b": ("failed", 1, "a mistake of this program (ConfigurationError)"),
    }


async def test_a_slow_handler_is_given_up(shop: Shop) -> None:
    async def perform(_job: OutboxJob) -> JobDone:
        await asyncio.Event().wait()
        return JobDone()

    shop.put("a")
    await shop.worker(JobHandler(perform, time_limit=0.01)).drain()
    assert shop.states() == {"a": ("queued", 1, "it took too long")}


async def test_a_lease_is_renewed_while_its_job_is_done(shop: Shop) -> None:
    renewed = asyncio.Event()

    async def perform(job: OutboxJob) -> JobDone:
        shop.clock.now = 100.0  # from here on, only a renewed lease lasts
        until = "SELECT lease_until FROM holdfast_outbox"
        while shop.change(until) == [(0.06,)]:
            await asyncio.sleep(0.01)
        renewed.set()
        assert await other.run_once() is False
        return JobDone()

    shop.put("a")
    other = shop.worker(JobHandler(script()))
    await shop.worker(JobHandler(perform), lease=0.06).drain()
    assert renewed.is_set()
    assert shop.states() == {"a": ("done", 1, None)}


async def test_a_running_worker_does_many_at_once_is_woken_and_ends_what_it_began(
    shop: Shop,
) -> None:
    begun: list[str] = []
    go_on, both = asyncio.Event(), asyncio.Event()

    async def perform(job: OutboxJob) -> JobDone:
        begun.append(job.key)
        if len(begun) == 2:
            both.set()
        await go_on.wait()
        return JobDone()

    worker = shop.worker(JobHandler(perform), poll=60.0)
    running = asyncio.create_task(worker.run(at_once=2))
    await asyncio.sleep(0)
    shop.put("a", "b", "c")
    worker.wake()
    await asyncio.wait_for(both.wait(), 60)
    worker.stop()
    go_on.set()
    await asyncio.wait_for(running, 60)
    assert begun == ["a", "b"]
    assert {key: state[0] for key, state in shop.states().items()} == {
        "a": "done",
        "b": "done",
        "c": "queued",
    }


WORKER = """
import asyncio, sys
from tests.outbox.connections import Shop
from holdfast.outbox import JobHandler

async def main(address, place):
    async def perform(job):
        with open(place, "a") as out:
            out.write(job.key)
        print(job.key, flush=True)
        await asyncio.Event().wait()

    await Shop(address).worker(JobHandler(perform)).run()

asyncio.run(main(*sys.argv[1:]))
"""


async def test_a_worker_that_is_cancelled_when_it_is_woken_ends(shop: Shop) -> None:
    worker = shop.worker(JobHandler(script()), poll=60.0)
    running = asyncio.create_task(worker.run())
    await asyncio.sleep(0.1)  # it waits for a job
    worker.wake()
    await asyncio.sleep(0)  # what it waits for has happened, and it does not know yet
    running.cancel()
    done, _ = await asyncio.wait([running], timeout=5)
    assert running in done
    assert running.cancelled()


@pytest.mark.slow  # kills a process
async def test_the_job_of_a_killed_process_is_done_by_another(shop: Shop, tmp_path: Path) -> None:
    shop.put("a")
    place = tmp_path / "sent"

    def work_until_killed() -> None:
        command = [sys.executable, "-c", WORKER, shop.address, str(place)]
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "a\n"
            process.send_signal(signal.SIGKILL)

    await asyncio.to_thread(work_until_killed)
    assert place.read_text() == "a"  # it was done, and nobody saved that
    performed = script()
    worker = shop.worker(JobHandler(performed))
    shop.clock.now = 59.0
    assert await worker.drain() == 0
    shop.clock.now = 60.0
    assert await worker.drain() == 1
    assert performed.seen == ["a"]
    assert shop.states() == {"a": ("done", 2, None)}


async def test_an_outage_of_the_database_ends_no_worker(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    shop = Shop(str(tmp_path / "shop.db"))
    opened, done = 0, asyncio.Event()

    def open_connection() -> sqlite3.Connection:
        nonlocal opened
        opened += 1  # after each outage
        return sqlite3.connect(shop.address)

    async def perform(_job: OutboxJob) -> JobDone:
        done.set()
        return JobDone()

    store = DbapiOutboxStore(shop.outbox, open_connection)
    worker = OutboxWorker(store, {"mail": JobHandler(perform)}, clock=shop.clock, poll=0.01)
    with pytest.raises(OutboxUnavailableError, match="no such table"):
        await worker.run_once()
    running = asyncio.create_task(worker.run())
    async with asyncio.timeout(60):
        while opened < 2 or "the outbox waits" not in caplog.text:
            await asyncio.sleep(0.01)
    shop.make_tables()
    shop.put("a")
    await asyncio.wait_for(done.wait(), 60)
    worker.stop()
    await asyncio.wait_for(running, 60)
    await store.close()
    assert shop.states() == {"a": ("done", 1, None)}


async def test_a_connection_that_saves_each_statement_is_refused(shop: Shop) -> None:
    if shop.outbox.driver == "sqlite3":
        pytest.skip("SQLite's connection has no such form before Python 3.12")

    def open_connection() -> Any:
        connection = connect(shop.address)
        connection.autocommit = True
        return connection

    store = DbapiOutboxStore(shop.outbox, open_connection)
    with pytest.raises(ConfigurationError, match="connect: opens a connection that saves each"):
        await store.claim(["mail"], 0.0, 60.0)
    await store.close()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Outbox("oracle"), "driver: must be"),  # type: ignore[arg-type]
        (lambda: Outbox("sqlite3", "a; DROP TABLE orders"), "table: is not the name of a table"),
        (lambda: Outbox("sqlite3").insert("", "mail", {}), "key: must be a text that is not empty"),
        (lambda: Outbox("sqlite3").insert("a", "mail", {"it": object()}), "payload: holds a value"),
        (lambda: Outbox("sqlite3").insert("a", "mail", [1]), "payload: must be"),  # type: ignore[arg-type]
        (lambda: JobHandler(script(), waits=(-1.0,)), "handler.waits"),
        (lambda: DbapiOutboxStore(Outbox("asyncpg"), connect), "outbox: is for asyncpg"),  # type: ignore[arg-type]
        (lambda: OutboxWorker(None, {}), "handlers: is empty"),  # type: ignore[arg-type]
        (lambda: OutboxWorker(None, {"mail": script()}), r"handlers\['mail'\]: must be JobHandler"),  # type: ignore[arg-type,dict-item]
    ],
)
def test_a_bad_argument_is_named(make: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        make()


def test_the_statements_are_written_for_each_driver() -> None:
    job = OutboxJob(key="a", kind="mail", payload={}, attempts=1, lease="x")
    renewal = Outbox("asyncpg").renew(job, 0.5, 1.0)
    assert "lease_until = $1, updated_at = $2 WHERE key = $3 AND lease = $4 AND" in renewal.sql
    assert renewal.parameters == (1.0, 0.5, "a", "x")
    claim = Outbox("psycopg").claim(["a", "b"], "x", 0.0, 60.0)
    assert claim.sql.count("%s") == len(claim.parameters)
    assert "FOR UPDATE SKIP LOCKED" in claim.sql
    assert "FOR UPDATE SKIP LOCKED" in Outbox("psycopg").follow_clock(0.0).sql
    assert "FOR UPDATE" not in Outbox("sqlite3").claim(["a"], "x", 0.0, 60.0).sql
