"""A worker whose agent looks and pays, and the model that makes it do so; each is a process of its own.

`python -m tests.worker.paying_worker '{"journal": ..., "model": ..., "ledger": ...}'` works until it is told
to stop, and prints its id when it has begun; see `PayingSettings`. `python -m tests.worker.paying_worker
model SECONDS` serves the model and prints its address. The ledger is a table of its own, in a file, that no
restart of the journal's server touches: each tool adds a row when it begins, and notes in it when it ends.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import sqlite3
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
from msgspec import Struct

from holdfast import Agent, PostgresJournal, Resilience, RetryOptions, tool
from holdfast.middleware import ToolPermission
from holdfast.testing.emulator import Delay, EmulatedRequest, Emulator, Pace, call
from holdfast.tools.context import ToolContext
from holdfast.worker import QuarantineOptions, Worker

WORDS = 30


class PayingSettings(Struct, frozen=True, kw_only=True):
    """What a worker is started with.

    Args:
        journal: the address of the journal.
        model: the address of the model.
        ledger: the file of the ledger.
        engine: the address of the engine; None for that of the journal.
        parallel: how many turns it drives at once.
        lease: the lease of the journal, in seconds.
        grace: how long it waits for payments at its end.
        look_seconds: how long looking takes.
        pay_seconds: how long paying takes, after the row was added.
        clock: a file with the seconds by which its clock is ahead; "" if it is right.
        asks: whether somebody is asked before it pays.
        deaths_in_company: how many workers may die before a turn is driven alone: many, as the tests kill
            workers for no fault of their turns.
    """

    journal: str
    model: str
    ledger: str
    engine: str | None = None
    parallel: int = 8
    lease: float = 6.0
    grace: float = 30.0
    look_seconds: float = 0.02
    pay_seconds: float = 0.05
    clock: str = ""
    asks: bool = False
    deaths_in_company: int = 1000


class Deed(Struct, frozen=True):
    """A row of the ledger; times are of the clock that all processes of the machine share.

    Args:
        process: the process that did it.
        key: the idempotency key of the call.
        tool: the name of the tool.
        order: what the turn is about.
        began: when it began.
        ended: when it ended; None if it did not.
    """

    process: int
    key: str
    tool: str
    order: str
    began: float
    ended: float | None


@contextmanager
def _hold_lock(path: Path) -> Iterator[None]:
    """Let one process at a time into the block."""
    with path.open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


class Ledger:
    """What the tools did.

    Args:
        path: its file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        with _hold_lock(path.with_suffix(".lock")), self._open() as connection:
            # Of two that begin this mode at once, SQLite refuses one without a wait.
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute(
                "CREATE TABLE IF NOT EXISTS deeds"
                " (process int, key text, tool text, label text, began float, ended float)"
            )
            connection.execute("CREATE INDEX IF NOT EXISTS by_key ON deeds (key)")

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        connection = sqlite3.connect(self._path, timeout=60, isolation_level=None)
        try:
            connection.execute("PRAGMA synchronous=OFF")
            yield connection
        finally:
            connection.close()

    def begin(self, context: ToolContext, order: str) -> int:
        """Add a row, and return its number."""
        row = (os.getpid(), context.idempotency_key, context.tool, order, time.monotonic())
        with self._open() as connection:
            done = connection.execute("INSERT INTO deeds VALUES (?, ?, ?, ?, ?, NULL)", row)
            return int(done.lastrowid or 0)

    def end(self, number: int) -> None:
        """Note that it is done."""
        with self._open() as connection:
            values = (time.monotonic(), number)
            connection.execute("UPDATE deeds SET ended = ? WHERE rowid = ?", values)

    def read(self, name: str) -> list[Deed]:
        """Return the rows of a tool."""
        with self._open() as connection:
            text = "SELECT process, key, tool, label, began, ended FROM deeds WHERE tool = ?"
            return [Deed(*row) for row in connection.execute(text, (name,))]


def make_agent(settings: PayingSettings) -> Agent[str]:
    """Make the agent."""
    ledger = Ledger(Path(settings.ledger))

    @tool(effect="read")
    async def look(order: str, context: ToolContext) -> str:
        """Look at an order."""
        number = ledger.begin(context, order)
        await asyncio.sleep(settings.look_seconds)
        ledger.end(number)
        return "it is open"

    @tool(effect="write")
    async def pay(order: str, context: ToolContext) -> str:
        """Pay an order."""
        number = ledger.begin(context, order)
        await asyncio.sleep(settings.pay_seconds)
        ledger.end(number)
        return f"paid {order}"

    return Agent(
        "openai:emulated-model",
        base_url=settings.model,
        api_key="none",
        name="payer",
        tools=[look, pay],
        middleware=[ToolPermission(allow=["look"], ask=["pay"])] if settings.asks else [],
        retry=RetryOptions(max_retries=20, retry_delay=0.01, max_retry_delay=0.1),
        resilience=Resilience(budget=None, breaker=None),
        journal=PostgresJournal(settings.journal, lease=settings.lease),
    )


def answer(request: EmulatedRequest) -> object:
    """The script of the model: look and pay in two iterations, and tell a story."""
    if request.iteration == 0:
        return ["I look.", call("look", {"order": request.text})]
    if request.iteration == 1:
        return [f"I pay {request.text}.", call("pay", {"order": request.text})]
    return final_text(request.text)


def final_text(order: str) -> str:
    """What the agent says at the end of a turn."""
    return f"{order} is settled: " + " ".join(f"word-{number}" for number in range(WORDS))


async def work(settings: PayingSettings) -> None:
    """Work until the process is told to stop."""
    worker = Worker(
        make_agent(settings),
        engine=settings.engine,
        parallel=settings.parallel,
        grace=settings.grace,
        quarantine=QuarantineOptions(deaths_in_company=settings.deaths_in_company),
    )
    async with worker:
        print(worker.id, flush=True)
        await worker.run()


def serve_model(seconds: float) -> None:
    """Serve the model until the process is killed.

    Args:
        seconds: how long it thinks, and half of how long it speaks.
    """
    pace = Pace(2 * seconds / WORDS) if seconds else None
    faults = [Delay(seconds), pace] if pace else None
    with Emulator(answer, faults=lambda _: faults) as emulator:
        print(emulator.base_url, flush=True)
        threading.Event().wait()


def shift_clock(path: Path) -> None:
    """Let the clock of this process be ahead by what a file says, also when the file changes."""
    right = time.time

    def tell() -> float:
        return right() + float(path.read_text() or "0")

    time.time = tell


if __name__ == "__main__":
    if sys.argv[1] == "model":
        serve_model(float(sys.argv[2]))
    else:
        given = msgspec.json.decode(sys.argv[1], type=PayingSettings)
        if given.clock:
            shift_clock(Path(given.clock))
        asyncio.run(work(given))
