"""The partial reply of one iteration could be saved as that of a later one."""

from __future__ import annotations

import asyncio

import pytest

from holdfast import Agent, tool
from holdfast.core.messages import Reply, Text, ToolCall
from holdfast.core.model_request import ModelRequest
from holdfast.journal.memory import MemoryJournal
from holdfast.resilience.pipeline import CallContext, Outcome
from holdfast.testing import ScriptedModel


class LeavesAPartial(ScriptedModel):
    """Its first attempt leaves a partial reply behind, as an attempt cut by a timeout does."""

    async def attempt(self, call: CallContext[ModelRequest]) -> Outcome[Reply]:
        """As scripted; the first one says first that it was cut."""
        if not self.requests and call.execution.keep_partial is not None:
            call.execution.keep_partial(Reply((Text("stale words"),)))
        return await super().attempt(call)


async def test_an_interruption_does_not_tell_of_an_earlier_iteration() -> None:
    waiting = asyncio.Event()

    @tool
    def look() -> str:
        """Look."""
        return "ok"

    async def hang(_request: ModelRequest) -> str:
        waiting.set()
        await asyncio.Event().wait()
        return ""

    journal = MemoryJournal()
    agent = Agent(LeavesAPartial(ToolCall("c", "look"), hang, "on"), tools=[look], journal=journal)
    run = asyncio.create_task(agent.run("go", session="s"))
    await waiting.wait()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    result = await agent.run("and?", session="s")
    assert "stale words" not in "".join(message.text for message in result.messages)
