"""How long a turn waits for what else goes on in a large journal: the last table of `large_journal`.

A turn appends records one after another, each as soon as the one before is saved, on the event loop
of the operation. Beside the longest append stands the longest of the same time without an operation,
because the disk, other processes and the collector of Python hold up a turn as well. "Piece" is the
longest time of the processor that the journal's thread took for anything but an append: no other
process makes it longer.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, TypeAlias

from benchmarks.large_store import LONG, SAID
from holdfast import Sessions, SqliteJournal, user
from holdfast.events import TurnOpened
from holdfast.journal import writer
from holdfast.journal.background_check import BackgroundCheck
from holdfast.journal.sqlite_appends import Append

Act: TypeAlias = Callable[[SqliteJournal, int], Awaitable[object]]

SECONDS = 3.0
TURN = "waits"


class Waits(NamedTuple):
    """Milliseconds of the appends: the longest, the 99th percentile, and how many there were."""

    longest: float
    ninety_nine: float
    appends: int


async def _append_for(journal: SqliteJournal, seconds: float) -> Waits:
    took: list[float] = []
    end = time.perf_counter() + seconds
    while (start := time.perf_counter()) < end:
        await journal.append(TURN, TurnOpened(f"t{time.time_ns()}", 1.0, user(SAID)))
        took.append((time.perf_counter() - start) * 1e3)
    took.sort()
    return Waits(took[-1], took[int(len(took) * 0.99)], len(took))


async def _measure_beside(journal: SqliteJournal, act: Act | None) -> tuple[Waits, int]:
    """Append while the operation is repeated; return also how often it was."""
    count = 0

    async def repeat() -> None:
        nonlocal count
        while act is not None:
            await act(journal, count)
            count += 1

    task = asyncio.ensure_future(repeat())
    waits = await _append_for(journal, SECONDS)
    task.cancel()
    await asyncio.wait([task])
    if not task.cancelled():
        task.result()
    return waits, count


@contextmanager
def watch_pieces() -> Iterator[list[float]]:
    """Yield a list that gets the milliseconds of each piece of the journal's thread."""
    took: list[float] = []
    perform, check = writer._perform_group, BackgroundCheck.check_some  # noqa: SLF001  # REASON: measures an inner part

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

    def check_some(*arguments: object) -> None:
        timed(check, *arguments)

    writer._perform_group = perform_group  # type: ignore[assignment]  # noqa: SLF001  # REASON: as above
    BackgroundCheck.check_some = check_some  # type: ignore[assignment, method-assign]  # put back below
    try:
        yield took
    finally:
        writer._perform_group = perform  # noqa: SLF001  # REASON: as above
        BackgroundCheck.check_some = check  # type: ignore[method-assign]  # as it was


async def list_sessions(journal: SqliteJournal, _: int) -> None:
    """The latest 20."""
    await Sessions(journal).list(limit=20)


async def show_session(journal: SqliteJournal, number: int) -> None:
    """One in the middle."""
    await Sessions(journal).info(f"s{number % 10_000:07}")


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


async def idle(_: SqliteJournal, __: int) -> None:
    """Nothing but the check in the background, which begins when the journal is opened."""
    await asyncio.sleep(0.01)


ACTS: dict[str, Act] = {
    "background check": idle,
    "list(20)": list_sessions,
    "info": show_session,
    "fork and delete": fork_and_delete,
    "search": search_sessions,
    "read a run with pictures": read_pictures,
}


async def print_waits(path: Path) -> None:
    """Measure and print."""
    print(f"\na turn waits (ms){'':10}{'longest alone':>15}{'beside':>9}{'99 % alone':>13}", end="")
    print(f"{'beside':>9}{'appends':>10}{'times':>8}{'piece':>8}")
    for name, act in ACTS.items():
        with watch_pieces() as pieces, SqliteJournal(path) as journal:
            alone, _ = await _measure_beside(journal, None)
            beside, times = await _measure_beside(journal, act)
            await journal.delete(TURN)
        numbers = (alone.longest, beside.longest, alone.ninety_nine, beside.ninety_nine)
        columns = "{:15.1f}{:9.1f}{:13.1f}{:9.1f}".format(*numbers)
        print(f"{name:27}{columns}{beside.appends:10}{times:8}{max(pieces):8.1f}", flush=True)
