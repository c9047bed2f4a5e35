"""`agent.sessions.delete` refused a session that this version or this agent could not read."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from holdfast import Agent, SqliteJournal
from holdfast.core.errors import HoldfastError
from holdfast.testing import ScriptedModel


@pytest.mark.parametrize(
    "spoil", ["digest = 'another'", "type = 'dreamt'", "event = '{'", "schema = 99", "key = 't9'"]
)
async def test_it_is_gone(tmp_path: Path, spoil: str) -> None:
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
