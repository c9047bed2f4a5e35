"""One round: start a writer on the file, kill it at a random instant, and look at what is left."""

from __future__ import annotations

import asyncio
import os
import random
import select
import signal
import time
from collections import defaultdict
from pathlib import Path

from tests.crash.writer import work

from holdfast.journal.sqlite import SqliteJournal

MOST = 0.12  # seconds from the start of a writer to its death


def killed(path: Path, after: float, *, at_work: bool = False) -> dict[str, int]:
    """Run a writer for so long, kill it, and return the last number that each run acknowledged.

    Args:
        path: the file.
        after: seconds from its start to its death.
        at_work: whether it starts with its first acknowledgement, and not with the open file.
    """
    reading, writing = os.pipe()
    # A fork starts in milliseconds; it must come before this process opens any journal or loop.
    child = os.fork()
    if child == 0:
        try:
            os.close(reading)
            work(str(path), writing)
        finally:
            os._exit(1)
    os.close(writing)
    try:
        said = _heard(reading)
        assert said.startswith(b"open 0\n")
        while at_work and said == b"open 0\n":
            said += _heard(reading)
        time.sleep(after)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    while piece := os.read(reading, 65536):
        said += piece
    os.close(reading)
    last: dict[str, int] = defaultdict(int)
    for line in said.decode().splitlines()[1:]:
        run, _, number = line.partition(" ")
        last[run] = int(number)
    return last


def _heard(reading: int) -> bytes:
    ready, _, _ = select.select([reading], [], [], 60)
    assert ready, "the writer does not begin"
    piece = os.read(reading, 65536)
    assert piece, "the writer has ended"
    return piece


def look(path: Path, acknowledged: dict[str, int]) -> int:
    """Check everything that a crash must not break; returns how many records are there."""

    async def everything() -> int:
        found = 0
        # Opening checks the integrity of the file.
        with SqliteJournal(path) as journal:
            for run, number in acknowledged.items():
                assert len(await journal.read(run)) >= number, f"{run}: an acknowledged one is lost"
            for entry in await journal.runs():
                for at, record in enumerate(await journal.read(entry.run), 1):
                    event = record.event
                    assert event.key == f"t{at}"
                    assert event.message.text == f"{at}:" + "x" * (at * 37 % 3000)
                    found += 1
        return found

    return asyncio.run(everything())


def crash(folder: Path, rounds: int, seed: int) -> tuple[int, int]:
    """Kill so often, several times on one file; returns kills that fell on work, and records.

    Half of them fall on work, however slow the disk is.
    """
    dice, fell, records = random.Random(seed), 0, 0
    for number in range(rounds):
        path = folder / f"{seed}-{number // 10}.db"
        acknowledged = killed(path, dice.random() * MOST, at_work=number % 2 == 0)
        fell += bool(acknowledged)
        records = look(path, acknowledged)
    return fell, records
