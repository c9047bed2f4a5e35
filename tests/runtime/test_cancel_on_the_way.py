"""A turn is cancelled while it waits for a retry, while a tool runs a process, and in an agent below."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from contextlib import suppress
from typing import Any

import pytest

from holdfast import Agent, MemoryJournal, RetryOptions, ToolContext, tool
from holdfast.core.errors import ErrorCategory, ErrorInfo, ProviderError
from holdfast.core.messages import ToolCall, ToolResult
from holdfast.events import RetryScheduled, ToolStarted, TurnClosed, TurnInterrupted
from holdfast.testing import FakeClock, ScriptedModel

IN_DOUBT = (
    "Error: Function 'start_process' was stopped before it finished. Whether it took effect is "
    "unknown: check before calling it again."
)
ended: list[int] = []


@tool(effect="write")
async def start_process(ctx: ToolContext) -> str:
    """Run a process with a child, and end both when the call is cancelled."""
    script = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'input()'])"
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", script, stdin=asyncio.subprocess.PIPE, start_new_session=True
    )
    try:
        await process.wait()
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        ended.append(await process.wait())
    return ctx.tool


@pytest.fixture(autouse=True)
def _nothing_ended() -> None:
    ended.clear()


CALL = ToolCall("1", "start_process", "{}")


async def cancel_at_tool(agent: Agent[str]) -> None:
    async with agent.stream("Go.", session="ada") as run:
        async for item in run:
            inner = getattr(item, "item", item)
            if isinstance(inner, ToolStarted) and inner.name == "start_process":
                asyncio.get_running_loop().call_later(0.05, run.cancel)
        with pytest.raises(asyncio.CancelledError):
            _ = run.result


async def test_a_tool_ends_its_processes_before_the_cancelled_turn_is_over() -> None:
    journal = MemoryJournal()
    agent = Agent(ScriptedModel(CALL, "Yes."), tools=[start_process], journal=journal)
    await cancel_at_tool(agent)
    assert ended == [-signal.SIGKILL]
    *_, interrupted, closed = [record.event for record in await journal.read("ada")]
    assert isinstance(interrupted, TurnInterrupted)
    assert interrupted.started == ("t1.i0.tool.0",)
    assert isinstance(closed, TurnClosed)
    result = await agent.run("Did it run?", session="ada")
    (told,) = [
        part
        for message in result.messages
        for part in message.parts
        if isinstance(part, ToolResult)
    ]
    assert (told.text, told.in_doubt) == (IN_DOUBT, True)


async def test_a_tool_of_an_agent_below_ends_its_processes_too() -> None:
    clerk = Agent(ScriptedModel(CALL), name="clerk", tools=[start_process])
    task = ToolCall("b", "clerk", '{"task": "Go."}')
    await cancel_at_tool(Agent(ScriptedModel(task), tools=[clerk.as_tool()]))
    assert ended == [-signal.SIGKILL]


async def test_the_wait_before_a_retry_ends_when_the_turn_is_cancelled() -> None:
    clock = FakeClock(auto=False)  # its time never passes
    info = ErrorInfo(
        category=ErrorCategory.RATE_LIMIT_RETRYABLE, safe="Too many.", retry_after=60.0
    )
    model = ScriptedModel(ProviderError("Too many.", info=info), "never")
    waits: list[Any] = []
    agent = Agent(model, clock=clock, retry=RetryOptions(max_retries=2))
    async with agent.stream("Go.") as run:
        async for item in run:
            if isinstance(item, RetryScheduled):
                waits.append(item.delay)
                run.cancel()
        with pytest.raises(asyncio.CancelledError):
            _ = run.result
    assert len(waits) == 1
    assert waits[0] >= 60.0
    assert len(model.requests) == 1
