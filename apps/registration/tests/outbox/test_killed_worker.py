"""A worker process that is killed while it does a job: another does it, with the same key."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from apps.registration.tests.outbox.fakes import Clock

from holdfast.outbox import JobOutcome
from registration.outbox import Done, Handler, Worker
from registration.store import Database
from registration.store.outbox import Job, NewJob, enqueue, find_job

pytestmark = pytest.mark.slow  # kills processes

# Does the job outside (a line in a file) and dies before it can save that.
WORKER = """
import asyncio, sys
from registration.outbox import Done, Handler, Worker
from registration.store import open_database

async def main(url, place):
    async def perform(job):
        with open(place, "a") as out:
            out.write(job.key + "\\n")
        print(job.key, flush=True)
        await asyncio.Event().wait()

    database = await open_database(url)
    await Worker(database, {"sms": Handler(perform)}, lambda: 0.0).run()

asyncio.run(main(*sys.argv[1:]))
"""


def work_until_killed(url: str, place: Path) -> None:
    command = [sys.executable, "-c", WORKER, url, str(place)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as worker:
        assert worker.stdout is not None
        worker.stdout.readline()
        worker.send_signal(signal.SIGKILL)


async def test_a_killed_process_loses_no_job(database: Database, url: str, tmp_path: Path) -> None:
    place = tmp_path / "sent"
    await database.transact(lambda tx: enqueue(tx, NewJob("r/paid", "sms", {}), 0.0))
    await asyncio.to_thread(work_until_killed, url, place)

    async def perform(job: Job) -> JobOutcome:
        sent = await asyncio.to_thread(place.read_text)
        assert sent == f"{job.key}\n"  # the provider knows the key, and makes nothing new
        return Done({"id": "SM1"})

    clock = Clock(59.0)
    worker = Worker(database, {"sms": Handler(perform)}, clock)
    assert await worker.drain() == 0
    clock.now = 60.0
    assert await worker.drain() == 1
    job = await database.read(lambda tx: find_job(tx, "r/paid"))
    assert job is not None
    assert (job.state, job.attempts) == ("sent", 2)
