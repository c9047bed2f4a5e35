"""The journal in a file: the conformance suite, one owner, and one typed error for each fault of a file."""

# ruff: noqa: ASYNC221, ASYNC240, PTH208  # REASON: a test may block its own loop

from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.journal_rows import compute_checksums_again

from holdfast.core.errors import ConfigurationError, ConflictError
from holdfast.core.events import QuestionAsked
from holdfast.journal.files.sqlite_schema import SCHEMA, VERSION
from holdfast.journal.journal_errors import (
    JournalBusyError,
    JournalClosedError,
    JournalCorruptError,
    JournalStorageError,
    JournalVersionError,
)
from holdfast.journal.sqlite import opening
from holdfast.journal.sqlite.sqlite_journal import SqliteJournal
from holdfast.journal.sqlite.writer import WriterJob
from holdfast.testing.journal_conformance import (
    JournalConformance,
    make_turn_opened,
    read_keys,
)
from holdfast.testing.store_conformance import Damage, DamageConformance, StoreConformance

GOLDEN = Path(__file__).parents[1] / "golden" / "journals"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "talk.db"


@pytest.fixture
def journal(path: Path) -> Iterator[SqliteJournal]:
    with SqliteJournal(path) as opened_journal:
        yield opened_journal


@pytest.fixture
def damage(journal: SqliteJournal) -> Damage:
    async def damage(how: str, run: str, seq: int) -> None:
        this = f"r.run = (SELECT id FROM runs WHERE name = '{run}') AND r.seq = {seq}"
        statements = {
            "change": f"UPDATE records AS r SET event = replace(event, 'text', 'test') WHERE {this}",
            "remove": f"DELETE FROM records AS r WHERE {this}",
            "swap": "UPDATE records AS r SET event = n.event, checksum = n.checksum"
            f" FROM records AS n WHERE {this} AND n.run = r.run AND n.seq = {seq + 1}",
        }
        job = WriterJob(lambda c: c.execute(statements[how]).rowcount, writes=True)
        assert await journal._writer.submit(job) == 1

    return damage


class TestSqliteJournal(JournalConformance, StoreConformance, DamageConformance):
    pass


def raw(path: Path, *statements: str) -> list[object]:
    connection = sqlite3.connect(path)
    rows = [connection.execute(statement).fetchall() for statement in statements]
    connection.commit()
    connection.close()
    return rows


async def test_saved_records_are_there_when_the_file_is_opened_again(path: Path) -> None:
    with SqliteJournal(path) as journal:
        await journal.append("r", make_turn_opened(1, "hello"))
    assert sorted(os.listdir(path.parent)) == ["talk.db", "talk.db.lock"]
    with SqliteJournal(path) as journal:
        assert [record.event for record in await journal.read("r")] == [
            make_turn_opened(1, "hello")
        ]


async def test_appends_are_committed_with_the_file_synchronised(journal: SqliteJournal) -> None:
    def pragmas(connection: sqlite3.Connection) -> list[object]:
        names = ("journal_mode", "synchronous", "locking_mode", "secure_delete")
        return [connection.execute(f"PRAGMA {name}").fetchone()[0] for name in names]

    found = await journal._writer.submit(WriterJob(pragmas, writes=False))
    assert found == ["wal", 2, "normal", 1]


@pytest.mark.slow  # takes half a second or more
async def test_appends_that_wait_together_are_one_transaction(journal: SqliteJournal) -> None:
    commits: list[int] = []

    def watch(connection: sqlite3.Connection) -> None:
        connection.set_trace_callback(lambda text: text == "COMMIT" and commits.append(1))

    await journal._writer.submit(WriterJob(watch, writes=False))
    await asyncio.gather(*(journal.append("r", make_turn_opened(n)) for n in range(512)))
    assert len(await read_keys(journal, "r")) == 512
    assert len(commits) < 100


async def test_what_was_acknowledged_can_be_read_at_once(journal: SqliteJournal) -> None:
    appends = [asyncio.ensure_future(journal.append("r", make_turn_opened(n))) for n in range(50)]
    while not all(append.done() for append in appends):
        acknowledged = sum(append.done() for append in appends)
        assert len(await read_keys(journal, "r")) >= acknowledged
    assert len(await read_keys(journal, "r")) == 50


async def test_a_group_that_could_not_be_committed_is_not_there(journal: SqliteJournal) -> None:
    def refuse(connection: sqlite3.Connection) -> None:
        # A row that breaks a constraint that is checked at COMMIT.
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("CREATE TEMP TABLE a (x PRIMARY KEY)")
        connection.execute("CREATE TEMP TABLE b (x REFERENCES a (x) DEFERRABLE INITIALLY DEFERRED)")

    def spoil(connection: sqlite3.Connection) -> None:
        connection.execute("INSERT INTO b VALUES (1)")

    submit = journal._writer.submit
    await submit(WriterJob(refuse, writes=False))
    begun, blocker = threading.Event(), threading.Event()
    submit(WriterJob(lambda _: begun.set() or blocker.wait(), writes=False))
    begun.wait()  # what is queued from here on becomes one group
    spoiled = submit(WriterJob(spoil, writes=True))
    appends = [asyncio.ensure_future(journal.append("r", make_turn_opened(n))) for n in range(3)]
    read = asyncio.ensure_future(read_keys(journal, "r"))
    await asyncio.sleep(0)
    blocker.set()
    outcomes = await asyncio.gather(spoiled, *appends, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [JournalStorageError] * 4
    # It was after them in the queue: it does not see their rows and does not fail with them.
    assert await read == []
    assert await read_keys(journal, "r") == []
    await journal.append("r", make_turn_opened(1))
    assert await read_keys(journal, "r") == ["t1"]


async def test_a_second_journal_of_this_process_is_refused(
    journal: SqliteJournal, path: Path
) -> None:
    with pytest.raises(JournalBusyError, match="already open in this process"):
        SqliteJournal(path)
    link = path.with_name("other.db")
    link.symlink_to(path)
    with pytest.raises(JournalBusyError, match="already open in this process"):
        SqliteJournal(link)
    await journal.append("r", make_turn_opened(1))


async def test_a_second_process_is_refused_and_the_first_continues(
    journal: SqliteJournal, path: Path
) -> None:
    code = (
        "import sys\nfrom holdfast import SqliteJournal\n"
        "try:\n    SqliteJournal(sys.argv[1], wait=0)\n"
        "except Exception as error:\n    print(type(error).__name__, error)\n"
    )
    await journal.append("r", make_turn_opened(1))
    done = subprocess.run(
        [sys.executable, "-c", code, path], capture_output=True, text=True, check=True
    )
    problem = f"JournalBusyError journal {path}: is open in process {os.getpid()}, started "
    assert done.stdout.startswith(problem)
    await journal.append("r", make_turn_opened(2))
    assert await read_keys(journal, "r") == ["t1", "t2"]


async def test_a_journal_that_nothing_references_releases_its_file(path: Path) -> None:
    journal = SqliteJournal(path)
    await journal.append("r", make_turn_opened(1))
    del journal
    with SqliteJournal(path) as journal:
        assert await read_keys(journal, "r") == ["t1"]


async def test_a_closed_journal_says_so(path: Path) -> None:
    journal = SqliteJournal(path)
    append = asyncio.ensure_future(journal.append("r", make_turn_opened(1)))
    await asyncio.sleep(0)
    journal.close()
    journal.close()
    await append
    for work in (journal.append("r", make_turn_opened(2)), journal.read("r"), journal.runs()):
        with pytest.raises(JournalClosedError, match="is closed"):
            await work
    with SqliteJournal(path) as again:
        assert await read_keys(again, "r") == ["t1"]


def test_a_forked_child_is_refused_and_harms_nothing(path: Path) -> None:
    code = """
import asyncio, os, sys
from holdfast import SqliteJournal
from holdfast.testing.journal_conformance import make_turn_opened, read_keys
journal = SqliteJournal(sys.argv[1])
asyncio.run(journal.append("r", make_turn_opened(1)))
child = os.fork()
if child == 0:
    try:
        asyncio.run(journal.append("r", make_turn_opened(2)))
    except Exception as error:
        print(type(error).__name__, flush=True)
    journal.close()
    sys.exit(0)
os.waitpid(child, 0)
asyncio.run(journal.append("r", make_turn_opened(3)))
journal.close()
with SqliteJournal(sys.argv[1]) as journal:
    print(asyncio.run(read_keys(journal, "r")), flush=True)
"""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code, path],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.split("\n")[:2] == ["JournalClosedError", "['t1', 't3']"], done.stderr


def test_an_interpreter_that_exits_has_saved_everything(path: Path) -> None:
    code = (
        "import asyncio, sys; from holdfast import SqliteJournal;"
        "from holdfast.testing.journal_conformance import make_turn_opened;"
        "journal = SqliteJournal(sys.argv[1]); asyncio.run(journal.append('r', make_turn_opened(1)))"
    )
    subprocess.run([sys.executable, "-c", code, path], check=True)
    assert sorted(os.listdir(path.parent)) == ["talk.db", "talk.db.lock"]


@pytest.mark.parametrize("name", ["", ":memory:", "file:x?mode=memory"])
def test_a_name_that_is_not_a_file_is_refused(name: str) -> None:
    with pytest.raises(ConfigurationError, match="MemoryJournal"):
        SqliteJournal(name)


def test_a_missing_folder_and_a_folder_are_named(tmp_path: Path) -> None:
    with pytest.raises(JournalStorageError, match=r"nowhere/x.db: its folder does not exist"):
        SqliteJournal(tmp_path / "nowhere" / "x.db")
    with pytest.raises(JournalStorageError, match="is a folder"):
        SqliteJournal(tmp_path)
    assert os.listdir(tmp_path) == []


def test_a_file_that_cannot_be_written_is_named(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(JournalStorageError, match=r"talk.db: cannot be written by this user"):
        SqliteJournal(path)


async def test_a_file_that_becomes_read_only_is_an_error_and_not_a_loss(
    journal: SqliteJournal,
) -> None:
    await journal.append("r", make_turn_opened(1))

    def pragma(connection: sqlite3.Connection, value: int) -> None:
        connection.execute(f"PRAGMA query_only = {value}")

    await journal._writer.submit(WriterJob(lambda c: pragma(c, 1), writes=False))
    with pytest.raises(JournalStorageError, match="cannot be written"):
        await journal.append("r", make_turn_opened(2))
    await journal._writer.submit(WriterJob(lambda c: pragma(c, 0), writes=False))
    await journal.append("r", make_turn_opened(2))
    assert await read_keys(journal, "r") == ["t1", "t2"]


async def test_a_full_disk_fails_the_append_and_the_journal_continues_when_there_is_room(
    journal: SqliteJournal,
) -> None:
    await journal.append("r", make_turn_opened(1))

    def most(connection: sqlite3.Connection, pages: int) -> None:
        connection.execute(f"PRAGMA max_page_count = {pages}")

    await journal._writer.submit(WriterJob(lambda c: most(c, 6), writes=False))
    with pytest.raises(
        JournalStorageError, match=r"full\. Free some space; the journal then continues"
    ):
        await journal.append("r", make_turn_opened(2, "x" * 100_000))
    assert await read_keys(journal, "r") == ["t1"]
    await journal._writer.submit(WriterJob(lambda c: most(c, 100_000), writes=False))
    await journal.append("r", make_turn_opened(2, "x" * 100_000))
    assert await read_keys(journal, "r") == ["t1", "t2"]


async def test_an_append_writes_few_pages_also_between_the_records_of_other_runs(
    journal: SqliteJournal,
) -> None:
    log = Path(journal.path + "-wal")
    runs = [f"run {number}" for number in range(10)]
    for run in runs:
        await journal.append(run, make_turn_opened(0))
    before = log.stat().st_size
    for number in range(1, 16):
        for run in runs:
            await journal.append(run, make_turn_opened(number, "x" * 900))
    frames = (log.stat().st_size - before) / (4096 + 24)
    # The last page of the table, that of the row of the run, one of each of three indices, of which one is that
    # of open turns, and more when a page is full: the new page, and the page above it.
    assert frames / 150 < 6.0


async def filled(path: Path, records: int = 200) -> None:
    with SqliteJournal(path) as journal:
        await asyncio.gather(
            *(journal.append("r", make_turn_opened(n, "x" * 500)) for n in range(records))
        )


@pytest.mark.parametrize("share", [0.3, 0.7, 0.95])
async def test_a_truncated_file_is_reported_and_left_as_it_is(path: Path, share: float) -> None:
    await filled(path)
    path.write_bytes(path.read_bytes()[: int(path.stat().st_size * share)])
    await left_alone(path)


@pytest.mark.parametrize("at", [0, 100])
async def test_a_damaged_first_page_is_reported_and_left_as_it_is(path: Path, at: int) -> None:
    await filled(path)
    data = bytearray(path.read_bytes())
    data[at : at + 600] = os.urandom(600)
    path.write_bytes(data)
    await left_alone(path)


async def test_damage_inside_a_record_is_reported_when_it_is_read(path: Path) -> None:
    await filled(path, 3)
    data = path.read_bytes()
    path.write_bytes(data.replace(b"x" * 400, b"\xff" * 400, 1))
    with SqliteJournal(path) as journal, pytest.raises(JournalCorruptError, match="is damaged"):
        await journal.read("r")


async def left_alone(path: Path) -> None:
    before = path.read_bytes()
    with pytest.raises(JournalCorruptError, match="restore a backup"):
        SqliteJournal(path)
    assert path.read_bytes() == before
    # The error does not keep the file open.
    with pytest.raises(JournalCorruptError):
        SqliteJournal(path)


def test_a_text_file_is_refused(path: Path) -> None:
    path.write_text("Dear diary, " * 1000)
    with pytest.raises(JournalCorruptError, match="not a database"):
        SqliteJournal(path)
    assert path.read_text().startswith("Dear diary")


def test_an_emptied_file_with_a_log_is_damaged_and_not_new(path: Path) -> None:
    path.touch()
    log = path.with_name("talk.db-wal")
    log.write_bytes(b"x" * 5000)
    with pytest.raises(JournalCorruptError, match="its -wal file is not"):
        SqliteJournal(path)
    assert log.stat().st_size == 5000


def test_a_database_of_another_program_is_refused(path: Path) -> None:
    raw(path, "CREATE TABLE theirs (x)")
    before = path.read_bytes()
    with pytest.raises(JournalVersionError, match="of another program"):
        SqliteJournal(path)
    assert path.read_bytes() == before


def test_a_newer_file_is_refused_and_left_as_it_is(path: Path) -> None:
    SqliteJournal(path).close()
    raw(path, "PRAGMA user_version = 99")
    before = path.read_bytes()
    with pytest.raises(JournalVersionError, match="has version 99, and this Holdfast reads up to"):
        SqliteJournal(path)
    assert path.read_bytes() == before


async def test_a_newer_record_and_an_unknown_event_are_named(path: Path) -> None:
    with SqliteJournal(path) as journal:
        await journal.append("newer", make_turn_opened(1))
        await journal.append("unknown", make_turn_opened(1))
        await journal.append("torn", make_turn_opened(1))
    raw(
        path,
        "UPDATE records SET schema = 7 WHERE run = (SELECT id FROM runs WHERE name = 'newer')",
        "UPDATE records SET type = 'dreamt' WHERE run = (SELECT id FROM runs WHERE name = 'unknown')",
        "UPDATE records SET event = '{\"mess' WHERE run = (SELECT id FROM runs WHERE name = 'torn')",
    )
    compute_checksums_again(path)
    with SqliteJournal(path) as journal:
        with pytest.raises(JournalVersionError, match=r"run 'newer', record 1: has schema 7"):
            await journal.read("newer")
        with pytest.raises(JournalVersionError, match="unknown type 'dreamt'"):
            await journal.read("unknown")
        with pytest.raises(JournalCorruptError, match="run 'torn', record 1"):
            await journal.read("torn")
        assert len(await journal.read_lines("unknown")) == 1


@pytest.mark.parametrize("version", sorted(file.stem for file in GOLDEN.glob("version-*.sqlite")))
async def test_every_version_is_read_for_ever(path: Path, version: str) -> None:
    shutil.copy(GOLDEN / f"{version}.sqlite", path)
    with SqliteJournal(path) as journal:
        assert [entry.run for entry in await journal.runs()] == ["alice"]
        first, *_ = await journal.read("alice")
        assert first.event.key == "t1"


async def test_a_schema_that_fails_half_way_changes_nothing(path: Path) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    with pytest.raises(JournalStorageError, match="syntax error"):
        opening.migrate(connection, str(path), ((*SCHEMA, "NONSENSE"),))
    assert connection.execute("SELECT name FROM sqlite_master").fetchall() == []
    connection.close()
    with SqliteJournal(path) as journal:
        await journal.append("r", make_turn_opened(1))
    assert raw(path, "PRAGMA user_version") == [[(VERSION,)]]


async def test_a_deleted_run_leaves_no_trace_on_the_disk(path: Path) -> None:
    with SqliteJournal(path) as journal:
        await journal.append("stays", make_turn_opened(1))
        for number in range(20):
            await journal.append("goes", make_turn_opened(number, "the-secret-diary " * 300))
        assert any(b"secret-diary" in file.read_bytes() for file in path.parent.iterdir())
        assert await journal.delete("goes") == 20
        for file in path.parent.iterdir():
            assert b"secret-diary" not in file.read_bytes(), file.name
        assert await read_keys(journal, "stays") == ["t1"]


def test_the_file_is_for_its_owner_only(path: Path, journal: SqliteJournal) -> None:
    assert {file.stat().st_mode & 0o777 for file in path.parent.iterdir()} == {0o600}


async def test_an_event_that_json_cannot_hold_fails_alone(journal: SqliteJournal) -> None:
    outcomes = await asyncio.gather(
        journal.append("r", make_turn_opened(1)),
        journal.append("r", QuestionAsked("t1.ask.1.asked", 1.0, "x", object())),
        journal.append("r", make_turn_opened(1)),
        journal.append("r", make_turn_opened(2)),
        return_exceptions=True,
    )
    assert [type(outcome) for outcome in outcomes] == [
        type(None),
        ConfigurationError,
        ConflictError,
        type(None),
    ]
    assert await read_keys(journal, "r") == ["t1", "t2"]


async def test_names_that_are_not_text_are_refused(journal: SqliteJournal) -> None:
    with pytest.raises(ConfigurationError, match="session"):
        await journal.append("\ud800", make_turn_opened(1))
