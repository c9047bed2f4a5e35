"""What a file says about its runs without reading their records equals what the records say."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast import SqliteJournal
from holdfast.core.errors import ConflictError
from holdfast.core.events import Event, SessionTitled, Status, TurnClosed, TurnOpened
from holdfast.core.messages import user
from holdfast.journal.port import Record

NAMES = st.sampled_from(["", "a", "a/:title", "a/b", "ü", "z" * 50])
STEPS = st.lists(st.tuples(NAMES, st.sampled_from(["turn", "open", "title"])), max_size=12)


def events(kind: str, number: int) -> list[Event]:
    opened = TurnOpened(f"t{number}", float(number), user("hi"), agent=f"agent {number}")
    closed = TurnClosed(f"t{number}.closed", number + 0.5, Status.COMPLETED)
    if kind == "title":
        return [SessionTitled(f"t{number}", float(number), "x")]
    return [opened, closed] if kind == "turn" else [opened]


@pytest.mark.slow  # takes half a second or more
@given(STEPS)
def test_keys_and_records_are_found_as_they_are_read(steps: list[tuple[str, str]]) -> None:
    async def compare(journal: SqliteJournal) -> None:
        for number, (run, kind) in enumerate(steps, 1):
            for event in events(kind, number):
                await journal.append(run, event)
        for entry in await journal.runs():
            kept = await journal.read(entry.run)
            assert list(await journal.keys(entry.run)) == [r.event.key for r in kept]
            assert list(await journal.read_by_keys(entry.run, [r.event.key for r in kept])) == list(
                kept
            )

    with tempfile.TemporaryDirectory() as folder, SqliteJournal(f"{folder}/talk.db") as journal:
        asyncio.run(compare(journal))


@pytest.mark.anyio
async def test_runs_are_restored_whole_or_not_at_all(tmp_path: Path) -> None:
    records = [Record(event, "abc") for n in range(1, 700) for event in events("turn", n)]
    with SqliteJournal(tmp_path / "talk.db") as journal:
        await journal.append("there", records[0].event)
        with pytest.raises(ConflictError):
            await journal.restore({"new": records, "there": records})
        assert [entry.run for entry in await journal.runs()] == ["there"]
        await journal.restore({"new": records, "other": records[:1]})
        assert list(await journal.read("new")) == records
        keys = [record.event.key for record in records]
        assert list(await journal.read_by_keys("new", keys[::-1])) == records
        assert list(await journal.read_by_keys("new", [])) == []
