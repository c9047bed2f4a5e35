"""`Retention` could only be used by a command or a call; an agent had no setting for it."""

from __future__ import annotations

import asyncio
import logging
import time
from pathlib import Path

import pytest
from tests.postgres_server import PostgresServer

from holdfast import (
    Agent,
    ConfigurationError,
    PostgresJournal,
    SqliteJournal,
    ToolCall,
    ToolContext,
    tool,
)
from holdfast.core.questions import ClarificationQuestion
from holdfast.events import Status, TurnClosed
from holdfast.journal import Journal, Retention
from holdfast.runtime.queued_runs.engine_copies import copy_on_journal
from holdfast.runtime.sessions import background_pruning
from holdfast.testing import FakeClock, ScriptedModel
from holdfast.testing.journal_conformance import make_turn_opened


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


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "talk.db"


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


async def test_it_runs_once_an_hour(path: Path) -> None:
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
        await clock.sleep(background_pruning.INTERVAL)
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


def test_it_continues_after_run_sync(path: Path) -> None:
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


def test_a_journal_is_needed() -> None:
    with pytest.raises(ConfigurationError, match="journal"):
        Agent(ScriptedModel("Hi"), retention=Retention(days=1))
    with pytest.raises(ConfigurationError, match="retention"):
        Agent(ScriptedModel("Hi"), retention=90, journal="sqlite:///x.db")  # type: ignore[arg-type]


def test_an_agent_file_has_it(tmp_path: Path) -> None:
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
