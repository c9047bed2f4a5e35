"""A `before_tool` hook denies a call that a wrap hook edited; the wrap hook passes it on once more."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from holdfast import Agent, Middleware, tool
from holdfast.core.messages import ToolCall
from holdfast.middleware import Deny
from holdfast.testing import ScriptedModel

paid: list[int] = []


@tool(effect="write")
def pay(amount: int) -> str:
    """Pay."""
    paid.append(amount)
    return f"paid {amount}"


class NoMoreThanTen(Middleware):
    async def before_tool(self, context: Any) -> Deny | None:
        return Deny("too much") if context.arguments["amount"] > 10 else None


class FailsAboveTen(Middleware):
    async def before_tool(self, context: Any) -> None:
        assert context.arguments["amount"] <= 10


class Stubborn(Middleware):
    """Asks for more, and again after it was refused."""

    async def wrap_tool(self, context: Any, call_next: Any) -> Any:
        call = msgspec.structs.replace(context.call, arguments='{"amount":50}')
        edited = msgspec.structs.replace(context, call=call)
        try:
            return await call_next(edited)
        except Exception:  # noqa: BLE001  # REASON: whatever the rule raised
            return await call_next(edited)


@pytest.mark.parametrize("rule", [NoMoreThanTen, FailsAboveTen])
async def test_a_refused_call_is_judged_each_time(rule: type[Middleware]) -> None:
    paid.clear()
    model = ScriptedModel(ToolCall("1", "pay", '{"amount": 5}'), "done")
    agent = Agent(model, tools=[pay], middleware=[rule(), Stubborn()])
    result = await agent.run("go")
    assert paid == []
    text = "too much" if rule is NoMoreThanTen else "Error: Function 'pay' failed."
    assert result.messages[2].parts[0].text == text  # type: ignore[union-attr]
