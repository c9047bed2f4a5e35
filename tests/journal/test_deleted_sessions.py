"""A deleted session starts again, also for an agent that has it open."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast import Agent, MemoryJournal, SqliteJournal
from holdfast.core.errors import HoldfastError
from holdfast.journal.port import Journal
from holdfast.testing import ScriptedModel


@pytest.fixture(params=["memory", "sqlite"])
def journal(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Journal]:
    if request.param == "memory":
        yield MemoryJournal()
    else:
        with SqliteJournal(tmp_path / "talk.db") as kept:
            yield kept


async def test_an_agent_forgets_a_session_that_was_deleted(journal: Journal) -> None:
    agent = Agent(ScriptedModel("one", "two", "three"), journal=journal)
    await agent.run("my secret", session="ada")
    await agent.run("more", session="ada")
    await journal.delete("ada")
    result = await agent.run("hello", session="ada")
    assert [message.text for message in result.messages] == ["hello", "three"]
    assert next(iter(await journal.read("ada"))).event.key == "t1"


async def test_turns_of_another_agent_after_the_deletion_count(journal: Journal) -> None:
    first = Agent(ScriptedModel("one", "two", "three"), journal=journal)
    await first.run("a", session="s")
    await first.run("b", session="s")
    await journal.delete("s")
    await Agent(ScriptedModel("other"), journal=journal).run("c", session="s")
    result = await first.run("d", session="s")
    assert [message.text for message in result.messages] == ["c", "other", "d", "three"]


@pytest.mark.parametrize(
    "spoil", ["digest = 'another'", "type = 'dreamt'", "event = '{'", "schema = 99", "key = 't9'"]
)
async def test_an_unreadable_session_can_be_deleted(tmp_path: Path, spoil: str) -> None:
    path = tmp_path / "talk.db"
    with SqliteJournal(path) as journal:
        agent = Agent(ScriptedModel("Hi", "Hello"), journal=journal)
        await agent.run("my secret", session="ada")
        await agent.run("Hello", session="bob")
    connection = sqlite3.connect(path)
    connection.execute(
        f"UPDATE records SET {spoil} WHERE run = (SELECT id FROM runs WHERE name = 'ada') AND seq = 2"
    )
    connection.commit()
    connection.close()
    with SqliteJournal(path) as journal:
        agent = Agent(ScriptedModel("Hi"), journal=journal)
        with pytest.raises(HoldfastError):
            await agent.run("And now?", session="ada")
        assert await agent.sessions.delete("ada") == 3
        assert [info.session for info in await agent.sessions.list()] == ["bob"]
        await agent.run("Hi", session="ada")
    assert b"my secret" not in path.read_bytes()
