"""A turn that ended at its limit of two iterations said that it had three."""

from __future__ import annotations

import pytest

from holdfast import Agent, LimitError, Limits, tool
from holdfast.core.messages import ToolCall
from holdfast.testing import ScriptedModel


async def test_a_turn_at_its_limit_counts_what_it_did() -> None:
    @tool
    def look() -> str:
        """Look."""
        return "nothing"

    again = ToolCall("c", "look")
    agent = Agent(ScriptedModel(again, again), tools=[look], limits=Limits(iterations=2))
    with pytest.raises(LimitError) as caught:
        await agent.run("go")
    assert caught.value.result.iterations == 2


async def test_a_turn_without_tools_has_one() -> None:
    assert (await Agent(ScriptedModel("hi")).run("go")).iterations == 1
