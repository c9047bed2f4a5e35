"""A damaged record or page is reported, and every other session of the file is read."""

from __future__ import annotations

import asyncio
import json
import os
import random
import shutil
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest

from holdfast import Agent, SqliteJournal
from holdfast.cli.main import main
from holdfast.core.events import TurnOpened
from holdfast.core.messages import user
from holdfast.errors import JournalCorruptError, JournalError
from holdfast.journal.journal_errors import JournalStorageError
from holdfast.journal.port import Record
from holdfast.journal.sqlite.writer import WriterJob
from holdfast.testing import ScriptedModel
from holdfast.testing.journal_conformance import make_turn_opened

# Pages and records that were overwritten.

RUNS = [f"run {number:02}" for number in range(12)]


async def fill(path: Path) -> dict[str, Sequence[Record]]:
    with SqliteJournal(path) as journal:
        for run in RUNS:
            for number in range(1, 6):
                await journal.append(run, make_turn_opened(number, f"{run}: " + "x" * 900))
        return {run: await journal.read(run) for run in RUNS}


def find_pages(path: Path, table: str) -> list[int]:
    """The numbers of the leaves of a table or an index."""
    with closing(sqlite3.connect(path)) as connection:
        query = "SELECT pageno FROM dbstat WHERE name = ? AND pagetype = 'leaf' ORDER BY pageno"
        return [number for (number,) in connection.execute(query, (table,))]


def spoil_page(path: Path, page: int, dice: random.Random) -> None:
    with path.open("r+b") as file:
        file.seek((page - 1) * 4096 + dice.choice([0, 0, 2000]))
        file.write(dice.randbytes(600))


def spoil(path: Path, statement: str) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(statement)


async def test_the_other_sessions_are_read_and_exported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "talk.db"
    saved = await fill(path)
    spoil_page(path, find_pages(path, "records")[5], random.Random(1))
    lost = []
    with SqliteJournal(path) as journal:
        # At the same time, so that one group of the journal reads both.
        outcomes = await asyncio.gather(*map(journal.read, RUNS), return_exceptions=True)
        for run, outcome in zip(RUNS, outcomes, strict=True):
            if isinstance(outcome, JournalCorruptError):
                assert f"run {run!r}" in str(outcome)
                lost.append(run)
            else:
                assert outcome == saved[run]
        assert 1 <= len(lost) <= 2
        healthy = next(run for run in RUNS if run not in lost)
        await journal.append(healthy, make_turn_opened(6))
        assert len(await journal.read(healthy)) == 6
    assert await asyncio.to_thread(main, ["journal", "export", str(path)]) == 1
    said = capsys.readouterr()
    lines = said.out.splitlines()
    assert {json.loads(line)["run"] for line in lines} == set(RUNS) - set(lost)
    assert all(repr(run) in said.err for run in lost)
    assert await asyncio.to_thread(main, ["journal", "verify", str(path)]) == 1
    said = capsys.readouterr()
    assert [run for run in RUNS if repr(run) in said.out] == lost


@pytest.mark.parametrize("index", ["records_by_seq", "records_by_key"])
async def test_a_damaged_index_loses_no_session(tmp_path: Path, index: str) -> None:
    path = tmp_path / "talk.db"
    saved = await fill(path)
    for page in find_pages(path, index):
        spoil_page(path, page, random.Random(2))
    with SqliteJournal(path) as journal:
        for run in RUNS:
            assert await journal.read(run) == saved[run]


@pytest.mark.slow  # takes half a second or more
@pytest.mark.parametrize("seed", range(3))
async def test_whichever_page_is_damaged_nothing_wrong_is_read(tmp_path: Path, seed: int) -> None:
    """The file is refused, or each run is read as it was saved, or its error says it is damaged."""
    dice = random.Random(seed)
    path = tmp_path / "talk.db"
    saved = await fill(path)
    whole = path.read_bytes()
    read = failed = 0
    for page in range(1, len(whole) // 4096 + 1):
        path.write_bytes(whole)
        spoil_page(path, page, dice)
        try:
            journal = SqliteJournal(path)
        except JournalError:
            assert path.read_bytes() != whole
            continue
        with journal:
            for run in RUNS:
                try:
                    assert await journal.read(run) == saved[run]
                    read += 1
                except JournalCorruptError:
                    failed += 1
    assert read > 5 * failed > 0


RUN = "(SELECT id FROM runs WHERE name = 'run 03')"


@pytest.mark.slow  # takes half a second or more
@pytest.mark.parametrize(
    ("statement", "said"),
    [
        (
            f"UPDATE records SET event = replace(event, 'xxx', 'xyx') WHERE run = {RUN} AND seq = 2",
            "run 'run 03', record 2: is not a valid record: its checksum is wrong",
        ),
        (
            f"UPDATE records SET at = at + 1 WHERE run = {RUN} AND seq = 2",
            "run 'run 03', record 2: is not a valid record: its checksum is wrong",
        ),
        (f"DELETE FROM records WHERE run = {RUN} AND seq = 3", "'run 03', record 3: is missing"),
        (f"DELETE FROM records WHERE run = {RUN} AND seq = 5", "'run 03', record 5: is missing"),
        (f"DELETE FROM records WHERE run = {RUN}", "run 'run 03', record 1: is missing"),
        ("DELETE FROM runs WHERE name = 'run 03'", "5 records belong to no run"),
        ("UPDATE runs SET name = 'run x' WHERE name = 'run 03'", "run 'run x', record 1: is not"),
        ("UPDATE runs SET tenant = 'acme' WHERE name = 'run 03'", "tenant 'acme', run 'run 03'"),
    ],
)
async def test_verify_names_what_was_changed_or_is_missing(
    tmp_path: Path, statement: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "talk.db"
    await fill(path)
    assert await asyncio.to_thread(main, ["journal", "verify", str(path)]) == 0
    assert "12 runs: every record is complete" in capsys.readouterr().out
    spoil(path, statement)
    assert await asyncio.to_thread(main, ["journal", "verify", str(path)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 1
    assert said in lines[0]


async def test_an_append_to_a_damaged_session_fails_alone(tmp_path: Path) -> None:
    """Appends that wait at the same time are one transaction, and the others are saved."""
    path = tmp_path / "talk.db"
    await fill(path)
    pages = find_pages(path, "records_by_key")
    with path.open("r+b") as file:
        file.seek((pages[0] - 1) * 4096)
        file.write(os.urandom(600))
    with SqliteJournal(path) as journal:
        appends = [journal.append(run, make_turn_opened(6)) for run in [*RUNS, "new 1", "new 2"]]
        outcomes = await asyncio.gather(*appends, return_exceptions=True)
        for run, outcome in zip([*RUNS, "new 1", "new 2"], outcomes, strict=True):
            assert outcome is None or isinstance(outcome, JournalCorruptError)
            if outcome is None:
                assert (await journal.read(run))[-1].event == make_turn_opened(6)


async def test_a_damaged_page_of_the_table_of_runs_loses_no_session(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each page has some forty runs, and none of them could be read any more."""
    path = tmp_path / "talk.db"
    saved = await fill(path)
    for page in find_pages(path, "runs"):
        with path.open("r+b") as file:
            file.seek((page - 1) * 4096)
            file.write(os.urandom(600))
    with SqliteJournal(path) as journal:
        for run in RUNS:
            assert await journal.read(run) == saved[run]
            assert await journal.keys(run) == ["t1", "t2", "t3", "t4", "t5"]
    assert await asyncio.to_thread(main, ["journal", "export", str(path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert {json.loads(line)["run"] for line in lines} == set(RUNS)
    assert await asyncio.to_thread(main, ["journal", "verify", str(path)]) == 1
    assert "is damaged" in capsys.readouterr().out


# Values that no record has.


@pytest.mark.slow  # takes half a second or more
@pytest.mark.parametrize(
    "spoil",
    ["seq = 'two'", "seq = X'ff'", "at = X'ff'", "at = 'noon'", "key = X'ff'", "schema = 'one'"],
)
async def test_a_value_that_no_record_has_is_reported(
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
        async with asyncio.timeout(60):
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


async def test_a_schema_that_is_not_text_is_reported(tmp_path: Path) -> None:
    """SQLite quotes it, and Python could not read what SQLite said: opening the file never ended."""
    path = tmp_path / "talk.db"
    with SqliteJournal(path) as journal:
        await Agent(ScriptedModel("Hi"), journal=journal).run("Hi", session="ada")
    whole = path.read_bytes()
    for damaged in (b"records_by_\xa0ey", b"records_by_ke\xff"):
        spoiled = whole.replace(b"records_by_key", damaged, 1)
        path.write_bytes(spoiled)
        async with asyncio.timeout(60):
            with pytest.raises(JournalCorruptError, match="is damaged"):
                await asyncio.to_thread(SqliteJournal, path)
        assert path.read_bytes() == spoiled


async def test_an_exception_in_an_operation_ends_that_operation_alone(tmp_path: Path) -> None:
    """A warning that was made an error, as in tests, ended the thread with everybody's acts in it."""

    def odd(_: sqlite3.Connection) -> None:
        raise DeprecationWarning("odd")

    with SqliteJournal(tmp_path / "talk.db") as journal:
        async with asyncio.timeout(60):
            for writes in (True, False):
                with pytest.raises(JournalStorageError, match="odd") as caught:
                    await journal._writer.submit(WriterJob(odd, writes=writes))
                assert isinstance(caught.value.__cause__, DeprecationWarning)
            done = await Agent(ScriptedModel("Hi"), journal=journal).run("Hi", session="ada")
        assert done.output == "Hi"


# The check in the background.


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "talk.db"


async def write(path: Path, *runs: str) -> None:
    with SqliteJournal(path) as journal:
        for run in runs:
            for number in range(1, 301):
                await journal.append(run, TurnOpened(f"t{number}", 1.0, user(f"{run}-{number}")))


def find_damage(path: Path, capsys: pytest.CaptureFixture[str]) -> list[str]:
    main(["journal", "verify", str(path)])
    return [line for line in capsys.readouterr().out.splitlines() if "run '" in line]


@pytest.mark.slow  # takes half a second or more
def test_a_changed_record_is_found_and_the_others_are_read(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asyncio.run(write(path, "ada", "bob", "eve"))
    assert find_damage(path, capsys) == []
    path.write_bytes(path.read_bytes().replace(b"bob-280", b"bob-28O", 1))
    (found,) = find_damage(path, capsys)
    assert "run 'bob', record 280" in found
    assert "its checksum is wrong" in found
    with SqliteJournal(path) as journal:
        assert len(asyncio.run(journal.read("eve"))) == 300
        with pytest.raises(JournalCorruptError, match="record 280"):
            asyncio.run(journal.read("bob"))


def test_a_blank_page_damages_its_run_alone(path: Path) -> None:
    asyncio.run(write(path, "ada", "bob", "eve"))
    data = bytearray(path.read_bytes())
    at = data.index(b"bob-150")
    start = at - at % 4096
    data[start : start + 4096] = bytes(4096)
    path.write_bytes(data)
    with SqliteJournal(path) as journal:
        for run in ("ada", "eve"):
            assert len(asyncio.run(journal.read(run))) == 300
        with pytest.raises(JournalCorruptError, match="'bob'"):
            asyncio.run(journal.read("bob"))


def test_a_file_whose_end_is_missing_is_refused(path: Path) -> None:
    asyncio.run(write(path, "ada"))
    data = path.read_bytes()
    path.write_bytes(data[:-4096])
    with pytest.raises(JournalCorruptError, match="is damaged"):
        SqliteJournal(path)


# The log of another database beside a journal, whose pages SQLite would write into it.


@pytest.fixture
def path_with_foreign_log(tmp_path: Path) -> Path:
    """A journal with one record, beside the log of another journal."""
    path = tmp_path / "talk.db"
    with SqliteJournal(path) as journal:
        asyncio.run(journal.append("ada", make_turn_opened(1)))
    (tmp_path / "other").mkdir()
    with SqliteJournal(tmp_path / "other" / "talk.db") as journal:
        asyncio.run(journal.append("bob", make_turn_opened(1)))
        shutil.copy(tmp_path / "other" / "talk.db-wal", tmp_path)
    return path


def test_a_foreign_log_is_refused_and_nothing_is_changed(path_with_foreign_log: Path) -> None:
    log = path_with_foreign_log.with_name("talk.db-wal")
    before = path_with_foreign_log.read_bytes(), log.read_bytes()
    with pytest.raises(JournalError):
        SqliteJournal(path_with_foreign_log)
    assert main(["journal", "verify", str(path_with_foreign_log)]) != 0
    assert (path_with_foreign_log.read_bytes(), log.read_bytes()) == before
    log.unlink()
    with SqliteJournal(path_with_foreign_log) as journal:
        assert [entry.run for entry in asyncio.run(journal.runs())] == ["ada"]


def test_no_file_is_made_beside_a_log_that_was_left(path_with_foreign_log: Path) -> None:
    path_with_foreign_log.unlink()
    with pytest.raises(JournalError):
        SqliteJournal(path_with_foreign_log)
    assert not path_with_foreign_log.exists()
