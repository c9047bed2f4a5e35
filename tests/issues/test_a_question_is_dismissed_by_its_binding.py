"""`run.dismiss` accepted every question with the same key, also one of another session or call."""

from __future__ import annotations

import msgspec
import pytest

from holdfast import Agent, Approved, ConfigurationError, ToolCall, tool
from holdfast.core.questions import Question
from holdfast.middleware import ToolPermission
from holdfast.runtime.questions.open_question import Receipt
from holdfast.testing import ScriptedModel


@tool(effect="write")
async def pay() -> str:
    """Pay."""
    return "paid"


async def test_a_question_with_another_binding_is_not_dismissed() -> None:
    model = ScriptedModel(ToolCall("c1", "pay"), "Paid.")
    agent = Agent(model, tools=[pay], middleware=[ToolPermission()])
    async with agent.stream("Pay.") as run:
        async for item in run:
            if isinstance(item, Question):
                other = msgspec.structs.replace(item, binding="another")
                assert run.dismiss(other) == Receipt("mismatch")
                with pytest.raises(ConfigurationError, match="question"):
                    run.dismiss(item.key)  # type: ignore[arg-type]
                assert run.answer(item, Approved())
    assert run.result.text == "Paid."
