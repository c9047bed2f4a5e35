"""Backups are made while a process writes, are whole or absent, and a restored journal continues safely."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.journal.writing_process import WritingProcess, run_command

from holdfast import Agent, ConfigurationError, SqliteJournal, ToolCall, tool
from holdfast.errors import JournalBusyError, JournalError, JournalStorageError
from holdfast.journal import ReadOnlySqliteJournal, backup_file, restore_backup
from holdfast.journal.sqlite.backup import new_file
from holdfast.testing import ScriptedModel
from holdfast.testing.journal_conformance import make_turn_opened


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "talk.db"


def read_texts(path: Path) -> str:
    with ReadOnlySqliteJournal(path) as journal:
        runs = [entry.run for entry in asyncio.run(journal.runs())]
        return "".join(str(asyncio.run(journal.read(run))) for run in runs)


@pytest.mark.slow  # kills processes
def test_a_backup_beside_a_writer_has_every_acknowledged_turn(path: Path, tmp_path: Path) -> None:
    with WritingProcess(path, 5_000) as process:
        for number in range(4):
            _, last = process.read_turn()
            copy = tmp_path / f"copy{number}.db"
            done = run_command("journal", "backup", path, copy)
            assert done.returncode == 0, done.stderr
            assert re.search(r"\d+ runs, \d+ records", done.stdout)
            texts = read_texts(copy)
            assert all(f"answer {turn} " in texts for turn in range(1, last + 1))
            assert run_command("journal", "verify", copy).returncode == 0
    names = {file.name for file in tmp_path.iterdir() if file.name.startswith(("copy", ".copy"))}
    assert names == {f"copy{number}.db" for number in range(4)}


async def test_a_journal_backs_itself_up_while_turns_run(path: Path, tmp_path: Path) -> None:
    with SqliteJournal(path) as journal:
        agent = Agent(ScriptedModel(*["Hello!"] * 30), journal=journal)
        turns = [asyncio.create_task(agent.run("Hi.", session=f"s{n}")) for n in range(30)]
        copies = [await journal.backup(tmp_path / f"{number}.db") for number in range(3)]
        await asyncio.gather(*turns)
        copies.append(await journal.backup(tmp_path / "last.db"))
    assert copies[-1].runs == 30
    for copy in copies:
        with SqliteJournal(copy.path) as found:
            assert len(await found.runs()) == copy.runs


@pytest.mark.slow  # kills processes
def test_a_killed_backup_leaves_no_file_with_its_name(path: Path, tmp_path: Path) -> None:
    with SqliteJournal(path) as journal:
        for number in range(40):
            asyncio.run(journal.append("ada", make_turn_opened(number, "x" * 100_000)))
    program = "import sys; from holdfast.journal import backup_file; print(1, flush=True); backup_file(*sys.argv[1:])"
    for number in range(12):
        copy = tmp_path / "copy.db"
        process = subprocess.Popen(
            [sys.executable, "-c", program, path, copy], stdout=subprocess.PIPE
        )
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(number * 0.004)
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        if copy.exists():
            assert run_command("journal", "verify", copy).returncode == 0
            copy.unlink()
    assert backup_file(path, copy).records == 40
    assert not list(tmp_path.glob(".copy*"))


def test_a_backup_replaces_nothing(path: Path, tmp_path: Path) -> None:
    with SqliteJournal(path) as journal:
        asyncio.run(journal.append("ada", make_turn_opened(1)))
    copy = tmp_path / "copy.db"
    for ending in ("", "-wal"):
        other = Path(f"{copy}{ending}")
        other.write_bytes(b"mine")
        with pytest.raises(ConfigurationError, match="already exists"):
            backup_file(path, copy)
        assert other.read_bytes() == b"mine"
        other.unlink()
    done = run_command("journal", "backup", path, path)
    assert done.returncode == 2
    assert "already exists" in done.stderr


def back_up_while_another_does(path: Path, copy: Path) -> None:
    with new_file(str(copy)) as part:
        with pytest.raises(JournalBusyError):
            backup_file(path, copy)
        Path(part).write_bytes(b"mine")
        copy.write_bytes(b"of another program")


def test_only_one_process_writes_a_backup_of_one_name(path: Path, tmp_path: Path) -> None:
    with SqliteJournal(path) as journal:
        asyncio.run(journal.append("ada", make_turn_opened(1)))
    copy = tmp_path / "copy.db"
    with pytest.raises(ConfigurationError, match="already exists"):
        back_up_while_another_does(path, copy)
    assert copy.read_bytes() == b"of another program"


def test_a_backup_that_cannot_be_written_says_why(path: Path, tmp_path: Path) -> None:
    with SqliteJournal(path) as journal:
        asyncio.run(journal.append("ada", make_turn_opened(1)))
    with pytest.raises(JournalStorageError, match="cannot be written") as caught:
        backup_file(path, tmp_path / "missing" / "copy.db")
    assert caught.value.fix
    with pytest.raises(JournalError):
        backup_file(tmp_path / "nothing.db", tmp_path / "copy.db")
    assert not (tmp_path / "copy.db").exists()


def test_a_damaged_backup_is_not_restored(path: Path, tmp_path: Path) -> None:
    with SqliteJournal(path) as journal:
        for number in range(40):
            asyncio.run(journal.append("ada", make_turn_opened(number, "x" * 4_000)))
    backup_file(path, tmp_path / "copy.db")
    with (tmp_path / "copy.db").open("r+b") as file:
        file.seek(4096 * 2)
        file.write(os.urandom(4096 * 20))
    done = run_command("journal", "restore", tmp_path / "copy.db", tmp_path / "new.db")
    assert done.returncode == 1
    assert "damaged" in done.stderr
    assert not [file for file in tmp_path.iterdir() if "new" in file.name]


async def test_a_write_that_would_begin_in_a_restored_turn_is_in_doubt(
    path: Path, tmp_path: Path
) -> None:
    paid: list[int] = []

    @tool(effect="write")
    def pay(amount: int) -> str:
        """Pay an amount."""
        paid.append(amount)
        return "paid"

    script = [ToolCall("1", "pay", '{"amount": 5}'), "Done."]
    with SqliteJournal(path) as journal:
        await Agent(ScriptedModel(*script), tools=[pay], journal=journal).run("Pay.", session="ada")
    assert paid == [5]
    with SqliteJournal(path) as journal, SqliteJournal(tmp_path / "earlier.db") as earlier:
        records = await journal.read("ada")
        kinds = [type(record.event).__name__ for record in records[:3]]
        assert kinds == ["TurnOpened", "ModelReplied", "ToolsBegun"]
        await earlier.restore({"ada": records[:2]})  # as it was before the tool began
    restored = await restore_backup(tmp_path / "earlier.db", tmp_path / "new.db")
    assert restored.open_runs == ("ada",)
    with SqliteJournal(tmp_path / "new.db") as journal:
        agent = Agent(ScriptedModel("It is unknown."), tools=[pay], journal=journal)
        result = await agent.resume("ada")
    assert paid == [5]
    assert "unknown" in str(result.messages)


async def test_a_log_of_the_original_is_not_accepted_beside_a_restored_journal(
    path: Path, tmp_path: Path
) -> None:
    with SqliteJournal(path) as journal:
        await journal.append("ada", make_turn_opened(1))
        await restore_backup(path, tmp_path / "new.db")
        await journal.append("ada", make_turn_opened(2))
        shutil.copy(f"{path}-wal", tmp_path / "new.db-wal")
    with pytest.raises(JournalError, match="belongs to another"):
        SqliteJournal(tmp_path / "new.db")


def test_the_commands_name_the_open_turns(path: Path, tmp_path: Path) -> None:
    with SqliteJournal(path) as journal:
        asyncio.run(journal.append("ada", make_turn_opened(1)))
        done = run_command("journal", "restore", path, tmp_path / "new.db")
    assert done.returncode == 0, done.stderr
    assert "ada" in done.stdout
    assert "in doubt" in done.stdout
