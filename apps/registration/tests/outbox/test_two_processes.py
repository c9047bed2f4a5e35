"""Two worker processes at one database: each job is done by one of them, once."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from pathlib import Path

import pytest

from registration.store import Database
from registration.store.outbox import NewJob, enqueue, find_job

pytestmark = pytest.mark.slow  # starts processes

_JOBS = 12
# Begins when it is told to, so that both look for the jobs at the same time.
_WORKER = """
import asyncio, os, sys
from registration.outbox import Done, Handler, Worker
from registration.store import open_database

async def main(url, place):
    async def perform(job):
        with open(place, "a") as out:
            out.write(f"{job.key} {os.getpid()}\\n")
        await asyncio.sleep(0.02)
        return Done({"id": "SM1"})

    database = await open_database(url)
    print("ready", flush=True)
    sys.stdin.readline()
    await Worker(database, {"sms": Handler(perform)}, lambda: 0.0).drain()
    await database.close()

asyncio.run(main(*sys.argv[1:]))
"""


async def test_two_processes_do_each_job_once(database: Database, url: str, tmp_path: Path) -> None:
    place, keys = tmp_path / "done", [f"job-{number:02}" for number in range(_JOBS)]
    for key in keys:
        await database.transact(lambda tx, key=key: enqueue(tx, NewJob(key, "sms", {}), 0.0))
    workers = [
        await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", _WORKER, url, str(place)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        for _ in range(2)
    ]
    for worker in workers:
        assert worker.stdout is not None
        assert await worker.stdout.readline() == b"ready\n"
    await asyncio.gather(*(worker.communicate(b"go\n") for worker in workers))
    assert [worker.returncode for worker in workers] == [0, 0]
    lines = [line.split() for line in (await asyncio.to_thread(place.read_text)).splitlines()]
    assert Counter(key for key, _ in lines) == dict.fromkeys(keys, 1)
    assert len({process for _, process in lines}) == 2
    for key in keys:
        job = await database.read(lambda tx, key=key: find_job(tx, key))
        assert job is not None
        assert (job.state, job.attempts) == ("sent", 1)
