"""A session goes from SQLite to PostgreSQL and back by export and import, the same record by record."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.journal.writing_process import run_command
from tests.postgres_server import PostgresServer
from tests.sessions.conversations import talk

from holdfast import PostgresJournal, SqliteJournal
from holdfast.errors import JournalCorruptError
from holdfast.journal import Journal, Record
from holdfast.sessions import Sessions
from holdfast.testing import FakeClock


async def read_all(journal: Journal) -> dict[str, Sequence[Record]]:
    return {entry.run: list(await journal.read(entry.run)) for entry in await journal.runs()}


@pytest.mark.slow  # starts a program or a server
async def test_a_session_goes_to_postgresql_and_back(
    tmp_path: Path, postgres: PostgresServer
) -> None:
    url, first, second = postgres.new_url(), tmp_path / "a.db", tmp_path / "b.db"
    with SqliteJournal(first) as journal:
        await talk(journal, FakeClock(), "ada", "one", "two ☂", tools=True)
        await Sessions(journal).rename("ada", "A title ☂")
        original = await read_all(journal)
    lines, again = tmp_path / "ada.jsonl", tmp_path / "again.jsonl"
    for words in (
        ["export", first, "ada", "-o", lines],
        ["import", url, lines],
        ["export", url, "ada", "-o", again],
        ["import", second, again],
    ):
        done = run_command("sessions", *words)
        assert done.returncode == 0, (words, done.stderr)
    assert again.read_bytes() == lines.read_bytes()
    with PostgresJournal(url) as in_server:
        assert await read_all(in_server) == original
    with SqliteJournal(second) as journal:
        assert await read_all(journal) == original
    done = run_command("sessions", "import", url, lines)
    assert done.returncode == 2
    assert "already exists" in done.stderr


class Lossy(SqliteJournal):
    """A store that does not give back what it was given."""

    async def read(self, run: str, after: int = 0) -> Sequence[Record]:
        return (await super().read(run, after))[:-1]


async def test_an_import_that_does_not_read_back_equal_is_undone(tmp_path: Path) -> None:
    with SqliteJournal(tmp_path / "a.db") as journal:
        await talk(journal, FakeClock(), "ada", "one", "two ☂", tools=True)
        lines = [line async for line in Sessions(journal).export("ada")]
    with Lossy(tmp_path / "b.db") as lossy:
        with pytest.raises(JournalCorruptError, match="'ada'"):
            await Sessions(lossy).import_(lines)
        assert not await lossy.runs()
