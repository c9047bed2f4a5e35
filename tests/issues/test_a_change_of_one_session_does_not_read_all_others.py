"""Fork, rename and delete of one session read all records of the journal, and other calls waited."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast import Agent, SqliteJournal
from holdfast.testing import ScriptedModel


async def test_no_record_of_another_session_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with SqliteJournal(tmp_path / "talk.db") as journal:
        agent = Agent(ScriptedModel("Hi", "Hello"), journal=journal)
        await agent.run("Hi", session="ada")
        await agent.run("Hello", session="bob")
        await agent.sessions.rename("ada", "Ada")

        read: list[str] = []
        records = journal.read

        async def noted(run: str, after: int = 0) -> object:
            read.append(run)
            return await records(run, after)

        monkeypatch.setattr(journal, "read", noted)
        await agent.sessions.fork("ada", to="eve")
        lines = [line async for line in agent.sessions.export("ada")]
        await agent.sessions.import_(lines, session="ivy")
        assert await agent.sessions.delete("ada") == 4
        assert set(read) == {"ada", "ada/:title", "ivy", "ivy/:title"}  # an import is read again
        assert {info.session for info in await agent.sessions.list()} == {"bob", "eve", "ivy"}
