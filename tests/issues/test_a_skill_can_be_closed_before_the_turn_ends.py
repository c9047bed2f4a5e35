"""The model, a hook or a tool ends an open skill within the turn."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.skills.folders import write

from holdfast import Agent, MemoryJournal, Middleware, Skills, ToolContext, tool
from holdfast.core.errors import ConfigurationError
from holdfast.core.messages import ToolCall
from holdfast.middleware import AfterTool, BeforeIteration
from holdfast.skills.wording import CLOSED_TEXT, PROTOCOLS_HEAD
from holdfast.testing import CrashAt, ScriptedModel, SimulatedCrash


@pytest.fixture
def skills(tmp_path: Path) -> Skills:
    write(tmp_path, "trading", body="Check the price first.")
    write(tmp_path, "audit", body="Write it down.")
    return Skills(tmp_path)


def opens(name: str) -> ToolCall:
    return ToolCall("c", "open_skill", f'{{"name": "{name}"}}')


def closes(name: str) -> ToolCall:
    return ToolCall("c", "close_skill", f'{{"name": "{name}"}}')


SELL = ToolCall("s", "sell")


@tool(effect="read")
def sell() -> str:
    """Sell."""
    return "sold"


def open_skills(model: ScriptedModel) -> list[list[str]]:
    """The skills whose instructions each request has."""
    blocks = [request.instructions.partition(PROTOCOLS_HEAD)[2] for request in model.requests]
    return [[name for name in ("audit", "trading") if f"## {name}:" in block] for block in blocks]


async def test_the_model_closes_one_of_two(skills: Skills) -> None:
    model = ScriptedModel([opens("trading"), opens("audit")], closes("trading"), "done")
    tools = [*skills.tools, skills.close_skill]
    result = await Agent(model, tools=tools, middleware=[skills.middleware]).run("go")
    assert open_skills(model) == [[], ["audit", "trading"], ["audit"]]
    assert CLOSED_TEXT.format(name="trading") in repr(result.messages)


async def test_what_the_model_closed_stays_closed_after_a_crash(skills: Skills) -> None:
    journal = MemoryJournal()
    tools = [*skills.tools, skills.close_skill]
    model = ScriptedModel(opens("trading"), closes("trading"))
    agent = Agent(model, tools=tools, middleware=[skills.middleware], journal=CrashAt(journal, 7))
    with pytest.raises(SimulatedCrash):
        await agent.run("go", session="s")
    again = ScriptedModel("done")
    await Agent(again, tools=tools, middleware=[skills.middleware], journal=journal).resume("s")
    assert open_skills(again) == [[]]


async def test_a_skill_that_does_not_exist_closes_nothing(skills: Skills) -> None:
    model = ScriptedModel(opens("trading"), closes("tradin"), "done")
    tools = [*skills.tools, skills.close_skill]
    result = await Agent(model, tools=tools, middleware=[skills.middleware]).run("go")
    assert open_skills(model) == [[], ["trading"], ["trading"]]
    assert "Did you mean 'trading'?" in repr(result.messages)


@pytest.mark.parametrize("names", [("trading",), ()])
async def test_a_hook_closes_skills_and_the_model_opens_one_again(
    skills: Skills, names: tuple[str, ...]
) -> None:
    class Close(Middleware):
        tools = ("sell",)

        async def after_tool(self, context: AfterTool) -> None:
            skills.close(context, *names)

    model = ScriptedModel(
        [opens("trading"), opens("audit")], SELL, SELL, opens("trading"), "done", "more"
    )
    agent = Agent(model, tools=[sell, *skills.tools], middleware=[Close(), skills.middleware])
    await agent.run("go", session="s")
    left = ["audit"] if names else []
    assert open_skills(model) == [[], ["audit", "trading"], left, left, [*left, "trading"]]
    await agent.run("more", session="s")
    assert open_skills(model)[-1] == []


async def test_a_hook_before_the_model_call_closes_at_once(skills: Skills) -> None:
    class Close(Middleware):
        async def before_iteration(self, context: BeforeIteration) -> None:
            if context.iteration == 2:
                skills.close(context)

    model = ScriptedModel(opens("trading"), SELL, "done")
    await Agent(model, tools=[sell, *skills.tools], middleware=[Close(), skills.middleware]).run(
        "go"
    )
    assert open_skills(model) == [[], ["trading"], []]


async def test_a_tool_of_the_skill_closes_it(skills: Skills) -> None:
    @tool(effect="read")
    def finish(context: ToolContext) -> str:
        """Finish the task."""
        skills.close(context, "trading")
        return "finished"

    model = ScriptedModel(opens("trading"), ToolCall("f", "finish"), "done")
    await Agent(model, tools=[finish, *skills.tools], middleware=[skills.middleware]).run("go")
    assert open_skills(model) == [[], ["trading"], []]


async def test_what_a_hook_closed_is_open_again_after_a_crash(skills: Skills) -> None:
    class Close(Middleware):
        async def before_iteration(self, context: BeforeIteration) -> None:
            if context.iteration == 1:
                skills.close(context)

    journal, middleware = MemoryJournal(), [Close(), skills.middleware]
    model = ScriptedModel(opens("trading"), SELL)
    agent = Agent(
        model, tools=[sell, *skills.tools], middleware=middleware, journal=CrashAt(journal, 6)
    )
    with pytest.raises(SimulatedCrash):
        await agent.run("go", session="s")
    again = ScriptedModel("done")
    await Agent(again, tools=[sell, *skills.tools], middleware=middleware, journal=journal).resume(
        "s"
    )
    assert open_skills(model) == [[], []]
    assert open_skills(again) == [["trading"]]


def test_a_wrong_name_is_refused(skills: Skills) -> None:
    context = ToolContext(run_id="r", key="t1.i0.tool.0")
    with pytest.raises(ConfigurationError, match="names: there is no skill 'art'"):
        skills.close(context, "trading", "art")
