"""Commands that only read work while another process writes, after it was killed, and while it starts."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from tests.journal.writing_process import WritingProcess, run_command

from holdfast import Agent, SqliteJournal
from holdfast.errors import JournalCorruptError, JournalReadOnlyError
from holdfast.journal import ReadOnlySqliteJournal
from holdfast.testing import ScriptedModel
from holdfast.testing.journal_conformance import make_turn_opened

pytestmark = pytest.mark.slow  # kills and starts processes

READS = [
    ["sessions", "list"],
    ["sessions", "show", "s1"],
    ["sessions", "search", "question"],
    ["sessions", "export", "s1"],
    ["replay", "s1"],
    ["journal", "show"],
    ["journal", "verify"],
    ["journal", "stats"],
]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "talk.db"


def run_read(words: list[str], path: Path) -> str:
    at = 1 if words[0] == "replay" else 2
    done = run_command(*words[:at], path, *words[at:])
    assert done.returncode == 0, (words, done.stderr)
    return done.stdout


def test_every_command_that_reads_works_while_a_process_writes(path: Path) -> None:
    with WritingProcess(path) as process:
        while process.read_turn()[1] < 10:
            continue
        for words in READS:
            assert run_read(words, path), words
        process.kill()
        for words in READS:
            assert run_read(words, path), words
    with SqliteJournal(path) as journal:
        entries = asyncio.run(journal.runs())
    assert len(entries) == 7
    assert sorted(file.name for file in path.parent.iterdir()) == ["talk.db", "talk.db.lock"]
    for words in READS:
        assert run_read(words, path), words
    assert sorted(file.name for file in path.parent.iterdir()) == ["talk.db", "talk.db.lock"]


def test_a_reader_sees_every_acknowledged_turn(path: Path) -> None:
    with WritingProcess(path, 20_000) as process:
        process.read_turn()
        with ReadOnlySqliteJournal(path) as reader:
            for _ in range(60):
                session, number = process.read_turn()
                text = "".join(
                    str(record.event)
                    for entry in asyncio.run(reader.runs())
                    for record in asyncio.run(reader.read(entry.run))
                )
                assert f"answer {number} " in text, session


def test_a_process_opens_kills_and_closes_the_file_while_others_read(path: Path) -> None:
    async def read_until(done: asyncio.Event) -> int:
        count = 0
        with ReadOnlySqliteJournal(path) as reader:
            while not done.is_set():
                runs = await reader.runs()
                assert {entry.run for entry in runs} >= {"first"}
                await reader.find_words(["question"])
                count += 1
                await asyncio.sleep(0)
        return count

    async def write() -> None:
        for _ in range(8):
            with WritingProcess(path) as process:
                await asyncio.to_thread(process.read_turn)
                await asyncio.to_thread(process.read_turn)
            with await asyncio.to_thread(SqliteJournal, path, wait=5) as journal:
                await journal.delete("s1")

    async def main() -> None:
        with SqliteJournal(path) as journal:
            await journal.append("first", make_turn_opened(1))
        done = asyncio.Event()
        readers = [asyncio.create_task(read_until(done)) for _ in range(2)]
        await write()
        done.set()
        assert min(await asyncio.gather(*readers)) > 5

    asyncio.run(main())


def test_a_reader_waits_for_a_journal_that_is_just_created(path: Path) -> None:
    for number in range(5):
        new = path.with_name(f"{number}.db")
        with WritingProcess(new) as process:
            while not new.exists():
                continue
            with ReadOnlySqliteJournal(new) as reader:
                assert len(asyncio.run(reader.runs())) >= 0
            process.read_turn()


def test_a_reader_changes_nothing(path: Path) -> None:
    with SqliteJournal(path) as journal:
        Agent(ScriptedModel("Hello!"), journal=journal).run_sync("Hi.", session="ada")
    before = path.read_bytes()
    with ReadOnlySqliteJournal(path) as reader:
        for change in (
            reader.append("ada", make_turn_opened(2)),
            reader.delete("ada"),
            reader.restore({}),
            reader.save_snapshot("ada", 1, b""),
        ):
            with pytest.raises(JournalReadOnlyError, match="for reading only"):
                asyncio.run(change)
        assert len(asyncio.run(reader.read("ada"))) > 2
    assert path.read_bytes() == before
    assert sorted(file.name for file in path.parent.iterdir()) == ["talk.db", "talk.db.lock"]


def check_copy(copy: Path) -> None:
    done = run_command("journal", "verify", copy)
    assert done.returncode == 1
    assert f"its log, {copy}-wal, is missing" in done.stdout


@pytest.mark.parametrize("turns", [0, 1, 60])
async def test_a_copy_of_an_open_file_without_its_log_does_not_verify(
    turns: int, path: Path
) -> None:
    copy = path.with_name("copy.db")
    with SqliteJournal(path) as journal:
        agent = Agent(ScriptedModel(*["x" * 40_000] * turns), journal=journal)
        for number in range(turns):
            await agent.run("Hi.", session=f"{number}")
        shutil.copy(path, copy)
        check_copy(copy)
    assert run_command("journal", "verify", path).returncode == 0
    with SqliteJournal(path) as journal:  # opened again
        await journal.append("again", make_turn_opened(1))
        shutil.copy(path, copy)
        check_copy(copy)
    assert run_command("journal", "verify", path).returncode == 0
    shutil.copy(path, copy)  # a closed file
    assert run_command("journal", "verify", copy).returncode == 0


def test_a_file_that_lost_its_log_after_a_kill_does_not_verify(path: Path) -> None:
    with WritingProcess(path) as process:
        process.read_turn()
        process.kill()
    assert run_command("journal", "verify", path).returncode == 0
    Path(f"{path}-wal").unlink()
    check_copy(path)
    done = run_command("journal", "restore", path, path.with_name("rest.db"))
    assert done.returncode == 0, done.stderr
    assert run_command("journal", "verify", path.with_name("rest.db")).returncode == 0


def test_a_copy_of_the_first_page_alone_is_refused(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.close()
    assert path.stat().st_size == 4096
    done = run_command("journal", "verify", path)
    assert done.returncode == 1
    assert "-wal" in done.stderr
    with pytest.raises(JournalCorruptError):
        ReadOnlySqliteJournal(path)


_FORK = """
import asyncio, os, sys
from holdfast.errors import JournalClosedError
from holdfast.journal import ReadOnlySqliteJournal
reader = ReadOnlySqliteJournal(sys.argv[1])
asyncio.run(reader.runs())
if os.fork():
    _, status = os.wait()
    assert len(asyncio.run(reader.runs())) == 1
    sys.exit(status)
try:
    asyncio.run(reader.runs())
except JournalClosedError:
    with ReadOnlySqliteJournal(sys.argv[1]) as own:
        assert len(asyncio.run(own.runs())) == 1
    os._exit(0)
os._exit(1)
"""


def test_a_forked_child_opens_a_reader_of_its_own(path: Path) -> None:
    with SqliteJournal(path) as journal:
        asyncio.run(journal.append("ada", make_turn_opened(1)))
    words = [sys.executable, "-c", _FORK, str(path)]
    assert subprocess.run(words, timeout=30, check=False).returncode == 0


def test_a_copy_of_the_file_with_its_log_is_read(path: Path) -> None:
    with SqliteJournal(path) as journal:
        Agent(ScriptedModel("Hello!"), journal=journal).run_sync("Hi.", session="ada")
        for ending in ("", "-wal"):
            shutil.copy(f"{path}{ending}", f"{path.with_name('copy.db')}{ending}")
    with ReadOnlySqliteJournal(path.with_name("copy.db")) as reader:
        assert [entry.run for entry in asyncio.run(reader.runs())] == ["ada"]
