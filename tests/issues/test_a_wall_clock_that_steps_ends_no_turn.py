"""The time of a turn was counted by the wall clock: a step of an hour ended it after four seconds."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel

from holdfast import Agent, Limits, MemoryJournal, ToolContext, tool
from holdfast.core.messages import Reply, ToolCall
from holdfast.core.questions import PermissionQuestion
from holdfast.errors import LimitError
from holdfast.testing import FakeClock, ScriptedModel

STEPS = [3600.0, -3600.0, 8 * 3600.0]


def call(name: str) -> Reply:
    return Reply((ToolCall("1", name, "{}"),))


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("durable", [True, False])
async def test_a_live_turn_goes_on(step: float, durable: bool) -> None:
    clock = FakeClock()

    @tool
    def look() -> str:
        clock.advance(1)
        clock.step(step)
        return "there"

    model = ScriptedModel(call("look"), call("look"), "done")
    journal = MemoryJournal() if durable else None
    agent = Agent(model, tools=[look], clock=clock, journal=journal, limits=Limits(seconds=60))
    assert (await agent.run("Look", session="ada")).output == "done"


@pytest.mark.parametrize("step", STEPS)
async def test_its_own_time_still_counts(step: float) -> None:
    """Also after a step back, which gives a turn no more time."""
    clock = FakeClock()

    @tool
    def look() -> str:
        clock.step(step)
        clock.advance(40)
        return "there"

    agent = Agent(
        ScriptedModel(*[call("look")] * 9), tools=[look], clock=clock, limits=Limits(seconds=60)
    )
    with pytest.raises(LimitError) as caught:
        await agent.run("Look")
    assert caught.value.result.iterations == 2


@pytest.mark.parametrize("step", STEPS)
async def test_a_step_while_a_person_is_asked_counts_once(step: float) -> None:
    clock = FakeClock()

    async def answer(question: Any) -> Any:
        clock.step(step)
        await clock.sleep(30)
        return question.approve()

    @tool
    async def look(ctx: ToolContext) -> str:
        await ctx.ask(PermissionQuestion(tool="look"))
        clock.advance(10)
        return "there"

    model = ScriptedModel(call("look"), call("look"), "done")
    limits = Limits(seconds=60)
    agent = Agent(model, tools=[look], clock=clock, limits=limits, on_question=answer)
    assert (await agent.run("Look")).output == "done"


async def test_repairs_of_an_output_take_their_own_time() -> None:
    class Trip(BaseModel):
        city: str

    clock = FakeClock()

    def reply(_: object) -> str:
        clock.step(3600)
        return "no trip" if len(replies) < 2 else '{"city": "Porto"}'

    replies: list[str] = []

    async def model(request: object) -> str:
        replies.append(reply(request))
        return replies[-1]

    limits = Limits(seconds=60, output_repair_seconds=30)
    agent = Agent(ScriptedModel(model, model, model), output=Trip, clock=clock, limits=limits)
    assert (await agent.run("Where?")).output == Trip(city="Porto")
