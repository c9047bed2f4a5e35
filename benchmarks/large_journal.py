"""A journal with many sessions, beside bare SQLite: `python -m benchmarks.journal --large [SESSIONS]`.

It makes sessions of 24 records, and measures each operation with the file dropped from the cache of
the system before (`posix_fadvise`). "Bare" is the least that SQLite itself does for the same. "A turn
waits" is the longest append while the operation is repeated.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import statistics
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TypeAlias

from holdfast import Event, ModelReplied, Reply, Sessions, SqliteJournal, Status, Text, Usage, user
from holdfast.events import TurnClosed, TurnOpened
from holdfast.journal import Record
from holdfast.runtime.sessions.session_pool import SessionPool

SAID = "It will be sunny in Porto, with a light wind from the north. " * 2
Act: TypeAlias = Callable[[SqliteJournal, int], Awaitable[object]]

TURNS = 8  # of three records
ROUNDS = 7


def make_session(number: int) -> Sequence[Record]:
    """Eight turns of three records."""
    records: list[Event] = []
    for turn in range(1, TURNS + 1):
        at = number * 10.0 + turn
        reply = Reply((Text(SAID),), usage=Usage(900, 120), model="bench")
        records.append(TurnOpened(f"t{turn}", at, user(f"{SAID} {number}")))
        records.append(ModelReplied(f"t{turn}.i0.model", at, reply))
        records.append(TurnClosed(f"t{turn}.closed", at, Status.COMPLETED))
    return [Record(event) for event in records]


async def fill_journal(path: Path, sessions: int) -> None:
    """Make the sessions, with the records of a hundred sessions interleaved as agents write them."""
    with SqliteJournal(path) as journal:
        for first in range(0, sessions, 100):
            numbers = range(first, min(first + 100, sessions))
            await journal.restore({f"s{n:07}": make_session(n) for n in numbers})


def drop_cache(path: Path) -> None:
    """Drop the file from the cache of the system."""
    for name in (path, Path(f"{path}-wal")):
        if name.exists():
            out = os.open(name, os.O_RDONLY)
            os.fsync(out)
            os.posix_fadvise(out, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(out)


def measure_bare(path: Path, statement: str, values: Sequence[object]) -> float:
    """Milliseconds to open the file with bare SQLite and run one statement."""
    drop_cache(path)
    start = time.perf_counter()
    connection = sqlite3.connect(path)
    connection.execute(statement, values).fetchall()
    took = time.perf_counter() - start
    connection.close()
    return took * 1e3


async def measure_cold(path: Path, act: Act, rounds: int = ROUNDS) -> float:
    """Milliseconds of an operation in a journal that was just opened, the middle of some rounds."""
    took = []
    for number in range(rounds):
        with SqliteJournal(path) as journal:
            drop_cache(path)
            start = time.perf_counter()
            await act(journal, number)
            took.append(time.perf_counter() - start)
    return statistics.median(took) * 1e3


async def measure_wait(path: Path, act: Act) -> tuple[float, float]:
    """Milliseconds that an append takes alone and beside the operation: the 99th percentile."""
    with SqliteJournal(path) as journal:
        alone = await _measure_appends(journal, 150)
        running = True

        async def repeat() -> None:
            number = ROUNDS
            while running:
                await act(journal, number)
                number += 1

        task = asyncio.ensure_future(repeat())
        beside = await _measure_appends(journal, 150)
        running = False
        task.cancel()
        await asyncio.wait([task])
        await journal.delete("waits")
    return alone, beside


async def _measure_appends(journal: SqliteJournal, count: int) -> float:
    took = []
    for _ in range(count):
        event = TurnOpened(f"t{time.time_ns()}", 1.0, user(SAID))
        start = time.perf_counter()
        await journal.append("waits", event)
        took.append(time.perf_counter() - start)
    return sorted(took)[int(len(took) * 0.99)] * 1e3


def measure_open(path: Path) -> float:
    """Milliseconds to open the journal, the middle of some rounds."""
    took = []
    for _ in range(ROUNDS):
        drop_cache(path)
        start = time.perf_counter()
        journal = SqliteJournal(path)
        took.append(time.perf_counter() - start)
        journal.close()
    return statistics.median(took) * 1e3


async def list_sessions(journal: SqliteJournal, _: int) -> None:
    """The latest 20."""
    await Sessions(journal).list(limit=20)


async def show_session(journal: SqliteJournal, number: int) -> None:
    """One in the middle."""
    await Sessions(journal).info(f"s{number + 5000:07}")


async def fork_session(journal: SqliteJournal, number: int) -> None:
    """One in the middle."""
    await Sessions(journal).fork(f"s{number + 6000:07}")


async def delete_session(journal: SqliteJournal, number: int) -> None:
    """A copy of one; copies are made before."""
    await Sessions(journal).delete(f"copy-{number}")


async def search_sessions(journal: SqliteJournal, number: int) -> None:
    """A text of one message, which is found only by a scan."""
    await Sessions(journal).search(f"north. {number}!")


async def list_open(journal: SqliteJournal, _: int) -> None:
    """What a recovery lists when nothing is open."""
    await journal.runs(turn_open=True)


async def resume_session(journal: SqliteJournal, number: int) -> None:
    """Open a session for its next turn."""
    async with SessionPool(journal).open_session(f"s{number + 7000:07}"):
        pass


_HEAD = "SELECT * FROM runs WHERE tenant = '' AND name = ?"
_OF_RUN = (
    "SELECT * FROM records WHERE run = (SELECT id FROM runs WHERE tenant = '' AND name = ?)"
    " ORDER BY seq"
)
_LATEST = "SELECT * FROM runs WHERE NOT turn_open AND NOT nested ORDER BY changed_at DESC LIMIT 20"
_SCAN = "SELECT COUNT(*) FROM records WHERE event LIKE ?"


async def main(folder: Path, sessions: int) -> None:
    """Make the journal in this folder, measure, and print."""
    path = folder / "large.db"
    start = time.perf_counter()
    await fill_journal(path, sessions)
    size = path.stat().st_size
    records = sessions * TURNS * 3
    print(f"{sessions} sessions, {records} records, {size / 2**20:.0f} MB", end="")
    print(f", made in {time.perf_counter() - start:.0f} s; milliseconds, cold")
    print(f"\n{'':24}{'bare':>9}{'ours':>9}{'append alone':>15}{'append beside':>15}")
    print(f"{'open':24}{measure_bare(path, _HEAD, ['s0000001']):9.1f}{measure_open(path):9.1f}")
    acts: list[tuple[str, Act, str, list[object]]] = [
        ("list(20)", list_sessions, _LATEST, []),
        ("info", show_session, _OF_RUN, ["s0005000"]),
        ("resume", resume_session, _OF_RUN, ["s0007000"]),
        ("fork of 24 records", fork_session, _OF_RUN, ["s0006000"]),
        ("delete of 24 records", delete_session, _OF_RUN, ["s0008000"]),
        ("open runs", list_open, "SELECT * FROM runs WHERE turn_open", []),
        ("search", search_sessions, _SCAN, ["%north. 7!%"]),
    ]
    await _make_copies(path)
    for name, act, statement, values in acts:
        bare = measure_bare(path, statement, values)
        ours = await measure_cold(path, act, 1 if act is search_sessions else ROUNDS)
        waits = ""
        if act is not delete_session:
            alone, beside = await measure_wait(path, act)
            waits = f"{alone:15.1f}{beside:15.1f}"
        print(f"{name:24}{bare:9.1f}{ours:9.1f}{waits}")


async def _make_copies(path: Path) -> None:
    with SqliteJournal(path) as journal:
        for number in range(ROUNDS):
            await Sessions(journal).fork(f"s{number + 8000:07}", to=f"copy-{number}")
