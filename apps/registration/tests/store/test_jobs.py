"""Rows of the outbox: written once, taken by one worker at a time."""

from __future__ import annotations

import asyncio

from registration.store import Database
from registration.store.outbox import (
    Job,
    NewJob,
    claim_job,
    enqueue,
    find_job,
    mark_delivered,
    record_failure,
    record_retry,
    record_success,
)

KINDS = ("sms", "mail")


async def put(database: Database, key: str, due_at: float = 0.0) -> bool:
    new = NewJob(key, "sms", {"n": 1}, registration_id="r")
    return await database.transact(lambda tx: enqueue(tx, new, 0.0, due_at))


async def claim(database: Database, lease: str, now: float, seconds: float = 30) -> Job | None:
    return await database.transact(lambda tx: claim_job(tx, KINDS, lease, now, now + seconds))


async def test_a_key_is_written_once(database: Database) -> None:
    assert await asyncio.gather(*(put(database, "a") for _ in range(5))) != [False] * 5
    assert await put(database, "a") is False
    job = await claim(database, "x", 0)
    assert job is not None
    await database.transact(lambda tx: record_success(tx, job, "sent", {}, 0))
    assert await put(database, "a") is False
    assert await claim(database, "x", 999) is None


async def test_jobs_are_taken_when_due_in_order(database: Database) -> None:
    for key, due in (("later", 50.0), ("b", 10.0), ("a", 10.0), ("first", 5.0)):
        await put(database, key, due)
    assert await claim(database, "x", 4) is None
    taken = [await claim(database, "x", 20) for _ in range(4)]
    assert [job and job.key for job in taken] == ["first", "a", "b", None]
    other = await database.transact(lambda tx: claim_job(tx, ("photo",), "x", 99, 100))
    assert other is None


async def test_no_job_waits_because_the_clock_was_set_back(database: Database) -> None:
    for key, wait in (("lost", 0.0), ("later", 60.0), ("now", 0.5)):
        new = NewJob(key, "sms", {})
        await database.transact(lambda tx, new=new, at=7200 + wait: enqueue(tx, new, 7200.0, at))
    assert await claim(database, "x", 7200.0) is not None  # of a process that dies
    for now, key in ((10.0, None), (11.0, "now"), (41.0, "lost"), (69.0, None), (70.0, "later")):
        job = await claim(database, f"at {now}", now, 1000)
        assert (job and job.key) == key


async def test_workers_at_once_take_different_jobs(database: Database) -> None:
    for n in range(12):
        await put(database, f"job-{n:02}")
    taken = await asyncio.gather(*(claim(database, f"worker-{n}", 0) for n in range(20)))
    keys = [job.key for job in taken if job]
    assert len(keys) == len(set(keys))
    assert len(keys) == 12


async def test_a_job_of_a_dead_worker_is_taken_after_its_lease(database: Database) -> None:
    await put(database, "a")
    first = await claim(database, "dead", 0)
    assert first is not None
    assert await claim(database, "other", 29) is None
    second = await claim(database, "other", 30)
    assert second is not None
    assert (second.key, second.attempts) == ("a", 2)
    # The first worker was only slow. What it says counts no longer.
    for late in (record_failure, record_success):
        said = "no" if late is record_failure else "sent"
        arguments = (said,) if late is record_failure else (said, {})
        assert (
            await database.transact(lambda tx, a=arguments, f=late: f(tx, first, *a, 31)) is False
        )
    assert await database.transact(lambda tx: record_success(tx, second, "sent", {"id": "1"}, 32))


async def test_a_retry_waits_for_its_time(database: Database) -> None:
    await put(database, "a")
    job = await claim(database, "x", 0)
    assert job is not None
    assert await database.transact(lambda tx: record_retry(tx, job, "busy", 60, 0))
    assert await claim(database, "x", 59) is None
    again = await claim(database, "x", 60)
    assert again is not None
    assert again.attempts == 2


async def test_delivery_follows_sending(database: Database) -> None:
    await put(database, "a")
    await database.transact(lambda tx: mark_delivered(tx, "a", 1))
    job = await claim(database, "x", 0)
    assert job is not None
    await database.transact(lambda tx: record_success(tx, job, "sent", {"id": "SM1"}, 2))
    await database.transact(lambda tx: mark_delivered(tx, "a", 3))
    stored = await database.read(lambda tx: find_job(tx, "a"))
    assert stored is not None
    assert (stored.state, stored.result, stored.lease) == ("delivered", {"id": "SM1"}, None)
