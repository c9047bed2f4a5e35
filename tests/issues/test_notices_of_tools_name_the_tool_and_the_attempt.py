"""The notices of a tool name it, the attempt and the reason of a retry."""

from __future__ import annotations

from holdfast import Agent, RetryOptions, RetryScheduled, ToolContext, ToolStarted, tool
from holdfast.core.errors import ErrorCategory, ErrorInfo, ProviderError
from holdfast.core.messages import ToolCall
from holdfast.testing import FakeClock, ScriptedModel


@tool(effect="read")
def flaky(context: ToolContext) -> str:
    """Fail once."""
    if context.attempt == 1:
        raise ConnectionError("lost")
    return "ok"


async def test_a_retry_of_a_tool_says_which_one_and_why() -> None:
    agent = Agent(
        ScriptedModel(ToolCall("1", "flaky"), "done"),
        tools=[flaky],
        retry=RetryOptions(max_retries=2),
        clock=FakeClock(),
    )
    async with agent.stream("Go") as run:
        items = [item async for item in run if isinstance(item, ToolStarted | RetryScheduled)]
    started, retry, again = items
    key = "t1.i0.tool.0"
    assert started == ToolStarted(key, "flaky", "{}", 1)
    assert again == ToolStarted(key, "flaky", "{}", 2)
    assert isinstance(retry, RetryScheduled)
    assert (retry.key, retry.tool, retry.attempt, retry.max_retries) == (key, "flaky", 1, 2)
    assert retry.error.safe
    assert retry.error.category is not None


async def test_a_retry_of_a_model_names_no_tool() -> None:
    info = ErrorInfo(category=ErrorCategory.SERVER_ERROR, safe="down")
    agent = Agent(ScriptedModel(ProviderError("down", info=info), "done"), clock=FakeClock())
    async with agent.stream("Go") as run:
        retries = [item async for item in run if isinstance(item, RetryScheduled)]
    assert [(one.key, one.tool, one.error.safe) for one in retries] == [("t1.i0.model", "", "down")]
