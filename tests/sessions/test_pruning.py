"""Old sessions are deleted, with their text; those that are open, waiting or in doubt never are."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest
from tests.journal.writing_process import WritingProcess, run_command
from tests.postgres_server import PostgresServer

from holdfast import (
    Agent,
    ConfigurationError,
    MemoryJournal,
    PostgresJournal,
    SqliteJournal,
    ToolCall,
    ToolContext,
    tool,
)
from holdfast.core.questions import ClarificationQuestion
from holdfast.events import Status, TurnClosed
from holdfast.journal import Journal, Retention
from holdfast.journal.port import RunLog
from holdfast.runtime.engine import copy_on_journal
from holdfast.runtime.sessions import agent_sessions
from holdfast.sessions import Sessions
from holdfast.testing import FakeClock, ScriptedModel
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


@pytest.mark.slow  # takes half a second or more
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


@pytest.mark.slow  # takes half a second or more
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
        await asyncio.wait_for(save_session(journal, "bob", 1), 60)  # a turn does not wait
        assert not deletion.done()
        reader.close()
        assert await deletion == 2
        await save_session(journal, "eve", 1)
    assert b"SECRET-TEXT" not in read_files(path)["talk.db"]
    with SqliteJournal(path) as journal:
        assert await list_names(journal) == ["bob", "eve"]


@pytest.mark.slow  # takes half a second or more
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


@pytest.mark.slow  # kills processes
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


# The `retention` of an agent.


async def save(journal: Journal, session: str, *, is_open: bool = False) -> None:
    """Save a session of long ago."""
    await journal.append(session, make_turn_opened(1))
    if not is_open:
        await journal.append(session, TurnClosed("t1.closed", 1.0, Status.COMPLETED))


def make_agent(journal: Journal, retention: Retention, *replies: str) -> Agent:
    return Agent(ScriptedModel(*replies), journal=journal, retention=retention, clock=FakeClock())


async def wait_for_pruning(agent: Agent) -> None:
    pruning = agent._engine.pruning
    assert pruning is not None
    assert pruning.task is not None
    await asyncio.wait([pruning.task], timeout=30)
    assert pruning.task.done()


async def names(journal: Journal) -> list[str]:
    return [entry.run for entry in await journal.runs()]


async def test_old_sessions_are_deleted_after_a_turn(path: Path) -> None:
    with SqliteJournal(path) as journal:
        for name in ("old", "kept", "old/t1.i0.tool.0"):
            await save(journal, name)
        await save(journal, "open", is_open=True)
        agent = make_agent(journal, Retention(days=30, keep=("kept",)), "Hello!")
        await agent.run("Hi", session="new")
        await wait_for_pruning(agent)
        assert await names(journal) == ["kept", "new", "open"]


@pytest.mark.parametrize("limit", [Retention(sessions=1), Retention(bytes=2000)])
async def test_the_number_and_the_size_are_limited(path: Path, limit: Retention) -> None:
    with SqliteJournal(path) as journal:
        await journal.append("old", make_turn_opened(1, "x" * 2000))
        await journal.append("old", TurnClosed("t1.closed", 1.0, Status.COMPLETED))
        agent = make_agent(journal, limit, "Hello!")
        await agent.run("Hi", session="new")
        await wait_for_pruning(agent)
        assert await names(journal) == ["new"]


async def test_a_session_that_waits_for_an_answer_stays(path: Path) -> None:
    @tool(effect="write")
    async def book(context: ToolContext) -> str:
        """Ask, and book."""
        return await context.ask(ClarificationQuestion(question="When?"))

    with SqliteJournal(path) as journal:
        model = ScriptedModel(ToolCall("c1", "book"), "Hello!")
        agent = Agent(
            model,
            tools=[book],
            on_wait="suspend",
            journal=journal,
            retention=Retention(sessions=0),
        )
        assert (await agent.run("Book.", session="waits")).status is Status.WAITING
        await wait_for_pruning(agent)
        assert await names(journal) == ["waits"]


async def test_an_agent_prunes_once_an_hour(path: Path) -> None:
    with SqliteJournal(path) as journal:
        clock = FakeClock()
        model = ScriptedModel("One.", "Two.", "Three.")
        agent = Agent(model, journal=journal, retention=Retention(days=30), clock=clock)
        await agent.run("Hi", session="new")
        await wait_for_pruning(agent)
        await save(journal, "old")
        await agent.run("Hi", session="new")
        await wait_for_pruning(agent)
        assert "old" in await names(journal)
        await clock.sleep(agent_sessions.INTERVAL)
        await agent.run("Hi", session="new")
        await wait_for_pruning(agent)
        assert await names(journal) == ["new"]


async def test_a_journal_may_be_closed_meanwhile(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with SqliteJournal(path) as journal:
        for number in range(50):
            await save(journal, f"old{number}")
        agent = make_agent(journal, Retention(days=30), "Hello!")
        await agent.run("Hi", session="new")
        await asyncio.sleep(0.1)
    await wait_for_pruning(agent)
    assert not [one for one in caplog.records if one.levelno >= logging.WARNING]
    with SqliteJournal(path) as journal:
        assert "new" in await names(journal)


async def test_a_failure_is_logged_and_fails_no_turn(
    path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    with SqliteJournal(path) as journal:
        await save(journal, "old")
        agent = make_agent(journal, Retention(days=30), "Hello!")

        async def fail(*_: str) -> int:
            raise ConfigurationError("journal", "is on a broken disk")

        monkeypatch.setattr(journal, "delete", fail)
        assert (await agent.run("Hi", session="new")).text == "Hello!"
        await wait_for_pruning(agent)
    assert "old sessions could not be deleted" in caplog.text


def test_pruning_continues_after_run_sync(path: Path) -> None:
    with SqliteJournal(path) as journal:
        asyncio.run(save(journal, "old"))
        agent = make_agent(journal, Retention(days=30), "Hello!", "Hello again!")
        agent.run_sync("Hi", session="new")
        end = time.monotonic() + 60
        while asyncio.run(names(journal)) != ["new"]:
            assert time.monotonic() < end


async def test_two_processes_may_delete_at_the_same_time(postgres: PostgresServer) -> None:
    url = postgres.new_url()
    with PostgresJournal(url) as one, PostgresJournal(url) as two:
        for number in range(5):
            await save(one, f"old{number}")
        agents = [
            make_agent(one, Retention(days=30), "Hi"),
            make_agent(two, Retention(days=30), "Hi"),
        ]
        await asyncio.gather(*(agent.run("Hi") for agent in agents))
        for agent in agents:
            await wait_for_pruning(agent)
        assert not [name for name in await names(one) if name.startswith("old")]


def test_retention_needs_a_journal() -> None:
    with pytest.raises(ConfigurationError, match="journal"):
        Agent(ScriptedModel("Hi"), retention=Retention(days=1))
    with pytest.raises(ConfigurationError, match="retention"):
        Agent(ScriptedModel("Hi"), retention=90, journal="sqlite:///x.db")  # type: ignore[arg-type]


def test_an_agent_file_may_have_a_retention(tmp_path: Path) -> None:
    file = tmp_path / "agent.toml"
    file.write_text(
        f'model = "ollama:llama3.2"\njournal = "sqlite:///{tmp_path}/talk.db"\n'
        '[retention]\ndays = 90\nkeep = ["ada"]\n'
    )
    pruning = Agent.from_file(file)._engine.pruning
    assert pruning is not None
    assert pruning._retention == Retention(days=90, keep=("ada",))


async def test_a_copy_with_another_journal_deletes_nothing(path: Path) -> None:
    with SqliteJournal(path) as journal, SqliteJournal(path.with_name("other.db")) as other:
        await save(other, "old")
        agent = make_agent(journal, Retention(days=30), "Hello!")
        engine = copy_on_journal(agent._engine, other)
        assert engine.pruning is None
        assert await names(other) == ["old"]
