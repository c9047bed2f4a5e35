"""What keeping a record costs, next to a raw append and fdatasync: `python -m benchmarks.journal`.

Rounds of both sides alternate, so that a slow moment of the disk falls on both. The raw side writes
the same text to a file that grows, which no durable journal can do in less.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

from holdfast import ModelReplied, Reply, SqliteJournal, Text, Usage
from holdfast.journal.encoding import encode, line_of
from holdfast.journal.port import Record

ROUNDS, APPENDS = 10, 60
MANY = (10, 100)


def event(number: int) -> ModelReplied:
    """An ordinary reply of some hundred characters."""
    reply = Reply((Text("All work and no play. " * 20),), usage=Usage(900, 120), model="bench")
    return ModelReplied(f"t{number}.i0.model", 1.0, reply)


def raw(folder: Path) -> list[float]:
    """Seconds of each append."""
    took = []
    line = encode(line_of("r", 1, Record(event(1)))) + b"\n"
    out = os.open(folder / "raw.jsonl", os.O_CREAT | os.O_APPEND | os.O_WRONLY)
    for _ in range(APPENDS):
        start = time.perf_counter()
        os.write(out, line)
        os.fdatasync(out)
        took.append(time.perf_counter() - start)
    os.close(out)
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


async def main(folder: Path) -> None:
    """Measure in this folder, and print."""
    floor: list[float] = []
    ours: list[float] = []
    rates: dict[int, list[float]] = {producers: [] for producers in MANY}
    with SqliteJournal(folder / "bench.db") as journal:
        for number in range(ROUNDS):
            floor += raw(folder)
            ours += await one_by_one(journal, f"r{number}")
            for producers in MANY:
                rates[producers].append(
                    await together(journal, f"m{number}-{producers}", producers)
                )
        start, cpu = time.perf_counter(), time.process_time()
        kept = [await journal.read(f"r{number}") for number in range(ROUNDS)]
        read = (time.perf_counter() - start) / sum(map(len, kept))
        spent = (time.process_time() - cpu) / sum(map(len, kept))
    middle, ours_middle = statistics.median(floor), statistics.median(ours)
    print(f"append and fdatasync, one by one  {middle * 1e3:8.2f} ms at p50")
    print(f"SqliteJournal, one by one         {ours_middle * 1e3:8.2f} ms at p50")
    print(f"  for one raw append              {ours_middle / middle:8.2f} x")
    for producers, found in rates.items():
        print(
            f"SqliteJournal, {producers:3} at once       {statistics.median(found):8.0f} a second"
        )
    print(f"read a record                     {read * 1e6:8.1f} us ({spent * 1e6:.1f} us of CPU)")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(dir=sys.argv[1] if len(sys.argv) > 1 else ".") as place:
        asyncio.run(main(Path(place)))
