"""Retry, timeout and formatting together: the fault that no test of the seed's system caught.

There, the formatter was innermost: a failure became a text before retry could see it, and nothing
was ever retried. Here formatting is what the runtime does after the pipeline.
"""

from __future__ import annotations

import asyncio

from holdfast import Agent, RetryOptions
from holdfast.core.messages import Text, ToolCall, ToolResult
from holdfast.testing.fake_clock import FakeClock, FixedRng
from holdfast.testing.scripted import ScriptedModel
from holdfast.tools.tool import tool


class Tool:
    """Fails so often, then answers."""

    def __init__(self, failures: int, *, hangs: bool = False) -> None:
        self.failures, self.hangs, self.calls = failures, hangs, 0

    async def run(self) -> str:
        self.calls += 1
        if self.calls > self.failures:
            return "sunny"
        if self.hangs:
            await asyncio.Event().wait()
        raise ConnectionResetError("password=hunter2")


async def seen_by_the_model(work: Tool) -> ToolResult:
    @tool(effect="read", timeout=0.3 if work.hangs else 30)
    async def weather() -> str:
        """The weather."""
        return await work.run()

    model = ScriptedModel(ToolCall("1", "weather"), "Done.")
    agent = Agent(
        model,
        tools=[weather],
        retry=RetryOptions(),
        clock=FakeClock(),
        rng=FixedRng(0.5),
    )
    await agent.run("How is the weather?")
    (result,) = model.requests[-1].messages[-1].parts
    assert isinstance(result, ToolResult)
    return result


def text(result: ToolResult) -> str:
    return "".join(part.text for part in result.content if isinstance(part, Text))


async def test_flaw_two_failures_and_a_success_are_three_calls_and_the_model_sees_the_result() -> (
    None
):
    work = Tool(2)
    result = await seen_by_the_model(work)
    assert (work.calls, text(result), result.is_error) == (3, "sunny", False)


async def test_flaw_failing_for_ever_is_four_calls_and_a_text_without_the_secret() -> None:
    work = Tool(99)
    result = await seen_by_the_model(work)
    assert work.calls == 4
    assert result.is_error
    assert text(result) == "Error: Function 'weather' failed."


async def test_flaw_the_timeout_is_for_each_attempt_and_is_retried() -> None:
    work = Tool(1, hangs=True)
    result = await seen_by_the_model(work)
    assert (work.calls, text(result)) == (2, "sunny")
