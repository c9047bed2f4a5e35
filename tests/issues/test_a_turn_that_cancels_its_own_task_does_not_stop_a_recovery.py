"""A tool that cancelled the task of its own turn hid what had become of all that was recovered."""

from __future__ import annotations

import asyncio

import pytest

from holdfast import Agent, MemoryJournal, tool
from holdfast.core.errors import ErrorCategory, HoldfastError
from holdfast.core.messages import ToolCall
from holdfast.core.model_request import ModelRequest
from holdfast.testing import CrashAt, ScriptedModel, SimulatedCrash

pytestmark = pytest.mark.anyio


@tool(effect="read")
async def stray() -> str:
    """Cancel the turn."""
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    return await asyncio.Event().wait()  # type: ignore[return-value]


@tool(effect="read")
async def look() -> str:
    """Look."""
    return "a wall"


async def done(_: ModelRequest) -> str:
    return "Done."


async def test_and_its_outcome_is_one_among_the_others() -> None:
    journal = MemoryJournal()
    for session, name in (("a", "look"), ("b", "stray"), ("c", "look")):
        model = ScriptedModel(ToolCall("c", name, "{}"))
        agent = Agent(model, tools=[look, stray], journal=CrashAt(journal, 3))
        with pytest.raises(SimulatedCrash):
            await agent.run("Go.", session=session)
    again = Agent(ScriptedModel(done, done, done), tools=[look, stray], journal=journal)
    first, second, third = await again.recover()
    assert first.result is not None
    assert third.result is not None
    assert isinstance(second.error, HoldfastError)
    assert second.error.info.category is ErrorCategory.CANCELLED
    assert await journal.runs(turn_open=True) == []


async def test_a_recovery_that_is_cancelled_is_cancelled() -> None:
    begun = asyncio.Event()

    @tool(effect="read")
    async def hang() -> str:
        """Hang."""
        begun.set()
        return await asyncio.Event().wait()  # type: ignore[return-value]

    journal = MemoryJournal()
    model = ScriptedModel(ToolCall("c", "hang", "{}"))
    with pytest.raises(SimulatedCrash):
        await Agent(model, tools=[hang], journal=CrashAt(journal, 3)).run("Go.", session="s")
    task = asyncio.create_task(Agent(model, tools=[hang], journal=journal).recover())
    await begun.wait()
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()
