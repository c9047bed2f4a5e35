"""An invalid number in a record ended the thread of the journal, and all callers waited forever."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path

import pytest

from holdfast import Agent, SqliteJournal
from holdfast.cli.main import main
from holdfast.journal.journal_errors import JournalCorruptError, JournalError, JournalStorageError
from holdfast.journal.writer import WriterJob
from holdfast.testing import ScriptedModel


@pytest.mark.parametrize(
    "spoil",
    ["seq = 'two'", "seq = X'ff'", "at = X'ff'", "at = 'noon'", "key = X'ff'", "schema = 'one'"],
)
async def test_it_is_an_error_and_no_silence(
    tmp_path: Path, spoil: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "talk.db"
    with SqliteJournal(path) as journal:
        await Agent(ScriptedModel("Hi"), journal=journal).run("Hi", session="ada")
    connection = sqlite3.connect(path)
    connection.execute(f"UPDATE records SET {spoil} WHERE seq = 2")
    connection.commit()
    connection.close()
    failures = 0
    with SqliteJournal(path) as journal:
        sessions = Agent(ScriptedModel("Hi"), journal=journal).sessions
        async with asyncio.timeout(20):
            for act in (journal.runs, sessions.list):
                try:
                    await act()
                except JournalError:
                    failures += 1
            keys = await journal.keys("ada")
            for one in (
                journal.read("ada"),
                journal.read_by_keys("ada", keys),
                sessions.search("hi"),
            ):
                try:
                    await one
                except JournalError:
                    failures += 1
    assert failures
    assert await asyncio.to_thread(main, ["journal", "verify", str(path)]) == 1
    said = capsys.readouterr()
    assert any(found in said.out + said.err for found in ("is not a valid record", "is missing"))


async def test_a_schema_that_is_no_text_is_told_too(tmp_path: Path) -> None:
    """SQLite quotes it, and Python could not read what SQLite said: opening the file never ended."""
    path = tmp_path / "talk.db"
    with SqliteJournal(path) as journal:
        await Agent(ScriptedModel("Hi"), journal=journal).run("Hi", session="ada")
    whole = path.read_bytes()
    for damaged in (b"records_by_\xa0ey", b"records_by_ke\xff"):
        spoiled = whole.replace(b"records_by_key", damaged, 1)
        path.write_bytes(spoiled)
        async with asyncio.timeout(20):
            with pytest.raises(JournalCorruptError, match="is damaged"):
                await asyncio.to_thread(SqliteJournal, path)
        assert path.read_bytes() == spoiled


async def test_whatever_an_act_raises_ends_that_act_and_not_the_journal(tmp_path: Path) -> None:
    """A warning that was made an error, as in tests, ended the thread with everybody's acts in it."""

    def odd(_: sqlite3.Connection) -> None:
        raise DeprecationWarning("odd")

    with SqliteJournal(tmp_path / "talk.db") as journal:
        async with asyncio.timeout(20):
            for writes in (True, False):
                with pytest.raises(JournalStorageError, match="odd") as caught:
                    await journal._writer.submit(WriterJob(odd, writes=writes))
                assert isinstance(caught.value.__cause__, DeprecationWarning)
            done = await Agent(ScriptedModel("Hi"), journal=journal).run("Hi", session="ada")
        assert done.output == "Hi"
