"""How long a turn waits for what else goes on in a large journal: the last table of `large_journal`.

A turn appends records one after another, each as soon as the one before is saved, on the event loop
of the operation. The time of each append is real time, so it contains what the disk, the scheduler
and other processes take. Three loops alternate in one run, so that a slow moment falls on all:

- "bare" commits a row of the same size with bare SQLite, to a file of its own in the same folder;
- "alone" appends to the journal while nothing else goes on;
- "beside" appends while the operation is repeated.

The collector of Python passes over the objects that exist before (`gc.freeze`): it would hold up all
three for 10 ms and more. "Longest" is that of the calmest round: what an operation does, it does in
each. What "beside" has and "bare" has not is the operation's. "Piece" is the longest time of the processor
that the journal's thread took for anything but an append: no other process makes it longer.
"""

from __future__ import annotations

import asyncio
import gc
import sqlite3
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeAlias

from benchmarks.large_store import LONG, SAID
from holdfast import Sessions, SqliteJournal, user
from holdfast.events import TurnOpened
from holdfast.journal.encoding import encode_event
from holdfast.journal.sqlite import writer
from holdfast.journal.sqlite.sqlite_appends import Append
from holdfast.runtime.sessions.session_pool import SessionPool

Act: TypeAlias = Callable[[SqliteJournal, int], Awaitable[object]]

ROUNDS, SECONDS = 5, 0.8
TURN = "waits"
LONG_WAIT = 5.0
"""Milliseconds that no turn should wait for an operation."""


class Waits:
    """Milliseconds of the appends of each round."""

    def __init__(self) -> None:
        self._rounds: list[list[float]] = []

    def begin_round(self) -> list[float]:
        """Return a list for the appends of the next round."""
        self._rounds.append([])
        return self._rounds[-1]

    @property
    def longest(self) -> float:
        """The longest of the calmest round."""
        return min(map(max, self._rounds))

    @property
    def long_share(self) -> float:
        """How many of 10,000 appends, of all rounds, waited too long."""
        took = [one for each in self._rounds for one in each]
        return 1e4 * sum(one > LONG_WAIT for one in took) / len(took)


def _make_event() -> TurnOpened:
    return TurnOpened(f"t{time.time_ns()}", 1.0, user(SAID))


async def _append_for(journal: SqliteJournal, waits: Waits) -> None:
    took, end = waits.begin_round(), time.perf_counter() + SECONDS
    while (start := time.perf_counter()) < end:
        await journal.append(TURN, _make_event())
        took.append((time.perf_counter() - start) * 1e3)


def _commit_for(connection: sqlite3.Connection, waits: Waits) -> None:
    took, end = waits.begin_round(), time.perf_counter() + SECONDS
    while (start := time.perf_counter()) < end:
        event = _make_event()
        text = encode_event(event)
        connection.execute("INSERT INTO records (key, event) VALUES (?, ?)", (event.key, text))
        took.append((time.perf_counter() - start) * 1e3)


@contextmanager
def _open_bare(folder: Path) -> Iterator[sqlite3.Connection]:
    """A file with as many indexes as records have, and each commit synchronised as in a journal."""
    with TemporaryDirectory(dir=folder) as place:
        path = Path(place) / "bare.db"
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute(
                "CREATE TABLE records (id INTEGER PRIMARY KEY, key TEXT, event TEXT)"
            )
            connection.execute("CREATE INDEX by_key ON records (key)")
            yield connection


async def _append_beside(journal: SqliteJournal, act: Act, waits: Waits, done: int) -> int:
    """Append while the operation is repeated; return how often it was, with those before."""

    async def repeat() -> None:
        nonlocal done
        while True:
            await act(journal, done)
            done += 1

    task = asyncio.ensure_future(repeat())
    await _append_for(journal, waits)
    task.cancel()
    await asyncio.wait([task])
    if not task.cancelled():
        task.result()
    return done


@contextmanager
def watch_pieces() -> Iterator[list[float]]:
    """Yield a list that gets the milliseconds of each piece of the journal's thread."""
    took: list[float] = []
    perform = writer._perform_group  # noqa: SLF001  # REASON: measures an inner part

    def timed(work: Callable[..., None], *arguments: object) -> None:
        start = time.thread_time()
        work(*arguments)
        took.append((time.thread_time() - start) * 1e3)

    def perform_group(*arguments: object) -> None:
        jobs = arguments[-1]
        assert isinstance(jobs, list)
        if all(isinstance(job.work, Append) for job in jobs):
            perform(*arguments)  # type: ignore[arg-type]  # passed on
        else:
            timed(perform, *arguments)

    writer._perform_group = perform_group  # type: ignore[assignment]  # noqa: SLF001  # REASON: as above
    try:
        yield took
    finally:
        writer._perform_group = perform  # noqa: SLF001  # REASON: as above


async def list_sessions(journal: SqliteJournal, _: int) -> None:
    """The latest 20."""
    await Sessions(journal).list(limit=20)


async def show_session(journal: SqliteJournal, number: int) -> None:
    """One in the middle."""
    await Sessions(journal).info(f"s{number % 10_000:07}")


async def resume_session(journal: SqliteJournal, number: int) -> None:
    """Open a session of 24 records for its next turn."""
    async with SessionPool(journal).open_session(f"s{number % 10_000:07}"):
        pass


async def fork_session(journal: SqliteJournal, number: int) -> None:
    """Copy a session of 24 records."""
    await Sessions(journal).fork(f"s{number % 10_000:07}", to=f"wait-copy-{time.time_ns()}")


async def fork_and_delete(journal: SqliteJournal, number: int) -> None:
    """Copy a session of 24 records, and delete the copy."""
    copy = await Sessions(journal).fork(f"s{number % 10_000:07}")
    await Sessions(journal).delete(copy)


async def search_sessions(journal: SqliteJournal, number: int) -> None:
    """A text that is found only by a scan."""
    await Sessions(journal).search(f"north. {number}!")


async def read_pictures(journal: SqliteJournal, _: int) -> None:
    """A long run with a picture in each turn."""
    await journal.read(LONG)


ACTS: dict[str, Act] = {
    "list(20)": list_sessions,
    "info": show_session,
    "resume": resume_session,
    "fork": fork_session,
    "fork and delete": fork_and_delete,
    "search": search_sessions,
    "read a run with pictures": read_pictures,
}


async def _measure(path: Path, act: Act) -> tuple[list[Waits], int]:
    """Return the waits bare, alone and beside, and how often the operation was done."""
    bare, alone, beside, done = Waits(), Waits(), Waits(), 0
    with SqliteJournal(path) as journal, _open_bare(path.parent) as connection:
        for _ in range(ROUNDS):
            _commit_for(connection, bare)
            await _append_for(journal, alone)
            done = await _append_beside(journal, act, beside, done)
        copies = await journal.find_runs("wait-copy-", "wait-copy-~")
        for entry in copies:
            await journal.delete(entry.run)
        await journal.delete(TURN)
    return [bare, alone, beside], done


async def print_waits(path: Path) -> None:
    """Measure and print."""
    gc.collect()
    gc.freeze()
    print(f"\na turn waits, ms{'longest:':>21}{'':16}over {LONG_WAIT:.0f} ms, of 10,000:")
    print(f"{'':27}{'  bare   alone  beside    ' * 2}  times  piece")
    for name, act in ACTS.items():
        with watch_pieces() as pieces:
            waits, times = await _measure(path, act)
        longest = "".join(f"{one.longest:8.1f}" for one in waits)
        share = "".join(f"{one.long_share:8.1f}" for one in waits)
        piece = max(pieces, default=0.0)
        print(f"{name:25}{longest}  {share}  {times:7}{piece:7.1f}", flush=True)
