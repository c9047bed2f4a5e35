"""`holdfast journal`: the records of a file as text and as JSON, and reports of damage."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from pathlib import Path

import pytest
from tests.postgres_server import PostgresServer

from holdfast import PostgresJournal, SqliteJournal
from holdfast.cli.main import main
from holdfast.journal.encoding import decode, record_of
from holdfast.testing.journal_conformance import make_turn_opened


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "talk.db"
    with SqliteJournal(file) as journal:
        asyncio.run(
            journal.append("ada", make_turn_opened(1, "Olá \x1b[2J \x9b2J \ud800", 1_700_000_000.0))
        )
        asyncio.run(journal.append("ada", make_turn_opened(2, "again", 1_700_000_060.0)))
        asyncio.run(journal.append("bob\x1b[31m", make_turn_opened(1)))
    return file


def spoil(path: Path, statement: str) -> None:
    connection = sqlite3.connect(path)
    connection.execute(statement)
    connection.commit()
    connection.close()


def test_show_lists_the_runs(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["journal", "show", str(path)]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first == "      2  2023-11-14 22:13:20Z to 2023-11-14 22:14:20Z  ada"
    assert second.endswith("bob\\x1b[31m")


def test_show_prints_a_run_in_a_readable_form(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["journal", "show", str(path), "ada"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("    1  2023-11-14 22:13:20Z  t1 ")
    assert "turn_opened" in out
    assert "again" in out
    assert "\x1b" not in out


def test_export_writes_lines_that_are_read_again(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["journal", "export", str(path)]) == 0
    out = capsys.readouterr().out
    assert not {"\x1b", "\x9b"} & set(out)
    lines = out.splitlines()
    assert [json.loads(line)["run"] for line in lines] == ["ada", "ada", "bob\x1b[31m"]
    event = record_of(decode(lines[0])).event
    assert event == make_turn_opened(1, "Olá \x1b[2J \x9b2J \ud800", 1_700_000_000.0)


def test_verify_reads_everything(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["journal", "verify", str(path)]) == 0
    assert capsys.readouterr().out.startswith("2 runs: every record is complete")


ADA = "(SELECT id FROM runs WHERE name = 'ada')"


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        (
            f"UPDATE records SET event = '{{' WHERE run = {ADA} AND seq = 1",
            "is not a valid record",
        ),
        (
            f"UPDATE records SET type = 'dreamt' WHERE run = {ADA} AND seq = 2",
            "its checksum is wrong",
        ),
        (
            f"UPDATE records SET schema = 9 WHERE run = {ADA} AND seq = 2",
            "has schema 9",
        ),
        (
            f"DELETE FROM records WHERE run = {ADA} AND seq = 1",
            "record 1: is missing",
        ),
    ],
)
def test_verify_says_what_is_damaged(
    path: Path, capsys: pytest.CaptureFixture[str], statement: str, said: str
) -> None:
    spoil(path, statement)
    assert main(["journal", "verify", str(path)]) == 1
    assert said in capsys.readouterr().out
    assert main(["journal", "verify", str(path), "bob\x1b[31m"]) == 0


def test_a_file_that_is_not_there_is_not_created(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["journal", "show", str(tmp_path / "no.db")]) == 2
    assert "there is no file" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_run_is_one_line(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["journal", "show", str(path), "eve"]) == 2
    assert "has no run 'eve'" in capsys.readouterr().err
    with SqliteJournal(path):
        assert main(["journal", "show", str(path)]) == 0


@pytest.mark.slow  # starts a program or a server
def test_addresses_are_taken_too(
    path: Path, postgres: PostgresServer, capsys: pytest.CaptureFixture[str]
) -> None:
    url = postgres.new_url()
    with PostgresJournal(url) as journal:
        asyncio.run(journal.append("ada", make_turn_opened(1, "Olá", 1_700_000_000.0)))
        asyncio.run(journal.append("ada", make_turn_opened(2, "again", 1_700_000_060.0)))
    assert main(["journal", "show", f"sqlite:///{path}"]) == 0
    in_file = capsys.readouterr().out.splitlines()[0]
    assert main(["journal", "show", url]) == 0
    assert capsys.readouterr().out.splitlines() == [in_file]
    assert main(["journal", "export", url, "ada"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert record_of(decode(lines[1])).event == make_turn_opened(2, "again", 1_700_000_060.0)
    assert main(["journal", "verify", url]) == 0
    assert capsys.readouterr().out.startswith("1 runs: every record is complete")
    postgres.rows(url, "UPDATE holdfast_records SET seq = 9, event = '{' WHERE seq = 2")
    assert main(["journal", "verify", url]) == 1
    assert "record 2: is missing" in capsys.readouterr().out


def test_a_database_without_a_journal_is_left_as_it_is(
    postgres: PostgresServer, capsys: pytest.CaptureFixture[str]
) -> None:
    url = postgres.new_url()
    assert main(["journal", "show", url]) != 0
    assert "holds no journal" in capsys.readouterr().err
    assert postgres.rows(url, "SELECT to_regclass('holdfast_journal')") == [(None,)]
