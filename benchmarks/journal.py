"""What keeping a record costs, next to one fsync of the same disk: `python -m benchmarks.journal`.

Rounds of all sides alternate, so that a slow moment of the disk falls on all. Each writes the same
record, one after another, and waits until it is on the disk:

- the append goes to a file that grows, which is one fdatasync with the file's new length: the floor;
- the overwrite goes to bytes that are there already, as SQLite's log is written once it has its
  size: the least that any way of being durable costs;
- SQLite alone is the statements of the journal in the thread that asks: which blocks an event loop;
- SqliteJournal is `await journal.append(...)`: the same, in the journal's thread and back.

Of these the middle one is told. With many appends at once, which are committed together, it is the
time of all of them divided by their number.

Then what journaling adds to a run: a turn of ten iterations with one tool, against a server on
loopback that answers at once, less the same turn with a journal in memory, divided by its 21
effects (11 calls of the model, 10 of the tool). Beside it stands the least journal that is
durable and holds up nobody else: a file to which each record is appended and synced in a thread.

`--large [SESSIONS [FOLDER]]` measures a journal with many sessions instead, which it makes once in
the folder and keeps; see `large_journal`.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks import large_journal
from benchmarks.cases.tool_iterations import QUESTION, weather
from benchmarks.floor import KEY
from benchmarks.server import serve_apart
from holdfast import (
    Agent,
    Event,
    Limits,
    MemoryJournal,
    ModelReplied,
    Reply,
    SqliteJournal,
    Text,
    Usage,
    tool,
)
from holdfast.core.run_fold import make_change
from holdfast.journal import Effect, Journal, Record
from holdfast.journal.encoding import encode, to_line
from holdfast.journal.rows import encode_append
from holdfast.journal.sqlite import opening
from holdfast.journal.sqlite.sqlite_appends import Append
from holdfast.tools import ToolEffect

ROUNDS, APPENDS = 20, 60
MANY = (10, 100)
ITERATIONS, TURNS = 10, 3
EFFECTS = 2 * ITERATIONS + 1


def event(number: int) -> ModelReplied:
    """An ordinary reply of some hundred characters."""
    reply = Reply((Text("All work and no play. " * 20),), usage=Usage(900, 120), model="bench")
    return ModelReplied(f"t{number}.i0.model", 1.0, reply)


def raw(path: Path) -> list[float]:
    """Seconds of each append to a file, or overwrite of its bytes when there are any."""
    took = []
    line = encode(to_line("r", 1, Record(event(1)))) + b"\n"
    out = os.open(path, os.O_CREAT | os.O_WRONLY)
    for _ in range(APPENDS):
        start = time.perf_counter()
        os.write(out, line)
        os.fdatasync(out)
        took.append(time.perf_counter() - start)
    os.close(out)
    return took


def alone(connection: sqlite3.Connection, run: str) -> list[float]:
    """Seconds of each commit of one record, in this thread."""
    took = []
    for number in range(APPENDS):
        start = time.perf_counter()
        change = make_change(event(number), None)
        rows = [encode_append("", run, event(number), None)]
        append = Append("", event(number), rows, change)
        connection.execute("BEGIN IMMEDIATE")
        append(connection)
        connection.execute("COMMIT")
        took.append(time.perf_counter() - start)
    return took


async def one_by_one(journal: SqliteJournal, run: str) -> list[float]:
    """Seconds of each append, one after another."""
    took = []
    for number in range(APPENDS):
        start = time.perf_counter()
        await journal.append(run, event(number))
        took.append(time.perf_counter() - start)
    return took


async def together(journal: SqliteJournal, name: str, producers: int) -> float:
    """Appends a second, by so many producers at once."""

    async def produce(run: str) -> None:
        for number in range(20):
            await journal.append(run, event(number))

    start = time.perf_counter()
    await asyncio.gather(*(produce(f"{name}-{n}") for n in range(producers)))
    return producers * 20 / (time.perf_counter() - start)


class PlainFile(MemoryJournal):
    """Each record appended to a file and synced, in a thread."""

    __slots__ = ("_file",)

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._file = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND)

    async def append(
        self, run: str, event: Event, effect: Effect | None = None, *, marker: Event | None = None
    ) -> None:
        """Write and sync."""
        line = encode(to_line(run, 1, Record(event))) + b"\n"
        await asyncio.to_thread(self._write, line)
        await super().append(run, event, effect, marker=marker)

    def _write(self, line: bytes) -> None:
        os.write(self._file, line)
        os.fdatasync(self._file)


async def in_runs(folder: Path, sides: Mapping[str, tuple[Journal, ToolEffect]]) -> None:
    """Print what journals add to an effect of a run, with a tool that writes or one that reads."""
    floor: list[float] = []
    turns: dict[str, list[float]] = {name: [] for name in sides}
    with serve_apart() as url:
        agents = {
            name: Agent(
                f"openai:tools-{ITERATIONS}",
                base_url=url,
                api_key=KEY,
                tools=[tool(effect=effect)(weather)],
                limits=Limits(iterations=1000),
                journal=journal,
            )
            for name, (journal, effect) in sides.items()
        }
        for number in range(ROUNDS):
            floor += raw(folder / f"beside-{number}.jsonl")
            for name, agent in agents.items():
                start = time.perf_counter()
                for _ in range(TURNS):
                    await agent.run(QUESTION)
                turns[name].append((time.perf_counter() - start) / TURNS)
    one = statistics.median(floor)
    least = statistics.median(turns.pop("memory"))
    print("\nadded to a run                       one effect   for one fsync")
    for name, took in turns.items():
        added = (statistics.median(took) - least) / EFFECTS
        print(f"{name:34} {added * 1e3:9.3f} ms {added / one:11.2f} x")


async def main(folder: Path) -> None:
    """Measure in this folder, and print."""
    await appends(folder)
    with SqliteJournal(folder / "runs.db") as journal:
        sides: dict[str, tuple[Journal, ToolEffect]] = {
            "memory": (MemoryJournal(), "write"),
            "a file, in a thread": (PlainFile(folder / "runs.jsonl"), "write"),
            "SqliteJournal": (journal, "write"),
            "SqliteJournal, a tool that reads": (journal, "read"),
        }
        await in_runs(folder, sides)


async def appends(folder: Path) -> None:
    """Print what one record costs."""
    floor: list[float] = []
    over: list[float] = []
    sqlite: list[float] = []
    ours: list[float] = []
    rates: dict[int, list[float]] = {producers: [] for producers in MANY}
    lock = opening.claim_file(str(folder / "alone.db"), 1.0)
    connection = opening.open_connection(str(folder / "alone.db"), 1.0)
    with SqliteJournal(folder / "bench.db") as journal:
        for number in range(ROUNDS):
            floor += raw(folder / f"raw-{number}.jsonl")
            over += raw(folder / f"raw-{number}.jsonl")
            sqlite += alone(connection, f"r{number}")
            ours += await one_by_one(journal, f"r{number}")
            for producers in MANY:
                name = f"m{number}-{producers}"
                rates[producers].append(await together(journal, name, producers))
        start, cpu = time.perf_counter(), time.process_time()
        kept = [await journal.read(f"r{number}") for number in range(ROUNDS)]
        read = (time.perf_counter() - start) / sum(map(len, kept))
        spent = (time.process_time() - cpu) / sum(map(len, kept))
    connection.close()
    lock.release()
    one = statistics.median(floor)
    print("                                    one record   for one fsync")
    for name, took in (
        ("one fsync: append and fdatasync", floor),
        ("  overwrite and fdatasync", over),
        ("SQLite alone, in this thread", sqlite),
        ("SqliteJournal, one by one", ours),
    ):
        middle = statistics.median(took)
        print(f"{name:34} {middle * 1e3:9.3f} ms {middle / one:11.2f} x")
    for producers, found in rates.items():
        rate = statistics.median(found)
        name = f"SqliteJournal, {producers:3} at once"
        print(f"{name:34} {1e3 / rate:9.3f} ms {1 / rate / one:11.2f} x  {rate:8.0f} a second")
    print(f"read a record                     {read * 1e6:8.1f} us ({spent * 1e6:.1f} us of CPU)")


def run(arguments: Sequence[str]) -> None:
    """Measure in a folder of the one that is named, and remove it."""
    if arguments[:1] == ["--large"]:
        sessions = int(arguments[1]) if len(arguments) > 1 else 200_000
        kept = Path(arguments[2] if len(arguments) > 2 else tempfile.gettempdir())
        asyncio.run(large_journal.main(kept, sessions))
        return
    with tempfile.TemporaryDirectory(dir=arguments[0] if arguments else ".") as place:
        asyncio.run(main(Path(place)))


if __name__ == "__main__":
    run(sys.argv[1:])
