"""A tool whose own task was cancelled ended the run of somebody who had cancelled nothing, or ran twice.

A library below a tool may cancel a task of its own, which the tool then awaits: CancelledError comes
out of it, and nobody asked the run to stop. Alone, it cancelled the turn. Beside another tool it
vanished in the group of the two, so that the call was still without a result and ran again, also one
that writes.
"""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from holdfast import Agent, MemoryJournal, Middleware, Result, RetryOptions, tool
from holdfast.core.messages import ToolCall, ToolResult
from holdfast.middleware.hook_contexts import ToolUse
from holdfast.testing import ScriptedModel
from holdfast.testing.emulator import call

pytestmark = pytest.mark.anyio

ONCE = RetryOptions(max_retries=0)


async def library() -> None:
    own = asyncio.ensure_future(asyncio.Event().wait())
    own.cancel()
    await own


def texts(result: Result[str]) -> list[str]:
    return [part.text for part in result.messages[2].parts if isinstance(part, ToolResult)]


PAY = call("pay", {}, id="1")
LOOK = call("look", {}, id="2")


@pytest.mark.parametrize("calls", [[PAY], [PAY, LOOK]])
async def test_a_write_is_run_once_and_in_doubt(calls: list[ToolCall]) -> None:
    runs = 0

    @tool(effect="write")
    async def pay() -> str:
        """Pay."""
        nonlocal runs
        runs += 1
        await library()
        return "paid"

    @tool(effect="read")
    async def look() -> str:
        """Look."""
        return "there"

    agent = Agent(ScriptedModel(calls, "I will check."), tools=[pay, look], journal=MemoryJournal())
    result = await agent.run("Pay.")
    assert (runs, result.output) == (1, "I will check.")
    assert texts(result)[0] == (
        "Error: Function 'pay' failed. It may have taken effect: check before calling it again."
    )


async def test_a_read_is_tried_again() -> None:
    tries = 0

    @tool(effect="read", timeout=60)
    async def look() -> str:
        """Look."""
        nonlocal tries
        tries += 1
        if tries == 1:
            await library()
        return "there"

    handling = RetryOptions(retry_delay=0.001)
    agent = Agent(ScriptedModel(LOOK, "There."), tools=[look], retry=handling)
    assert texts(await agent.run("Look.")) == ["there"]


async def test_whoever_cancels_the_run_still_cancels_it() -> None:
    begun = asyncio.Event()

    @tool(effect="read")
    async def look() -> str:
        """Look."""
        begun.set()
        await asyncio.Event().wait()
        return "never"

    task = asyncio.ensure_future(Agent(ScriptedModel(LOOK), tools=[look]).run("Look."))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_hook_that_is_cancelled_in_itself_lets_no_write_run_twice() -> None:
    runs = 0

    @tool(effect="write")
    async def pay() -> str:
        """Pay."""
        nonlocal runs
        runs += 1
        return "paid"

    @tool(effect="read")
    async def look() -> str:
        """Look."""
        return "there"

    class Careless(Middleware):
        tools = ("pay",)

        async def wrap_tool(
            self, context: ToolUse, call_next: Callable[[ToolUse], Awaitable[ToolResult]]
        ) -> ToolResult:
            result = await call_next(context)
            await library()
            return result

    agent = Agent(ScriptedModel([PAY, LOOK]), tools=[pay, look], middleware=[Careless()])
    with pytest.raises(asyncio.CancelledError):
        await agent.run("Pay.")
    assert runs == 1


def test_a_sync_tool_that_raises_it_fails_too() -> None:
    @tool(effect="read")
    def look() -> str:
        """Look."""
        raise asyncio.CancelledError

    agent = Agent(ScriptedModel(LOOK, "No."), tools=[look], retry=ONCE)
    assert texts(agent.run_sync("Look.")) == ["Error: Function 'look' failed."]
