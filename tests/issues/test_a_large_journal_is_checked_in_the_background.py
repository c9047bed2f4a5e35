"""To open a journal of 1.7 GB, all of it was read: 157 seconds when it was not in memory."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from holdfast import SqliteJournal
from holdfast.core.events import TurnOpened
from holdfast.core.messages import user
from holdfast.errors import JournalCorruptError


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "talk.db"


async def write(path: Path, *runs: str) -> None:
    with SqliteJournal(path) as journal:
        for run in runs:
            for number in range(1, 301):
                await journal.append(run, TurnOpened(f"t{number}", 1.0, user(f"{run}-{number}")))


async def find_damage(path: Path) -> list[str]:
    with SqliteJournal(path) as journal:
        for _ in range(500):
            if journal._writer._check.seconds_left() is None:
                break
            await asyncio.sleep(0.01)
        else:
            raise AssertionError("the check did not end")
        return [str(error) for error in journal.damage]


def test_a_changed_record_is_reported_and_the_others_are_read(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    asyncio.run(write(path, "ada", "bob", "eve"))
    assert asyncio.run(find_damage(path)) == []
    path.write_bytes(path.read_bytes().replace(b"bob-280", b"bob-28O", 1))
    (found,) = asyncio.run(find_damage(path))
    assert "run 'bob', record 280" in found
    assert "its checksum is wrong" in found
    assert found in caplog.text
    with SqliteJournal(path) as journal:
        assert len(asyncio.run(journal.read("eve"))) == 300
        with pytest.raises(JournalCorruptError, match="record 280"):
            asyncio.run(journal.read("bob"))


def test_a_damaged_page_is_reported(path: Path) -> None:
    asyncio.run(write(path, "ada", "bob", "eve"))
    data = bytearray(path.read_bytes())
    at = data.index(b"bob-150")
    start = at - at % 4096
    data[start : start + 4096] = bytes(4096)
    path.write_bytes(data)
    found = asyncio.run(find_damage(path))
    assert len(found) == 1
    assert "'bob'" in found[0]
    with SqliteJournal(path) as journal:
        for run in ("ada", "eve"):
            assert len(asyncio.run(journal.read(run))) == 300


def test_a_file_whose_end_is_missing_is_refused(path: Path) -> None:
    asyncio.run(write(path, "ada"))
    data = path.read_bytes()
    path.write_bytes(data[:-4096])
    with pytest.raises(JournalCorruptError, match="is damaged"):
        SqliteJournal(path)
