"""A picture is kept once in a file, however many records, snapshots and sessions contain it."""

from __future__ import annotations

import asyncio
import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from tests.journal.writing_process import run_command

from holdfast import Agent, Media, SqliteJournal, Text, user
from holdfast.errors import JournalCorruptError
from holdfast.events import TurnOpened
from holdfast.journal import ReadOnlySqliteJournal, backup_file
from holdfast.journal.sqlite.sqlite_queries import restore_row_media
from holdfast.testing import ScriptedModel


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "talk.db"


def opened(data: bytes, number: int = 1) -> TurnOpened:
    parts = (Text("Look."), Media("image/png", data=data, name="a.png"))
    return TurnOpened(f"t{number}", 1.0, user(*parts), agent="agent")


def count_media(path: Path) -> tuple[int, int]:
    with closing(sqlite3.connect(path)) as connection:
        (media,) = connection.execute("SELECT COUNT(*) FROM media").fetchone()
        (uses,) = connection.execute("SELECT COUNT(*) FROM media_uses").fetchone()
    return media, uses


@pytest.mark.slow  # takes half a second or more
async def test_a_large_picture_is_kept_once(path: Path, tmp_path: Path) -> None:
    picture = os.urandom(1_000_000)
    parts = (Text("What is it?"), Media("image/png", data=picture))
    with SqliteJournal(path) as journal:
        agent = Agent(ScriptedModel(*["A cat."] * 30), journal=journal)
        for _ in range(3):
            await agent.run(parts, session="ada")
        for _ in range(20):  # enough for several snapshots
            await agent.run("And?", session="ada")
        await agent.sessions.fork("ada", to="eve")
        lines = [line async for line in agent.sessions.export("ada")]
        await agent.sessions.import_(lines, session="ivy")
        result = await agent.run("Again?", session="eve")
        assert result.messages[0].parts[1] == Media("image/png", data=picture)
    assert path.stat().st_size < 1_700_000  # noqa: ASYNC240  # REASON: a test
    assert count_media(path) == (1, 3)
    with SqliteJournal(path) as journal:  # a new process reads the snapshot
        agent = Agent(ScriptedModel("Yes."), journal=journal)
        result = await agent.run("A cat?", session="ada")
        assert [
            part.data
            for message in result.messages
            for part in message.parts
            if isinstance(part, Media)
        ] == [picture] * 3
    copy = backup_file(path, tmp_path / "copy.db")
    with ReadOnlySqliteJournal(copy.path) as reader:
        first = (await reader.read("ivy"))[0].event
        assert isinstance(first, TurnOpened)
        assert first.message.parts[1] == Media("image/png", data=picture)


@pytest.mark.slow  # takes half a second or more
@pytest.mark.parametrize("size", [0, 1, 2, 3, 3071, 3072, 3073, 3074, 100_001])
@pytest.mark.parametrize("content", [b"\0", b"\xff", b"@"])
async def test_bytes_of_every_size_are_read_back(path: Path, size: int, content: bytes) -> None:
    event = opened(content * size)
    with SqliteJournal(path) as journal:
        await journal.append("ada", event)
        assert [one.event for one in await journal.read("ada")] == [event]
        assert [one.event for one in await journal.read_by_keys("ada", ["t1"])] == [event]
    assert run_command("journal", "verify", path).returncode == 0


async def test_text_that_looks_like_a_reference_stays_text(path: Path) -> None:
    picture = os.urandom(5000)
    with SqliteJournal(path) as journal:
        await journal.append("ada", opened(picture))
        with closing(sqlite3.connect(path)) as connection:
            (digest,) = connection.execute("SELECT digest FROM media").fetchone()
        texts = [
            f'"data":"\\u0040{digest}"',
            f'{{"data":"@{digest}"}}',
            '"data":"' + "A" * 5000 + '"',
            f"@{digest}",
        ]
        extra = {"data": f"@{digest}", "more": {"data": "A" * 5001, "x": [{"data": "B" * 8000}]}}
        for number, text in enumerate(texts, 2):
            parts = (Text(text), Media("image/png", url="https://x.example", extra=extra))
            event = TurnOpened(f"t{number}", 1.0, user(*parts), agent="agent")
            await journal.append("ada", event)
            assert (await journal.read("ada"))[-1].event == event


async def test_the_last_deletion_deletes_the_bytes(path: Path) -> None:
    secret = b"SECRET-BYTES" * 1000
    with SqliteJournal(path) as journal:
        await journal.append("ada", opened(secret))
        await journal.append("bob", opened(secret))
        await journal.for_tenant("other").append("ada", opened(secret))
        await journal.delete("ada")
        assert (await journal.read("bob"))[0].event == opened(secret)
        await journal.delete("bob")
        assert (await journal.for_tenant("other").read("ada"))[0].event == opened(secret)
        await journal.for_tenant("other").delete("ada")
        for file in path.parent.iterdir():  # REASON: a test
            assert b"SECRET-BYTES" not in file.read_bytes(), file
    assert count_media(path) == (0, 0)


@pytest.mark.slow  # takes half a second or more
@pytest.mark.parametrize(
    "statement",
    ["DELETE FROM media", "UPDATE media SET data = zeroblob(9)", "UPDATE media SET data = 'text'"],
)
async def test_changed_bytes_are_found(path: Path, statement: str) -> None:
    with SqliteJournal(path) as journal:
        await journal.append("ada", opened(b"x" * 9000))
        await journal.append("bob", opened(b"small"))
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(statement)
        connection.commit()
    with SqliteJournal(path) as journal:
        with pytest.raises(JournalCorruptError, match="'ada', record 1"):
            await journal.read("ada")
        assert len(await journal.read("bob")) == 1
    done = run_command("journal", "verify", path)
    assert done.returncode == 1
    assert "'ada', record 1" in done.stdout


async def test_a_picture_is_in_a_long_run_that_is_read_in_pieces(path: Path) -> None:
    events = [opened(b"x" * 9000, number) for number in range(1, 301)]
    with SqliteJournal(path) as journal:
        for event in events:
            await journal.append("ada", event)
        assert [one.event for one in await journal.read("ada")] == events
        assert [one.run for one in await journal.recent_runs(10)] == ["ada"]
        assert [one.run for one in await journal.find_runs("a", "b")] == ["ada"]


def test_the_size_of_a_session_includes_its_media(path: Path) -> None:
    with SqliteJournal(path) as journal:
        asyncio.run(journal.append("ada", opened(b"x" * 9000)))
        assert 9000 < asyncio.run(journal.sizes())["ada"] < 9500


def test_an_event_that_is_no_text_is_read_as_it_is() -> None:
    row = (*[None] * 7, b"\xff", "after it")  # as a damaged file may hold it
    with closing(sqlite3.connect(":memory:")) as connection:
        assert restore_row_media(connection, row) == row
