"""`holdfast journal stats|backup|restore|prune`: their help, their output and their refusals."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.postgres_server import PostgresServer

from holdfast import PostgresJournal, SqliteJournal
from holdfast.cli import journal_command, sessions_command
from holdfast.cli.main import main
from holdfast.testing.journal_conformance import make_turn_opened

WORDS = [
    *(("journal", word) for word in journal_command.WORDS),
    *(("sessions", word) for word in sessions_command.WORDS),
]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "talk.db"
    with SqliteJournal(file) as journal:
        asyncio.run(journal.append("ada", make_turn_opened(1, "x" * 1000)))
        asyncio.run(journal.append("ada", make_turn_opened(2)))
        asyncio.run(journal.append("bob\x1b[31m", make_turn_opened(1)))
        asyncio.run(journal.for_tenant("acme").append("ada", make_turn_opened(1)))
    return file


@pytest.mark.parametrize(("command", "word"), WORDS)
def test_the_help_of_each_word_has_an_example(
    command: str, word: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main([command, word, "--help"])
    assert f"example: holdfast {command} {word} " in " ".join(capsys.readouterr().out.split())


def test_stats_counts_runs_records_and_bytes(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["journal", "stats", str(path)]) == 0
    out = capsys.readouterr().out
    assert "2 runs, 2 of them with an open turn; 3 records" in out
    assert "bytes in talk.db" in out
    assert "\x1b" not in out
    largest = out.splitlines()[-2].split()
    assert largest[1] == "ada"
    assert int(largest[0]) > 1000
    assert main(["journal", "stats", str(path), "--tenant", "acme"]) == 0
    assert "1 run, 1 of them" in capsys.readouterr().out
    assert main(["journal", "stats", str(path), "--tenant", "nobody"]) == 0
    assert "0 runs" in capsys.readouterr().out


def test_stats_of_a_server(postgres: PostgresServer, capsys: pytest.CaptureFixture[str]) -> None:
    url = postgres.new_url()
    with PostgresJournal(url) as journal:
        asyncio.run(journal.append("ada", make_turn_opened(1, "x" * 1000)))
    assert main(["journal", "stats", url]) == 0
    assert "1 run, 1 of them" in capsys.readouterr().out


@pytest.mark.parametrize("word", ["backup", "restore"])
def test_a_server_is_backed_up_by_its_own_tools(
    word: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["journal", word, "postgresql://ada:secret@db.example/talk", "copy.db"]) == 2
    err = capsys.readouterr().err
    assert "pg_dump" in err
    assert "secret" not in err


@pytest.mark.parametrize("word", ["backup", "restore"])
def test_a_missing_file_is_one_line(
    word: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["journal", word, str(tmp_path / "a.db"), str(tmp_path / "b.db")]) == 2
    assert "there is no file" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
