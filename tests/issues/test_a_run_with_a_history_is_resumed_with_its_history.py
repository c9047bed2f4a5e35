"""A run with a history and without a session was resumed without the history."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast import Agent, SqliteJournal, assistant, user
from holdfast.core.messages import Message
from holdfast.testing import CrashAt, ScriptedModel, SimulatedCrash

HISTORY = [user("My name is Ada."), assistant("Hello, Ada.")]


@pytest.mark.parametrize("append", [1, 2, 3])
async def test_the_history_is_there_after_a_crash(tmp_path: Path, append: int) -> None:
    with SqliteJournal(tmp_path / "runs.db") as journal:
        first = ScriptedModel("You are Ada.")
        with pytest.raises(SimulatedCrash):
            await Agent(first, journal=CrashAt(journal, append)).run("Who am I?", history=HISTORY)
        [entry] = await journal.runs()
        second = ScriptedModel("You are Ada.")
        agent = Agent(second, journal=journal)
        asked: list[Message] = [*HISTORY, user("Who am I?")]
        if append < 3:
            result = await agent.resume(entry.run)
            assert list(result.history) == [*asked, assistant("You are Ada.")]
        seen = [list(request.messages)[:3] for request in (*first.requests, *second.requests)]
        assert seen == [asked]


async def test_a_run_in_memory_keeps_no_second_copy() -> None:
    seen = []
    agent = Agent(ScriptedModel("Hi"))
    async with agent.stream("Hello", history=HISTORY) as run:
        seen = [item async for item in run]
    assert seen[0].history == ()  # type: ignore[union-attr]  # the first event opens the turn
