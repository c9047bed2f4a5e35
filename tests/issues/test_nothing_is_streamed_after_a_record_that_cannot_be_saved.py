"""A result that could not be saved was left out, and the reply of the model to it was shown.

And when a journal failed with an error of its own, the turn went on as if nothing had happened.
"""

from __future__ import annotations

import asyncio

import pytest
from tests.runtime.slow_journal import CALL, SlowJournal

from holdfast import Agent, tool
from holdfast.core.deltas import TextDelta
from holdfast.core.events import ToolFinished
from holdfast.journal.journal_errors import JournalStorageError
from holdfast.testing import ScriptedModel

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("error", [JournalStorageError("talk.db", "is full"), OSError("is gone")])
async def test_the_turn_ends_there_for_everybody(error: Exception) -> None:
    journal, paid, seen = SlowJournal(), list[str](), list[object]()
    journal.slow = False

    @tool(effect="write")
    async def pay() -> str:
        """Pay."""
        paid.append("once")
        journal.slow = True
        return "paid"

    agent = Agent(
        ScriptedModel(CALL, "To nothing."),
        tools=[pay],
        journal=journal,
        observers=[lambda one: seen.append(one.item)],
    )
    async with asyncio.timeout(20), agent.stream("Pay.", session="s") as stream:
        await journal.until("t1.i0.tool.0")
        journal.fail(error)
        with pytest.raises(type(error), match="is"):
            await stream.wait()
    assert paid == ["once"]
    assert [item for item in seen if isinstance(item, TextDelta | ToolFinished)] == []
    kept = [record.event.key for record in await journal.read("s")]
    assert kept == ["t1", "t1.i0.model", "t1.i0.begun"]
