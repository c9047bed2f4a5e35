"""A turn was cancelled while the result of a tool was on its way: what the tool had spent was forgotten.

The cancelled record was never kept, and nothing else remembered the usage that stood in it.
"""

from __future__ import annotations

import asyncio

import pytest

from holdfast import Agent, MemoryJournal, ToolContext, Usage, tool
from holdfast.core.effects import Effect
from holdfast.core.events import Event, ToolFinished, TurnInterrupted
from holdfast.testing import ScriptedModel
from holdfast.testing.emulator import call

pytestmark = pytest.mark.anyio

SPENT = Usage(100, 50)


class Slow(MemoryJournal):
    """Never comes to keep the result of a tool."""

    def __init__(self) -> None:
        super().__init__()
        self.reached = asyncio.Event()

    async def append(
        self, run: str, event: Event, effect: Effect | None = None, *, marker: Event | None = None
    ) -> None:
        if isinstance(event, ToolFinished):
            self.reached.set()
            await asyncio.Event().wait()
        await super().append(run, event, effect, marker=marker)


async def test_the_usage_of_a_tool_counts_when_its_result_is_not_saved() -> None:
    @tool(effect="write")
    async def pay(context: ToolContext) -> str:
        """Pay."""
        context.add_usage(SPENT)
        return "paid"

    journal = Slow()
    agent = Agent(ScriptedModel(call("pay", {}, id="1")), tools=[pay], journal=journal)
    run = asyncio.create_task(agent.run("Go.", session="ada"))
    await journal.reached.wait()
    run.cancel()
    await asyncio.wait([run])
    assert run.cancelled()
    events = [record.event for record in await journal.read("ada")]
    assert [one.usage for one in events if isinstance(one, TurnInterrupted)] == [SPENT]
