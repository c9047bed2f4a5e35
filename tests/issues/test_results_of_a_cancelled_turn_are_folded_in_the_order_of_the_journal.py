"""A turn was cancelled while several results were being kept, and they were believed in any order.

What a middleware remembered, and what observers saw, was then in another order than in the journal:
another process, which folds that, came to something else.
"""

from __future__ import annotations

import asyncio

import pytest

from holdfast import Agent, MemoryJournal, tool
from holdfast.core.effects import Effect
from holdfast.core.events import Event, ToolFinished
from holdfast.events import Observation
from holdfast.testing import ScriptedModel
from holdfast.testing.emulator import call

pytestmark = pytest.mark.anyio

TOOLS = 12


class Silent(MemoryJournal):
    """Keeps the results of tools, and never comes to say so."""

    def __init__(self) -> None:
        super().__init__()
        self.results = 0
        self.all_there = asyncio.Event()

    async def append(
        self, run: str, event: Event, effect: Effect | None = None, *, marker: Event | None = None
    ) -> None:
        await super().append(run, event, effect, marker=marker)
        if isinstance(event, ToolFinished):
            self.results += 1
            if self.results == TOOLS:
                self.all_there.set()
            await asyncio.Event().wait()


async def test_they_are() -> None:
    seen: list[str] = []

    def observer(one: Observation) -> None:
        if isinstance(one.item, Event):
            seen.append(one.item.key)

    @tool(effect="read")
    async def look() -> str:
        """Look."""
        return "a wall"

    journal = Silent()
    calls = [call("look", {}, id=str(number)) for number in range(TOOLS)]
    agent = Agent(ScriptedModel(calls), tools=[look], journal=journal, observers=[observer])
    run = asyncio.create_task(agent.run("Go.", session="ada"))
    await journal.all_there.wait()
    run.cancel()
    await asyncio.wait([run])
    assert run.cancelled()
    assert seen == [record.event.key for record in await journal.read("ada")]
    assert len([key for key in seen if ".tool." in key]) == TOOLS
