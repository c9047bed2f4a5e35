"""A log of another database beside a journal: SQLite wrote its pages into the journal on opening."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest

from holdfast import SqliteJournal
from holdfast.cli.main import main
from holdfast.errors import JournalError
from holdfast.testing.journal_conformance import make_turn_opened


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A journal with one record, beside the log of another journal."""
    path = tmp_path / "talk.db"
    with SqliteJournal(path) as journal:
        asyncio.run(journal.append("ada", make_turn_opened(1)))
    (tmp_path / "other").mkdir()
    with SqliteJournal(tmp_path / "other" / "talk.db") as journal:
        asyncio.run(journal.append("bob", make_turn_opened(1)))
        shutil.copy(tmp_path / "other" / "talk.db-wal", tmp_path)
    return path


def test_it_is_refused_and_nothing_is_changed(path: Path) -> None:
    log = path.with_name("talk.db-wal")
    before = path.read_bytes(), log.read_bytes()
    with pytest.raises(JournalError):
        SqliteJournal(path)
    assert main(["journal", "verify", str(path)]) != 0
    assert (path.read_bytes(), log.read_bytes()) == before
    log.unlink()
    with SqliteJournal(path) as journal:
        assert [entry.run for entry in asyncio.run(journal.runs())] == ["ada"]


def test_no_file_is_made_beside_a_log_that_was_left(path: Path) -> None:
    path.unlink()
    with pytest.raises(JournalError):
        SqliteJournal(path)
    assert not path.exists()
