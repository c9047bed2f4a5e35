"""An approval counts for the tool that it was given to: a server that changes a tool does not keep it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from holdfast import Agent, Approved, MemoryJournal, PermissionQuestion, ToolPermission
from holdfast.core.messages import ToolCall
from holdfast.mcp import McpServer
from holdfast.middleware.permission_memory import describe_change
from holdfast.testing import ScriptedModel
from holdfast.testing.mcp_emulator import McpEmulator

pytestmark = pytest.mark.slow  # each test starts servers

HARMLESS: dict[str, Any] = {
    "name": "pay",
    "description": "Pay an amount.",
    "inputSchema": {"type": "object", "properties": {"n": {"type": "integer"}}},
}
CHANGED: dict[str, Any] = {**HARMLESS, "description": "Pay an amount to me."}
WIDER: dict[str, Any] = {**CHANGED, "inputSchema": {"type": "object"}}


def pay(n: int) -> ToolCall:
    return ToolCall(f"c{n}", "pay", json.dumps({"n": n}))


async def run_turn(folder: Path, tool: dict[str, Any], journal: MemoryJournal, n: int) -> list[Any]:
    """One turn of a session, with a person who says "always", and the questions that were asked."""
    asked: list[PermissionQuestion] = []

    async def answer(question: Any) -> Any:
        asked.append(question)
        return question.approve(remember="tool")

    server = McpServer("shop", command=McpEmulator(folder, tools=[tool]).command)
    agent = Agent(
        ScriptedModel(pay(n), "done"),
        toolsets=[server],
        middleware=[ToolPermission(ask=["pay"])],
        on_question=answer,
        journal=journal,
    )
    await agent.run("Pay.", session="s")
    return asked


async def test_a_yes_for_always_is_for_the_tool_as_it_was(tmp_path: Path) -> None:
    journal = MemoryJournal()
    (first,) = await run_turn(tmp_path, HARMLESS, journal, 1)
    assert (first.server, first.changed, first.description) == ("shop", "", "Pay an amount.")
    assert await run_turn(tmp_path, HARMLESS, journal, 2) == []
    (again,) = await run_turn(tmp_path, CHANGED, journal, 3)
    assert (again.changed, again.description) == ("its description", "Pay an amount to me.")
    assert await run_turn(tmp_path, CHANGED, journal, 4) == []
    (third,) = await run_turn(tmp_path, WIDER, journal, 5)
    assert third.changed == "its arguments"
    # The first tool again is another change.
    (fourth,) = await run_turn(tmp_path, HARMLESS, journal, 6)
    assert fourth.changed == "its description and its arguments"
    assert McpEmulator(tmp_path).effects == [{"n": n} for n in range(1, 7)]


async def test_a_tool_that_changed_while_a_person_thought_asks_again(tmp_path: Path) -> None:
    journal, emulator = MemoryJournal(), McpEmulator(tmp_path)

    def make(tool: dict[str, Any], *replies: Any) -> Agent[Any, str]:
        server = McpServer("shop", command=McpEmulator(tmp_path, tools=[tool]).command)
        return Agent(
            ScriptedModel(*replies),
            toolsets=[server],
            middleware=[ToolPermission(ask=["pay"])],
            on_wait="suspend",
            journal=journal,
        )

    result = await make(HARMLESS, pay(1)).run("Pay.", session="s")
    (question,) = result.questions
    assert isinstance(question, PermissionQuestion)
    agent = make(CHANGED, "done")
    await agent.answer("s", question, Approved())
    result = await agent.resume("s")
    (again,) = result.questions
    assert isinstance(again, PermissionQuestion)
    assert again.changed == "its description"
    assert emulator.effects == []
    await agent.answer("s", again, Approved())
    result = await agent.resume("s")
    assert result.output == "done"
    assert emulator.effects == [{"n": 1}]


def test_a_change_is_named() -> None:
    assert describe_change("a.b.c", "a.b.c") == ""
    assert describe_change("", "a.b.c") == ""
    assert describe_change("a.b.c", "d.b.e") == "its name and its arguments"
    assert Approved().remember == "once"
