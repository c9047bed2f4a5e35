"""A constraint that pydantic does not know was ignored: the value was taken and the tool ran with it."""

from __future__ import annotations

from typing import Annotated

import msgspec
import pytest

from holdfast import Agent, OutputError, ToolCall
from holdfast.testing import ScriptedModel

Nights = Annotated[int, msgspec.Meta(ge=1, description="how many nights")]


async def test_an_output_outside_of_it_is_not_taken() -> None:
    agent = Agent(ScriptedModel("0", "0", "0"), output=Nights)
    with pytest.raises(OutputError, match="greater than or equal to 1"):
        await agent.run("Go")


async def test_an_argument_outside_of_it_does_not_reach_the_tool() -> None:
    booked: list[int] = []

    def book(nights: Nights) -> str:
        booked.append(nights)
        return "booked"

    model = ScriptedModel(ToolCall("1", "book", '{"nights": 0}'), "done")
    await Agent(model, tools=[book]).run("Go")
    assert booked == []
    (spec,) = model.requests[0].tools
    assert spec.schema["properties"] == {
        "nights": {"type": "integer", "minimum": 1, "description": "how many nights"}
    }
