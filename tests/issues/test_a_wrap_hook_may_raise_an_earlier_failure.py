"""A wrap hook tries twice and raises the first failure: the turn goes on as after any failure."""

from __future__ import annotations

from typing import Any

from holdfast import Agent, Middleware, RetryOptions, tool
from holdfast.core.messages import ToolCall
from holdfast.testing import ScriptedModel

calls: list[str] = []


@tool(effect="read")
def look() -> str:
    """Look."""
    calls.append("look")
    if len(calls) == 1:
        raise OSError("first")
    return "seen"


class FirstFailure(Middleware):
    async def wrap_tool(self, context: Any, call_next: Any) -> Any:
        try:
            return await call_next(context)
        except OSError:
            await call_next(context)
            raise


async def test_the_first_failure_is_the_outcome() -> None:
    calls.clear()
    model = ScriptedModel(ToolCall("1", "look"), "done")
    retry = RetryOptions(max_retries=0)
    agent = Agent(model, tools=[look], middleware=[FirstFailure()], retry=retry)
    result = await agent.run("go")
    assert result.output == "done"
    assert len(calls) == 2
    assert result.messages[2].parts[0].text.startswith("Error: Function 'look' failed.")  # type: ignore[union-attr]
