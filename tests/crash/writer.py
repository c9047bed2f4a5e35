"""A process to kill: `python -m tests.crash.writer PATH` appends for ever and prints each acknowledgement.

Five producers append to five runs at once, so that a kill falls into groups of several records.
"""

from __future__ import annotations

import asyncio
import os
import sys

from holdfast.journal.sqlite import SqliteJournal
from holdfast.testing.journal_conformance import opened


async def produce(journal: SqliteJournal, run: str) -> None:
    number = len(await journal.read(run))
    while True:
        number += 1
        await journal.append(run, opened(number, f"{number}:" + "x" * (number * 37 % 3000)))
        os.write(1, f"{run} {number}\n".encode())


async def main(path: str) -> None:
    journal = SqliteJournal(path)
    os.write(1, b"open 0\n")
    await asyncio.gather(*(produce(journal, f"run-{n}") for n in range(5)))


def work(path: str, out: int) -> None:
    """The same in a forked child: `out` takes the place of standard output."""
    os.dup2(out, 1)
    asyncio.run(main(path))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
