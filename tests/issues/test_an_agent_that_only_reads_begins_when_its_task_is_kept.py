"""An agent without tools that write is a tool that only reads, and its hooks saw a task that was not kept."""

from __future__ import annotations

import asyncio

import pytest
from tests.runtime.test_write_behind import SlowJournal

from holdfast import Agent, Middleware
from holdfast.core.messages import ToolCall
from holdfast.middleware.hook_contexts import BeforeTurn
from holdfast.testing import ScriptedModel

pytestmark = pytest.mark.anyio


class Noting(Middleware):
    def __init__(self) -> None:
        self.tasks: list[str] = []

    async def before_turn(self, context: BeforeTurn) -> None:
        self.tasks.append(context.message.text)


async def test_no_hook_of_it_is_called_before() -> None:
    noting, journal = Noting(), SlowJournal()
    inner = Agent(ScriptedModel("Nothing."), name="inner", middleware=[noting])
    model = ScriptedModel(ToolCall("c", "inner", '{"task": "Look."}'), "Done.")
    agent = Agent(model, tools=[inner.as_tool()], journal=journal)
    run = asyncio.create_task(agent.run("Go.", session="s"))
    await journal.until("t1")
    journal.keep("t1")
    await journal.until("t1.i0.model", "t1.i0.begun")
    assert noting.tasks == []
    journal.let_go()
    assert (await run).text == "Done."
    assert noting.tasks == ["Look."]
