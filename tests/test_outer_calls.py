"""A tool of an agent that is used as a tool knows for which session and turn it works."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast import Agent, ClarificationQuestion, MemoryJournal, Middleware, ToolContext, tool
from holdfast.core.messages import ToolCall
from holdfast.middleware import BeforeTool
from holdfast.testing import ScriptedModel
from holdfast.tools import OuterCall


def asks(name: str) -> ToolCall:
    return ToolCall("c1", name, '{"task": "look"}')


@pytest.mark.parametrize("journal", [None, MemoryJournal()])
async def test_a_tool_and_a_hook_know_the_calls_that_their_agent_works_for(
    journal: MemoryJournal | None,
) -> None:
    seen: list[tuple[str, tuple[OuterCall, ...]]] = []

    @tool(effect="write")
    def note(context: ToolContext) -> str:
        """Note it."""
        seen.append(("tool", context.outer_calls))
        return "noted"

    class See(Middleware):
        async def before_tool(self, context: BeforeTool) -> None:
            seen.append((context.tool, context.outer_calls))

    deep = Agent(
        ScriptedModel(ToolCall("1", "note", "{}"), "ok"),
        name="deep",
        tools=[note],
        middleware=[See()],
    )
    middle = Agent(ScriptedModel(asks("deep"), "ok"), name="middle", tools=[deep.as_tool()])
    boss = Agent(
        ScriptedModel("Hello.", asks("middle"), "Done."),
        name="boss",
        tools=[middle.as_tool()],
        middleware=[See()],
        journal=journal,
    )
    await boss.run("Hi.", session="ada")
    await boss.run("Go.", session="ada")
    assert seen[0] == ("middle", ())
    assert [name for name, _ in seen[1:]] == ["note", "tool"]
    for _, (first, second) in seen[1:]:
        assert first == OuterCall("boss", "ada", "t2.i0.tool.0", "ada")
        assert first.turn == 2
        assert (second.agent, second.key, second.session) == ("middle", "t1.i0.tool.0", None)


async def test_a_call_that_is_continued_knows_the_calls_around_it_again() -> None:
    journal, seen = MemoryJournal(), []

    @tool(effect="write")
    async def order(context: ToolContext) -> str:
        """Order what a person chooses."""
        seen.append(context.outer_calls)
        return await context.ask(ClarificationQuestion(question="What?"))

    def program(*script: Any) -> Agent[str]:
        clerk = ScriptedModel(*script or (ToolCall("1", "order", "{}"),))
        inner = Agent(clerk, name="clerk", tools=[order])
        model = ScriptedModel(*script or (asks("clerk"),))
        return Agent(
            model, name="boss", tools=[inner.as_tool()], journal=journal, on_wait="suspend"
        )

    (question,) = (await program().run("Go.", session="ada")).questions
    assert await program().answer("ada", question.answer("tea"))
    assert (await program("Done.").resume("ada")).text == "Done."
    outer = (OuterCall("boss", "ada", "t1.i0.tool.0", "ada"),)
    assert seen == [outer, outer]
