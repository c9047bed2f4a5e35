"""A journal with many sessions, beside bare SQLite: `python -m benchmarks.journal --large [SESSIONS [FOLDER]]`.

It makes sessions of 24 records once in the folder, or in that for temporary files, and measures each
operation with the file dropped from the cache of the system before (`posix_fadvise`). "Bare" is the
least that SQLite itself does for the same. Then it measures 10,000 open turns, the bytes of a record,
the memory of this process, and how long a turn waits beside the operations: see `large_waits`.
"""

from __future__ import annotations

import os
import resource
import sqlite3
import statistics
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from benchmarks import large_waits
from benchmarks.large_store import LONG, TURNS, add_long_run, make_large_store, make_turn
from benchmarks.large_waits import Act, list_sessions
from holdfast import Agent, Sessions, SqliteJournal
from holdfast.journal import Record
from holdfast.runtime.sessions.session_pool import SessionPool
from holdfast.testing import ScriptedModel

ROUNDS = 7
OPEN_TURNS = 10_000


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
    """Make the journal in this folder if it is not there, measure, and print."""
    path = folder / f"holdfast-{sessions}-sessions.db"
    start = time.perf_counter()
    if not path.exists():
        make_large_store(path, sessions)
        print(f"made in {time.perf_counter() - start:.0f} s", end="; ")
    size, records = path.stat().st_size, sessions * TURNS * 3
    print(f"{sessions} sessions, {records} records, {size / 2**20:.0f} MB; milliseconds, cold")
    print(f"\n{'':24}{'bare':>9}{'ours':>9}")
    _print_row("open", measure_bare(path, _HEAD, ["s0000001"]), measure_open(path))
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
        rounds = 1 if act is search_sessions else ROUNDS
        _print_row(name, bare, await measure_cold(path, act, rounds))
    await measure_open_turns(path)
    print_bytes(path)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"the most memory of this process: {memory:.0f} MB")
    with SqliteJournal(path) as journal:
        if not await journal.find_runs(LONG, LONG):
            await add_long_run(journal)
    await large_waits.print_waits(path)


def _print_row(name: str, bare: float, ours: float) -> None:
    print(f"{name:24}{bare:9.1f}{ours:9.1f}", flush=True)


async def _make_copies(path: Path) -> None:
    with SqliteJournal(path) as journal:
        for number in range(ROUNDS):
            await journal.delete(f"copy-{number}")
            await Sessions(journal).fork(f"s{number + 8000:07}", to=f"copy-{number}")


async def measure_open_turns(path: Path) -> None:
    """Open turns as a killed process leaves them; list and recover them."""
    names = [f"open{number:05}" for number in range(OPEN_TURNS)]
    opened, replied, _ = make_turn(1, time.time(), "Hello")
    with SqliteJournal(path) as journal:
        await journal.delete(*names)
        agent = Agent(ScriptedModel(*[replied.reply] * OPEN_TURNS), journal=journal, name="bench")
        first = [Record(msgspec.structs.replace(opened, agent="bench"))]
        await journal.restore(dict.fromkeys(names, first))
        start = time.perf_counter()
        found = await journal.runs(turn_open=True)
        listed = time.perf_counter()
        done = await agent.recover()
        recovered = time.perf_counter()
        assert len(found) == len(done) == OPEN_TURNS
        await journal.delete(*names)
    print(f"{OPEN_TURNS} open turns: listed in {(listed - start) * 1e3:.0f} ms,", end=" ")
    print(f"recovered in {recovered - listed:.1f} s")


def print_bytes(path: Path) -> None:
    """The bytes of a record, with checksum and indexes, over the JSON of its event."""
    connection = sqlite3.connect(path)
    pages, free, page = (
        connection.execute(f"PRAGMA {name}").fetchone()[0]
        for name in ("page_count", "freelist_count", "page_size")
    )
    count, json = connection.execute("SELECT COUNT(*), SUM(LENGTH(event)) FROM records").fetchone()
    media = connection.execute("SELECT COALESCE(SUM(LENGTH(data)), 0) FROM media").fetchone()[0]
    connection.close()
    over = ((pages - free) * page - media - json) / count
    print(f"bytes of a record over the JSON of its event: {over:.0f}")
