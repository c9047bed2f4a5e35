"""Turns a second with a PostgreSQL journal: `python -m benchmarks.postgres_turns URL [CHECKOUT]`.

Each turn has one tool, so six records, a lease and its end. Beside it stand two bare clients of
psycopg that save seven rows a turn: one commits each row, and one sends what waits in its process as
one statement. Each side runs with 1, 2 and 4 processes, of 50 turns at once. With the folder of
another checkout, its journal is measured in the same run. Each side has a schema of its own, which is
dropped at the end.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import psycopg

from holdfast import Agent, PostgresJournal, Reply, Text, ToolCall, tool
from holdfast.models import ModelRequest
from holdfast.resilience import CallContext, Done, Outcome
from holdfast.testing import ScriptedModel

SECONDS, AT_ONCE, ROWS = 5.0, 50, 7
CONNECTIONS = 10
PAYLOAD = "It will be sunny in Porto, with a light wind from the north. " * 5
CALL = Reply((ToolCall("c1", "pay", '{"amount": 3}'),))
ANSWER = Reply((Text(PAYLOAD),))
_CREATE = "CREATE TABLE IF NOT EXISTS bare_records (run text, seq int, event text, PRIMARY KEY (run, seq))"
_INSERT = "INSERT INTO bare_records SELECT * FROM unnest(%s::text[], %s::int[], %s::text[])"

Row = tuple[str, int, str]
Turn = Callable[[int, int], Awaitable[object]]


@tool(effect="write")
async def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


async def count_turns(turn: Turn) -> float:
    """Turns a second of this process."""
    end, done = time.perf_counter() + SECONDS, 0

    async def work(worker: int) -> None:
        nonlocal done
        number = 0
        while time.perf_counter() < end:
            await turn(worker, number)
            number, done = number + 1, done + 1

    await asyncio.gather(*(work(worker) for worker in range(AT_ONCE)))
    return done / SECONDS


class Cashier(ScriptedModel):
    """Pays, and then says so."""

    async def attempt(self, call: CallContext[ModelRequest]) -> Outcome[Reply]:
        """Reply at once."""
        return Done(CALL if call.payload.messages[-1].role == "user" else ANSWER)


async def run_holdfast(url: str) -> float:
    """Sessions of five turns, all of one agent."""
    with PostgresJournal(url, connections=CONNECTIONS) as journal:
        agent = Agent(Cashier(), tools=[pay], journal=journal)

        async def turn(worker: int, number: int) -> None:
            await agent.run(PAYLOAD, session=f"{os.getpid()}-{worker}-{number // 5}")

        return await count_turns(turn)


async def run_single(url: str) -> float:
    """Each row is a transaction."""
    idle: asyncio.Queue[psycopg.AsyncConnection[tuple[object, ...]]] = asyncio.Queue()
    for _ in range(CONNECTIONS):
        idle.put_nowait(await psycopg.AsyncConnection.connect(url, autocommit=True))

    async def turn(worker: int, number: int) -> None:
        for seq in range(ROWS):
            connection = await idle.get()
            run = f"{os.getpid()}-{worker}-{number}"
            await connection.execute(_INSERT, ([run], [seq], [PAYLOAD]))
            idle.put_nowait(connection)

    return await count_turns(turn)


async def run_grouped(url: str) -> float:
    """What waits in the process is one statement."""
    connection = await psycopg.AsyncConnection.connect(url, autocommit=True)
    waiting: list[tuple[Row, asyncio.Future[None]]] = []
    wake = asyncio.Event()

    async def send() -> None:
        while True:
            await wake.wait()
            wake.clear()
            group = waiting.copy()
            waiting.clear()
            columns = list(map(list, zip(*(row for row, _ in group), strict=True)))
            await connection.execute(_INSERT, columns)
            for _, done in group:
                done.set_result(None)

    async def turn(worker: int, number: int) -> None:
        for seq in range(ROWS):
            done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            waiting.append(((f"{os.getpid()}-{worker}-{number}", seq, PAYLOAD), done))
            wake.set()
            await done

    sender = asyncio.ensure_future(send())
    found = await count_turns(turn)
    sender.cancel()
    return found


SIDES = {
    "bare, one by one": run_single,
    "bare, grouped": run_grouped,
    "PostgresJournal": run_holdfast,
}


def measure_side(url: str, side: str, count: int, checkout: Path | None = None) -> float:
    """Turns a second of some processes together; with a checkout, of its Holdfast."""
    command = [sys.executable, "-m", "benchmarks.postgres_turns", "--side", url, side]
    paths = {} if checkout is None else {"PYTHONPATH": str(checkout / "src")}
    workers = [
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, **paths})
        for _ in range(count)
    ]
    return sum(float(worker.communicate()[0]) for worker in workers)


def main(url: str, checkout: Path | None = None) -> None:
    """Measure all sides, and print."""
    sides: list[tuple[str, Path | None]] = [(side, None) for side in SIDES]
    sides += [("PostgresJournal", checkout)] if checkout else []
    names = [f"{side} there" if other else side for side, other in sides]
    print(f"{'turns a second':20}" + "".join(f"{name:>23}" for name in names))
    with psycopg.connect(url, autocommit=True) as admin:
        for count in (1, 2, 4):
            found = []
            for number, (side, other) in enumerate(sides):
                schema = f"side_{number}"
                admin.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE; CREATE SCHEMA {schema}")
                admin.execute(f"SET search_path = {schema}; {_CREATE}")
                place = f"{url}{'&' if '?' in url else '?'}options=-csearch_path%3D{schema}"
                found.append(measure_side(place, side, count, other))
                admin.execute(f"DROP SCHEMA {schema} CASCADE")
            line = "".join(f"{rate:23.0f}" for rate in found)
            print(f"{count} process(es)".ljust(20) + line, flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "--side":
        print(asyncio.run(SIDES[sys.argv[3]](sys.argv[2])))
    else:
        main(sys.argv[1], Path(sys.argv[2]) if len(sys.argv) > 2 else None)
