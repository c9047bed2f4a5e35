"""Starts a writer on a file, kills it at a random instant, and checks the file."""

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

from holdfast.journal.files import log_file
from holdfast.journal.sqlite.sqlite_journal import SqliteJournal

MOST = 0.12  # seconds from the start of a writer to its death


def killed(
    path: Path,
    after: float,
    *,
    at_work: bool = False,
    at_start: bool = False,
    deletes: bool = False,
    frames: int = 0,
) -> dict[str, int]:
    """Run a writer for so long, kill it, and return the last number that each run acknowledged.

    Args:
        path: the file.
        after: seconds from its start to its death.
        at_work: whether the time starts with its first acknowledgement, and not with the open file.
        at_start: whether the time starts with the process, which may die while it opens the file.
        deletes: whether it deletes runs beside.
        frames: the length of a log from which it is copied into the file; 0 for the usual one.
    """
    reading, writing = os.pipe()
    # A fork starts in milliseconds; it must come before this process opens any journal or loop.
    child = os.fork()
    if child == 0:
        try:
            os.close(reading)
            log_file.FRAMES_TO_FOLD = frames or log_file.FRAMES_TO_FOLD
            work(str(path), writing, deletes=deletes)
        finally:
            os._exit(1)
    os.close(writing)
    try:
        said = b"" if at_start else _heard(reading)
        assert at_start or said.startswith(b"open 0\n")
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
    """Check everything that a crash must not break, and return the number of records."""

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
    """Kill writers several times on one file; return the kills during work, and the records.

    Half of the kills happen during work, however slow the disk is.
    """
    rng, fell, records = random.Random(seed), 0, 0
    for number in range(rounds):
        path = folder / f"{seed}-{number // 10}.db"
        acknowledged = killed(path, rng.random() * MOST, at_work=number % 2 == 0)
        fell += bool(acknowledged)
        records = look(path, acknowledged)
    return fell, records


def crash_logs(folder: Path, rounds: int, seed: int) -> tuple[int, int]:
    """Do the same with short logs, writers that are killed while they open, and lost notes.

    Returns how many logs were left without a note that vouches for them, and how many records there
    are.
    """
    rng, unknown, records = random.Random(seed), 0, 0
    notes: list[bytes] = [b""]
    acknowledged: dict[str, int] = {}
    for number in range(rounds):
        path = folder / f"{seed}-{number // 10}.db"
        note = Path(f"{path}-wal.json")
        if number % 10 == 0:
            acknowledged, notes = {}, [b""]  # a note of another journal may be believed
        way = rng.choice(("at_start", "at_work", "any"))
        after = rng.random() * (MOST / 4 if way == "at_start" else MOST)
        last = killed(
            path,
            after,
            at_work=way == "at_work",
            at_start=way == "at_start",
            deletes=rng.random() < 0.3,
            frames=rng.choice((10, 30, 100)),
        )
        acknowledged |= {run: max(at, acknowledged.get(run, 0)) for run, at in last.items()}
        _spoil(note, notes, rng)
        unknown += log_file.size_of(f"{path}-wal") > 0 and not log_file.is_noted(str(path))
        if rng.random() < 0.3:
            continue  # the next writer finds what this one left
        records = look(path, acknowledged)
    return unknown, records


def _spoil(note: Path, notes: list[bytes], rng: random.Random) -> None:
    found = note.read_bytes() if note.exists() else None
    match rng.choice(("keep", "delete", "garbage", "older")):
        case "delete":
            note.unlink(missing_ok=True)
        case "garbage":
            note.write_bytes(rng.randbytes(rng.randrange(200)))
        case "older":
            note.write_bytes(rng.choice(notes))
    if found:
        notes.append(found)
