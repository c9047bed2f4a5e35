"""Old sessions are deleted, with their text; those that are open, waiting or in doubt never are."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest
from tests.journal.writing_process import WritingProcess, run_command
from tests.postgres_server import PostgresServer

from holdfast import Agent, ConfigurationError, MemoryJournal, PostgresJournal, SqliteJournal
from holdfast.events import Status, TurnClosed
from holdfast.journal import Journal, Retention
from holdfast.journal.port import RunLog
from holdfast.sessions import Sessions
from holdfast.testing import ScriptedModel
from holdfast.testing.journal_conformance import make_turn_opened

DAY = 86_400.0
NOW = 100 * DAY


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "talk.db"


def close_turn(number: int, at: float) -> TurnClosed:
    return TurnClosed(f"t{number}.closed", at, Status.COMPLETED)


def read_files(path: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in path.parent.iterdir()}


async def save_session(
    journal: Journal, session: str, day: float, text: str = "", *, is_open: bool = False
) -> None:
    await journal.append(session, make_turn_opened(1, text or session, day * DAY))
    if not is_open:
        await journal.append(session, close_turn(1, day * DAY))


def sessions_at(journal: Journal) -> Sessions:
    return Sessions(journal, clock=lambda: NOW)


async def list_names(journal: Journal) -> list[str]:
    return [entry.run for entry in await journal.runs()]


async def fill(journal: Journal) -> None:
    for day in (1, 50, 80, 99):
        await save_session(journal, f"day {day}", day, "x" * 1000)
    await save_session(journal, "open", 1, is_open=True)
    await save_session(journal, "parent", 1)
    await save_session(journal, "parent/t1.i0.tool.0", 1, is_open=True)


@pytest.mark.parametrize(
    ("retention", "deleted"),
    [
        (Retention(days=30), ("day 1", "day 50")),
        (Retention(days=30, keep=("day 1",)), ("day 50",)),
        (Retention(days=0.5), ("day 1", "day 50", "day 80", "day 99")),
        (Retention(sessions=4), ("day 1", "day 50")),
        (Retention(sessions=0), ("day 1", "day 50", "day 80", "day 99")),
        (Retention(bytes=4500), ("day 1",)),
        (Retention(bytes=0), ("day 1", "day 50", "day 80", "day 99")),
        (Retention(bytes=10**9), ()),
        (Retention(days=60, sessions=3), ("day 1", "day 50", "day 80")),
    ],
)
async def test_each_limit_deletes_the_oldest_sessions(
    retention: Retention, deleted: tuple[str, ...], path: Path
) -> None:
    with SqliteJournal(path) as in_file:
        for journal in (MemoryJournal(), in_file):
            await fill(journal)
            before = await list_names(journal)
            planned = await sessions_at(journal).prune(retention, dry_run=True)
            assert await list_names(journal) == before
            pruned = await sessions_at(journal).prune(retention)
            assert pruned == planned
            assert pruned.sessions == deleted
            assert await list_names(journal) == [name for name in before if name not in deleted]


async def test_a_postgresql_journal_is_pruned(postgres: PostgresServer) -> None:
    with PostgresJournal(postgres.new_url()) as journal:
        await fill(journal)
        lease = await journal.claim("day 1")
        pruned = await sessions_at(journal).prune(Retention(bytes=0))
        assert pruned.sessions == ("day 50", "day 80", "day 99")
        await lease.release()
        pruned = await sessions_at(journal).prune(Retention(days=30))
        assert pruned.sessions == ("day 1",)
        assert pruned.bytes > 1000


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({}, "days"),
        ({"days": 0}, "days"),
        ({"days": float("nan")}, "days"),
        ({"sessions": -1}, "sessions"),
        ({"bytes": 1.5}, "bytes"),
        ({"days": 1, "keep": "ada"}, "keep"),
    ],
)
def test_a_wrong_limit_is_refused_by_its_name(values: dict[str, object], named: str) -> None:
    with pytest.raises(ConfigurationError, match=named):
        Retention(**values)  # type: ignore[arg-type]  # what is tested


async def test_a_session_that_changes_meanwhile_stays(path: Path) -> None:
    with SqliteJournal(path) as journal:
        await fill(journal)

        @asynccontextmanager
        async def hold_after_a_change(_: str) -> AsyncIterator[RunLog]:
            await journal.append("day 1", make_turn_opened(2, "again", NOW))
            await journal.append("day 1", close_turn(2, NOW))
            yield journal

        changing = Sessions(journal, hold=hold_after_a_change, clock=lambda: NOW)
        pruned = await changing.prune(Retention(sessions=5))
        assert pruned.sessions == ()
        assert "day 1" in await list_names(journal)


async def test_the_text_of_a_pruned_session_is_in_no_file_and_the_file_is_smaller(
    path: Path,
) -> None:
    with SqliteJournal(path):
        pass
    empty = len(read_files(path)["talk.db"])  # the tables themselves
    with SqliteJournal(path) as journal:
        for number in range(60):
            await save_session(journal, f"s{number}", number, "SECRET-TEXT " * 3000)
        await save_session(journal, "last", 99, "kept text")
        await sessions_at(journal).rename("s1", "SECRET-TEXT as a title")
        await journal.save_snapshot("s2", 1, b"SECRET-TEXT in a snapshot")
        await journal.delete("nobody")  # copies the log into the file
        before = len(read_files(path)["talk.db"])
        assert before > empty + 60 * 30_000
        pruned = await sessions_at(journal).prune(Retention(days=20))
        assert len(pruned.sessions) == 59  # the new title is of today
        await sessions_at(journal).delete("s1")
        await journal.release_space()
        files = read_files(path)
        assert [name for name, content in files.items() if b"SECRET-TEXT" in content] == []
        assert len(files["talk.db"]) < empty + before / 20
        await journal.append("last", make_turn_opened(2, "still written", NOW))
    assert run_command("journal", "verify", path).returncode == 0
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA freelist_count").fetchone() == (0,)


async def test_a_deletion_empties_the_log_when_a_reader_has_finished(path: Path) -> None:
    with SqliteJournal(path) as journal:
        await save_session(journal, "ada", 1, "SECRET-TEXT")
        reader = sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, isolation_level=None)
        reader.execute("BEGIN")
        assert reader.execute("SELECT COUNT(*) FROM records").fetchone() == (2,)
        deletion = asyncio.create_task(journal.delete("ada"))
        await asyncio.sleep(0.3)
        await asyncio.wait_for(save_session(journal, "bob", 1), 1)  # a turn does not wait
        assert not deletion.done()
        reader.close()
        assert await deletion == 2
        await save_session(journal, "eve", 1)
    assert b"SECRET-TEXT" not in read_files(path)["talk.db"]
    with SqliteJournal(path) as journal:
        assert await list_names(journal) == ["bob", "eve"]


def test_the_command_deletes_and_lists(path: Path) -> None:
    with SqliteJournal(path) as journal:
        asyncio.run(save_session(journal, "old", 1))
        asyncio.run(save_session(journal, "older", 0.5))
        asyncio.run(save_session(journal, "open", 1, is_open=True))
    done = run_command("journal", "prune", path, "--days", 1, "--keep", "old", "--dry-run")
    assert (done.returncode, done.stdout.split("\n")[0]) == (0, "older"), done.stderr
    assert "1 sessions would be deleted" in done.stdout
    done = run_command("journal", "prune", path, "--days", 1, "--keep", "old")
    assert "1 sessions deleted" in done.stdout
    shown = run_command("journal", "show", path).stdout
    assert "older" not in shown
    assert "open" in shown
    done = run_command("journal", "prune", path)
    assert done.returncode == 2
    assert "at least one limit" in done.stderr
    done = run_command("journal", "prune", path, "--bytes", "5Q")
    assert done.returncode == 2
    assert "such as 500M" in done.stderr


def test_kills_while_all_upkeep_goes_on_lose_nothing(path: Path, tmp_path: Path) -> None:
    for round_number in range(3):
        with WritingProcess(path, 3_000, prunes=True) as process:
            first = process.read_turn()[1]
            assert first
            copy = tmp_path / f"copy{round_number}.db"
            for words in (
                ["sessions", "list", path],
                ["journal", "backup", path, copy],
                ["sessions", "search", path, "question"],
            ):
                done = run_command(*words)
                assert done.returncode == 0 or words[1] == "search", (words, done.stderr)
            process.read_turn()
            acknowledged = process.kill()
        assert run_command("journal", "verify", copy).returncode == 0
        with SqliteJournal(path) as journal:
            entries = {entry.run: entry for entry in asyncio.run(journal.runs())}
            last = dict(acknowledged)
            newest = sorted(last.items(), key=lambda item: -item[1])[:3]
            for session, number in newest:  # `prunes` keeps the three that changed last
                texts = str(asyncio.run(journal.read(session)))
                assert texts.count(f"answer {number} ") == 1, (session, number, list(entries))
        assert run_command("journal", "verify", path).returncode == 0


async def test_an_agent_prunes_while_its_turns_run(path: Path) -> None:
    with SqliteJournal(path) as journal:
        agent = Agent(ScriptedModel(*["Hello!"] * 40), journal=journal)
        for number in range(10):
            await agent.run("Hi.", session=f"old {number}")
        turns = [asyncio.create_task(agent.run("Hi.", session=f"new {n}")) for n in range(10)]
        pruned = await agent.sessions.prune(Retention(sessions=0))
        results = await asyncio.gather(*turns)
        assert {result.status for result in results} == {"completed"}
        left = {entry.run for entry in await journal.runs()}
        assert not {f"old {number}" for number in range(10)} & left
        assert set(pruned.sessions) >= {f"old {number}" for number in range(10)}
