"""Queued turns beside the bare engine: `python -m benchmarks.queued_turns URL`, with a PostgreSQL server.

Three tables, each with both sides in turn in one run, in schemas of their own that are dropped at the end:

- the delay from a submission to the begin of its turn, beside that of a bare job of procrastinate from its
  deferral to its begin, and the time of one commit; at most twice the bare delay and one commit;
- turns a second with 1, 2 and 4 workers, beside bare jobs that do nothing; a turn has one model call, three
  records, a lease and three transactions of the inbox; in both tables also workflows of DBOS with its own
  queue, if `./run bench --peers` has installed it: see `benchmarks.dbos_turns`;
- the time from `kill -9` of a worker to the next begin of what it drove; at most the lease and 2 seconds.

Workers are processes of their own. All times are of the clock that the processes of a machine share.
"""

from __future__ import annotations

import asyncio
import os
import select
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Self

import procrastinate
import psycopg

from benchmarks import dbos_turns
from holdfast import Agent, PostgresJournal, Reply, Text, ToolCall, tool
from holdfast.models import ModelRequest
from holdfast.resilience import CallContext, Done, Outcome
from holdfast.testing import ScriptedModel
from holdfast.worker import Worker

DELAYS, TURNS, PARALLEL, AT_ONCE = 40, 1500, 16, 16
LEASES = (4.0, 10.0)
PEERS = Path(__file__).parent / "peers" / ".venv" / "bin" / "python"


class Speaker(ScriptedModel):
    """Says when it is called; calls a tool first if it is told to."""

    async def attempt(self, call: CallContext[ModelRequest]) -> Outcome[Reply]:
        """Reply at once."""
        last = call.payload.messages[-1]
        if last.role == "user":
            print(last.text, time.monotonic(), flush=True)
            if last.text.startswith("wait"):
                return Done(Reply((ToolCall("c1", "look", "{}"),)))
        return Done(Reply((Text("Done."),)))


@tool(effect="read")
async def look() -> str:
    """Look for a minute."""
    print("look", time.monotonic(), flush=True)
    await asyncio.sleep(60)
    return "nothing"


def make_agent(url: str, lease: float) -> Agent[str]:
    """Make the agent of both the submitter and the workers."""
    journal = PostgresJournal(url, lease=lease)
    return Agent(Speaker(), name="speaker", tools=[look], journal=journal)


async def work(url: str, lease: float) -> None:
    """Drive turns until the process is told to stop."""
    async with Worker(make_agent(url, lease), parallel=PARALLEL, grace=1.0) as worker:
        print("begun", flush=True)
        await worker.run()


def make_app(url: str) -> procrastinate.App:
    """Make the bare engine."""
    app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=url))

    @app.task(name="speak", queue="bare")
    async def speak(word: str) -> None:
        print(word, time.monotonic(), flush=True)

    return app


async def work_bare(url: str) -> None:
    """Do bare jobs until the process is told to stop."""
    app = make_app(url)
    async with app.open_async():
        print("begun", flush=True)
        await app.run_worker_async(queues=["bare"], concurrency=PARALLEL, delete_jobs="always")


class WorkerProgram:
    """A worker of one side, or what submits to DBOS, in a process of its own.

    Args:
        arguments: what it is started with; "dbos" first for the program of DBOS.
    """

    def __init__(self, *arguments: str) -> None:
        command = [sys.executable, "-m", "benchmarks.queued_turns", *arguments]
        if arguments[0] == "dbos":
            command = [str(PEERS), "-m", "benchmarks.dbos_turns", *arguments[1:]]
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def write(self, word: str) -> None:
        """Let it submit a word."""
        assert self.process.stdin is not None
        self.process.stdin.write(word + "\n")
        self.process.stdin.flush()

    def read(self) -> tuple[str, float]:
        """Return the next word that it says, and when it did."""
        assert self.process.stdout is not None
        word, _, at = self.process.stdout.readline().strip().partition(" ")
        return word, float(at or 0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()


class Submitter:
    """Submits the work of both sides.

    Args:
        url: the address of a new schema.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self.agent = make_agent(url, 30.0)
        self.app = make_app(url)

    async def prepare(self) -> None:
        """Make the tables of both sides."""
        async with Worker(self.agent):  # which makes those of procrastinate, too
            pass

    async def submit(self, word: str) -> float:
        """Submit a turn; return when that began."""
        at = time.monotonic()
        await self.agent.submit(word)
        return at

    async def defer(self, word: str) -> float:
        """Defer a bare job; return when that began."""
        at = time.monotonic()
        await self.app.configure_task("speak", queue="bare").defer_async(word=word)
        return at

    async def fill(self, side: str, count: int) -> None:
        """Put so much work into the queue of a side."""
        act = self.submit if side == "holdfast" else self.defer
        for first in range(0, count, AT_ONCE):
            await asyncio.gather(
                *(act(f"w{first + n}") for n in range(min(AT_ONCE, count - first)))
            )


async def measure_delays(submitter: Submitter) -> dict[str, list[float]]:
    """Return the delays of both sides in ms, one at a time, in turn."""
    found: dict[str, list[float]] = {"holdfast": [], "bare": [], "commit": []}
    async with submitter.app.open_async():
        with (
            WorkerProgram("holdfast", submitter.url, "30") as ours,
            WorkerProgram("bare", submitter.url) as bare,
        ):
            assert (ours.read()[0], bare.read()[0]) == ("begun", "begun")
            await asyncio.sleep(1)
            for number in range(DELAYS + 5):
                at = await submitter.submit(f"d{number}")
                word, began = await asyncio.to_thread(ours.read)
                assert word == f"d{number}"
                found["holdfast"].append(1000 * (began - at))
                at = await submitter.defer(f"d{number}")
                word, began = await asyncio.to_thread(bare.read)
                assert word == f"d{number}"
                found["bare"].append(1000 * (began - at))
                found["commit"].append(1000 * await _time_commit(submitter.url))
                await asyncio.sleep(0.05)
    return {side: values[5:] for side, values in found.items()}


def measure_delays_of_dbos(url: str) -> list[float]:
    """Return the delays of DBOS in ms, one at a time."""
    found: list[float] = []
    with WorkerProgram("dbos", "work", url) as worker:
        assert worker.read()[0] == "begun"
        with WorkerProgram("dbos", "submit", url) as submitter:
            assert submitter.read()[0] == "begun"
            for number in range(DELAYS + 5):
                submitter.write(f"d{number}")
                _, at = submitter.read()
                word, began = worker.read()
                assert word == f"d{number}"
                found.append(1000 * (began - at))
                time.sleep(0.05 + 0.003 * number)  # in no step with its polls
    return found[5:]


async def _time_commit(url: str) -> float:
    async with await psycopg.AsyncConnection.connect(url) as connection:
        await connection.execute("CREATE TABLE IF NOT EXISTS bare (id int)")
        await connection.commit()
        begin = time.monotonic()
        await connection.execute("INSERT INTO bare VALUES (1)")
        await connection.commit()
        return time.monotonic() - begin


async def measure_rate(url: str, side: str, workers: int) -> float:
    """Return how much work of a side so many workers do in a second.

    Args:
        url: the address of the server.
        side: "holdfast", "bare" or "dbos".
        workers: how many.
    """
    if side == "dbos":
        with make_schema(url, dbos_turns.SCHEMA):
            await asyncio.to_thread(_fill_dbos, url)
            return await _read_rate(["dbos", "work", url], workers)
    with make_schema(url, "queued_turns") as own:
        submitter = Submitter(own)
        await submitter.prepare()
        async with submitter.app.open_async():
            await submitter.fill(side, TURNS)
        return await _read_rate([side, own, *(["30"] if side == "holdfast" else [])], workers)


async def _read_rate(arguments: Sequence[str], workers: int) -> float:
    with ExitStack() as stack:
        programs = [stack.enter_context(WorkerProgram(*arguments)) for _ in range(workers)]
        lines = await asyncio.gather(
            *(asyncio.to_thread(_read_until_idle, program) for program in programs)
        )
    times = sorted(at for some in lines for at in some)
    assert len(times) >= TURNS, (arguments[0], workers, len(times))
    tenth = len(times) // 10  # while all workers work
    return (len(times) - 2 * tenth) / (times[-tenth - 1] - times[tenth])


def _fill_dbos(url: str) -> None:
    with WorkerProgram("dbos", "work", url) as worker:  # which makes the tables and the queue
        assert worker.read()[0] == "begun"
    with WorkerProgram("dbos", "submit", url) as submitter:
        assert submitter.read()[0] == "begun"
        for number in range(TURNS):
            submitter.write(f"w{number}")
            assert submitter.read()[0] == f"w{number}"


def _read_until_idle(program: WorkerProgram) -> Sequence[float]:
    """Return the times of what a worker did until it has nothing to do for some seconds."""
    assert program.process.stdout is not None
    source, pending, found, seconds = program.process.stdout.fileno(), b"", list[float](), 120.0
    while select.select([source], [], [], seconds)[0]:
        pending += os.read(source, 65536)
        *lines, pending = pending.split(b"\n")
        found += [float(line.split()[1]) for line in lines if b" " in line]
        seconds = 12.0 if found else 30.0  # it has begun
    return found


async def measure_takeover(url: str, lease: float) -> float:
    """Return the seconds from the kill of a worker to the next begin of its tool."""
    agent = make_agent(url, lease)
    with ExitStack() as stack:
        programs = [stack.enter_context(WorkerProgram("holdfast", url, str(lease)))]
        programs[0].read()
        await agent.submit("wait")
        while (await asyncio.to_thread(programs[0].read))[0] != "look":
            pass
        programs.append(stack.enter_context(WorkerProgram("holdfast", url, str(lease))))
        await asyncio.to_thread(programs[1].read)
        await asyncio.sleep(lease / 2)
        programs[0].process.kill()
        at = time.monotonic()
        while (found := await asyncio.to_thread(programs[1].read))[0] != "look":
            pass
        return found[1] - at


@contextmanager
def make_schema(url: str, name: str) -> Iterator[str]:
    """Yield the address of a new schema, which is dropped at the end."""
    with psycopg.connect(url, autocommit=True) as admin:
        admin.execute(f"DROP SCHEMA IF EXISTS {name} CASCADE".encode())
        admin.execute(f"CREATE SCHEMA {name}".encode())
        sign = "&" if "?" in url else "?"
        yield f"{url}{sign}options=-csearch_path%3D{name}"
        admin.execute(f"DROP SCHEMA {name} CASCADE".encode())


async def main(url: str) -> None:
    """Measure all, and print."""
    sides = ["holdfast", "bare"]
    if PEERS.exists():
        sides.append("dbos")
    else:
        print("DBOS is not installed: ./run bench --peers")
    with make_schema(url, "queued_turns") as own:
        submitter = Submitter(own)
        await submitter.prepare()
        delays = await measure_delays(submitter)
        if "dbos" in sides:
            with make_schema(url, dbos_turns.SCHEMA):
                delays["dbos"] = await asyncio.to_thread(measure_delays_of_dbos, url)
        middle = {side: statistics.median(values) for side, values in delays.items()}
        worst = {side: statistics.quantiles(values, n=20)[-1] for side, values in delays.items()}
        for side in delays:
            print(f"delay of {side:9} median {middle[side]:7.1f} ms, 95 % {worst[side]:7.1f} ms")
        share = (middle["holdfast"] - middle["commit"]) / middle["bare"]
        print(f"without one commit, {share:.2f} times the bare delay (limit 2)", flush=True)
    for workers in (1, 2, 4):
        rates = {side: await measure_rate(url, side, workers) for side in sides}
        figures = ", ".join(f"{side} {rate:6.1f}" for side, rate in rates.items())
        print(f"{workers} workers, in a second: {figures}", flush=True)
    for lease in LEASES:
        with make_schema(url, "queued_turns") as own:
            await Submitter(own).prepare()
            seconds = await measure_takeover(own, lease)
        print(
            f"takeover with a lease of {lease:g} s: {seconds:.1f} s (limit {lease + 2:g})",
            flush=True,
        )


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["holdfast", address, lease]:
            asyncio.run(work(address, float(lease)))
        case ["bare", address]:
            asyncio.run(work_bare(address))
        case [address]:
            asyncio.run(main(address))
