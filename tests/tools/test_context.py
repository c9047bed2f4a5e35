"""What a tool may know about its call."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from holdfast import Agent, SqliteJournal, current_tool_call, tool
from holdfast.core.messages import ToolCall
from holdfast.testing import FakeClock, ScriptedModel
from holdfast.tools import ToolContext


def test_the_idempotency_key_is_of_the_call_and_not_of_the_attempt() -> None:
    first = ToolContext(run_id="r1", key="t1.i0.tool.0", attempt=1)
    second = ToolContext(run_id="r1", key="t1.i0.tool.0", attempt=2)
    other = ToolContext(run_id="r1", key="t1.i0.tool.1", attempt=1)
    assert first.idempotency_key == second.idempotency_key == "r1:t1.i0.tool.0:0"
    assert other.idempotency_key != first.idempotency_key


def test_it_is_frozen_and_does_not_show_the_users_objects() -> None:
    context = ToolContext(run_id="r1", key="k", deps="password=hunter2")
    with pytest.raises(AttributeError):
        context.attempt = 2  # type: ignore[misc]
    assert "hunter2" not in repr(context)


async def test_the_context_of_a_call_has_its_arguments() -> None:
    seen: list[Any] = []

    @tool(effect="read")
    def find(context: ToolContext, city: str, days: int = 3) -> str:
        """Find."""
        call = current_tool_call()
        seen.append((context.arguments, call and call.arguments))
        return city

    call = ToolCall("1", "find", '{"city": "Porto"}')
    await Agent(ScriptedModel(call, "done"), tools=[find]).run("go")
    assert seen == [({"city": "Porto", "days": 3}, {"city": "Porto", "days": 3})]


# The idempotency key of a call.


async def test_a_new_session_of_the_same_name_has_other_keys(tmp_path: Path) -> None:
    keys: list[str] = []

    @tool(effect="write")
    async def pay(context: ToolContext) -> str:
        """Pay."""
        keys.append(context.idempotency_key)
        return "paid"

    with SqliteJournal(tmp_path / "talk.db") as journal:
        for _ in range(2):
            model = ScriptedModel(ToolCall("c1", "pay"), "Paid.")
            agent = Agent(model, tools=[pay], journal=journal)
            await agent.run("Pay.", session="ada")
            await agent.sessions.delete("ada")
    assert len(set(keys)) == 2


async def test_all_attempts_of_a_call_have_the_same_key() -> None:
    keys: list[str] = []

    @tool(effect="idempotent")
    async def pay(context: ToolContext) -> str:
        """Pay."""
        keys.append(context.idempotency_key)
        if len(keys) == 1:
            raise ConnectionError("down")
        return "paid"

    model = ScriptedModel(ToolCall("c1", "pay"), "Paid.")
    await Agent(model, tools=[pay], clock=FakeClock()).run("Pay.")
    assert len(keys) == 2
    assert len(set(keys)) == 1
