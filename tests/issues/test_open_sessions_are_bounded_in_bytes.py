"""Open sessions were bounded by number: 600 sessions with pictures took 668 MB."""

from __future__ import annotations

import pytest

from holdfast import Agent, ConfigurationError, Media, MemoryJournal, Text, user
from holdfast.testing import ScriptedModel


async def count_open(agent: Agent[str], *sessions: str, size: int) -> int:
    for session in sessions:
        picture = Media("image/png", data=bytes(size))
        await agent.run(user(Text("What is this?"), picture), session=session)
    return len(agent._engine.session_pool._open)


async def test_sessions_with_pictures_are_dropped_by_their_size() -> None:
    journal = MemoryJournal()
    model = ScriptedModel(*["A cat."] * 40)
    agent = Agent(model, journal=journal, session_cache=1_000_000)
    names = [f"s{number}" for number in range(12)]
    assert await count_open(agent, *names, size=100_000) in range(3, 10)
    assert list(agent._engine.session_pool._open)[-1] == "s11"
    assert await count_open(agent, *names, size=1_000) in range(3, 12)
    assert len((await agent.sessions.read("s0")).messages) == 4


async def test_a_session_that_is_larger_than_the_cache_is_not_kept() -> None:
    agent = Agent(ScriptedModel("A cat.", "A cat."), session_cache=0, journal=MemoryJournal())
    assert await count_open(agent, "ada", size=1) == 0
    result = await agent.run("And now?", session="ada")
    assert len(result.messages) == 4


async def test_a_thousand_small_sessions_fit() -> None:
    agent = Agent(ScriptedModel(*["Hi"] * 1100), journal=MemoryJournal())
    for number in range(1100):
        await agent.run("Hi", session=f"s{number}")
    assert len(agent._engine.session_pool._open) == 1100


def test_the_size_is_checked() -> None:
    with pytest.raises(ConfigurationError, match="session_cache"):
        Agent(ScriptedModel("Hi"), session_cache=-1)
