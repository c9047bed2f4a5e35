"""Reading, copying or deleting a long session was one piece of work, for which every append waited."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable
from pathlib import Path

import pytest

from holdfast import SqliteJournal, user
from holdfast.core.events import ModelReplied, Status, TurnClosed, TurnOpened
from holdfast.core.messages import Media, Reply, Text
from holdfast.journal import Record, hidden_runs
from holdfast.sessions import Sessions

TURNS = 1500


def make_turn(turn: int, *parts: Media) -> list[Record]:
    return [
        Record(TurnOpened(f"t{turn}", 1.0, user("What does secretly written mean?", *parts))),
        Record(ModelReplied(f"t{turn}.i0.model", 1.0, Reply((Text("No idea. " * 50),)))),
        Record(TurnClosed(f"t{turn}.closed", 1.0, Status.COMPLETED)),
    ]


@pytest.fixture
async def journal(tmp_path: Path) -> AsyncIterator[SqliteJournal]:
    with SqliteJournal(tmp_path / "talk.db") as journal:
        records = [record for turn in range(1, TURNS + 1) for record in make_turn(turn)]
        await journal.restore({"long": records})
        yield journal


async def count_appends(journal: SqliteJournal, beside: Awaitable[object]) -> int:
    """Append one record after another until something else is done; return how many were saved."""
    task, count = asyncio.ensure_future(beside), 0
    while not task.done():
        await journal.append("turn", TurnOpened(f"t{count}", 1.0, user("Hi.")))
        count += 1
    await task
    return count


async def test_appends_continue_while_a_long_session_is_deleted(journal: SqliteJournal) -> None:
    assert await count_appends(journal, journal.delete("long")) > 10
    assert await journal.read("long") == []


async def test_appends_continue_while_a_long_session_is_copied(journal: SqliteJournal) -> None:
    records = await journal.read("long")
    assert await count_appends(journal, journal.restore({"copy": records})) > 10
    assert await journal.read("copy") == records


async def test_appends_continue_while_pictures_are_read(journal: SqliteJournal) -> None:
    """256 rows were one piece, with all their pictures."""
    pictures = [Media("image/png", bytes([turn]) * 300_000) for turn in range(1, 60)]
    records = [r for turn, picture in enumerate(pictures, 1) for r in make_turn(turn, picture)]
    await journal.restore({"pictures": records})
    assert await count_appends(journal, journal.read("pictures")) > 10


async def test_a_copy_that_is_cancelled_leaves_nothing(journal: SqliteJournal) -> None:
    records = await journal.read("long")
    task = asyncio.ensure_future(journal.restore({"copy": records}))
    while not await journal._read(hidden_runs.find_hidden):
        await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()
    assert await journal.read("copy") == []
    assert await journal.tenants() == [""]
    while await journal._read(hidden_runs.find_hidden):
        await asyncio.sleep(0.01)
    assert await journal.count_orphans() == 0
    await journal.restore({"copy": records})
    assert await journal.read("copy") == records


async def test_a_deleted_long_session_cannot_be_found_in_the_file(journal: SqliteJournal) -> None:
    await Sessions(journal).delete("long")
    files = [path for path in Path(journal.path).parent.iterdir() if path.is_file()]
    assert not any(b"secretly written" in path.read_bytes() for path in files)
