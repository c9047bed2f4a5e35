"""A process that tests kill: `python -m tests.crash.writer PATH` appends forever and prints each acknowledgement.

Five producers append to five runs at once, so that a kill interrupts groups of several records.
"""

from __future__ import annotations

import asyncio
import os
import sys

from holdfast.journal.sqlite.sqlite_journal import SqliteJournal
from holdfast.testing.journal_conformance import make_turn_opened


async def produce(journal: SqliteJournal, run: str) -> None:
    number = len(await journal.read(run))
    while True:
        number += 1
        await journal.append(
            run, make_turn_opened(number, f"{number}:" + "x" * (number * 37 % 3000))
        )
        os.write(1, f"{run} {number}\n".encode())


async def delete(journal: SqliteJournal) -> None:
    number = 0
    while True:
        number += 1
        run = f"gone-{os.getpid()}-{number}"
        for at in range(1, 5):
            await journal.append(run, make_turn_opened(at, f"{at}:" + "x" * (at * 37 % 3000)))
        await journal.delete(run)


async def main(path: str, *, deletes: bool = False) -> None:
    journal = SqliteJournal(path)
    os.write(1, b"open 0\n")
    others = [delete(journal)] if deletes else []
    await asyncio.gather(*(produce(journal, f"run-{n}") for n in range(5)), *others)


def work(path: str, out: int, *, deletes: bool = False) -> None:
    """Do the same in a forked child that prints to `out`."""
    os.dup2(out, 1)
    asyncio.run(main(path, deletes=deletes))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
