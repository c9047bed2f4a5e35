"""A tool that ignores its cancellation is abandoned, and its turn ends."""

from __future__ import annotations

import asyncio
import logging
import threading

import pytest

from holdfast import Agent, Limits, MemoryJournal, Result, tool
from holdfast.core.errors import LimitError
from holdfast.core.messages import ToolCall, ToolResult
from holdfast.core.transcript import Transcript
from holdfast.testing import ScriptedModel
from holdfast.tools import invoke

CALL = ToolCall("c", "stubborn", "{}")


@pytest.fixture(autouse=True)
def short_cleanup(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(invoke, "LONGEST_CLEANUP", 0.05)


@tool(effect="write")
async def stubborn() -> str:
    """Never end."""
    while True:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            # Nothing else: a tool that outlives its loop is closed by the interpreter, and must end then.
            continue


def results(history: Transcript) -> list[str]:
    return [p.text for m in history for p in m.parts if isinstance(p, ToolResult)]


def agent(*others: object, **options: object) -> Agent[str]:
    tools = [stubborn, *others]
    return Agent(ScriptedModel((CALL,), "Done."), tools=tools, journal=MemoryJournal(), **options)  # type: ignore[arg-type]


async def test_the_limit_of_a_turn_abandons_a_tool_that_ignores_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING), pytest.raises(LimitError) as caught:
        await agent(limits=Limits(seconds=0.1), tool_timeout=60).run("Go.", session="s")
    assert isinstance(caught.value.result, Result)
    assert "Whether it took effect is unknown" in results(caught.value.result.history)[0]
    assert "'stubborn' did not end" in caplog.text


async def test_a_timeout_abandons_a_tool_that_ignores_it() -> None:
    result = await agent(tool_timeout=0.05).run("Go.", session="s")
    assert result.output == "Done."
    assert "may have taken effect" in results(result.history)[0]


async def test_cancel_ends_a_run_whose_tool_ignores_it() -> None:
    talking = agent()
    async with talking.stream("Go.", session="s") as run:
        await asyncio.sleep(0)
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run.wait()
    assert (await talking.run("Well?", session="s")).output == "Done."


async def test_a_task_that_is_cancelled_again_and_again_ends() -> None:
    task = asyncio.create_task(agent().run("Go.", session="s"))
    while not task.done():
        await asyncio.sleep(0.01)
        task.cancel()
    assert task.cancelled()


async def test_a_sibling_of_an_abandoned_tool_cleans_up() -> None:
    cleaned: list[str] = []

    @tool(effect="read")
    async def polite() -> str:
        """Clean up."""
        try:
            await asyncio.sleep(3600)
        finally:
            await asyncio.sleep(0)
            cleaned.append("clean")
        return "never"

    calls = (CALL, ToolCall("d", "polite", "{}"))
    limits = Limits(seconds=0.1)
    both = Agent(ScriptedModel(calls), tools=[stubborn, polite], limits=limits, tool_timeout=60)
    with pytest.raises(LimitError):
        await both.run("Go.")
    assert cleaned == ["clean"]


@pytest.mark.parametrize("answer", ["value", "error"])
async def test_an_answer_to_the_cancellation_does_not_replace_it(answer: str) -> None:
    @tool(effect="read", name="stubborn")
    async def swallows() -> str:
        """Answer the cancellation."""
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            if answer == "error":
                raise ValueError("no") from None
        return "a partial result"

    model = ScriptedModel((CALL,), "Done.")
    limited = Agent(model, tools=[swallows], limits=Limits(seconds=0.1), tool_timeout=60)
    with pytest.raises(LimitError):
        await limited.run("Go.")


async def test_a_timeout_within_the_tool_is_its_own_matter() -> None:
    @tool(effect="read", name="stubborn")
    async def careful() -> str:
        """Use a timeout."""
        try:
            async with asyncio.timeout(0.01):
                await asyncio.sleep(3600)
        except TimeoutError:
            await asyncio.sleep(0.1)  # longer than a cancelled tool may take
        async with asyncio.TaskGroup() as group:
            task = group.create_task(asyncio.sleep(0, "found"))
        return task.result()

    result = await Agent(ScriptedModel((CALL,), "Done."), tools=[careful]).run("Go.")
    assert results(result.history) == ["found"]


async def test_an_awaitable_that_is_no_coroutine_works() -> None:
    @tool(effect="read", name="stubborn")
    def later() -> object:
        """Return a future's coroutine."""

        async def inner() -> str:
            await asyncio.sleep(0)
            return "found"

        return inner()

    result = await Agent(ScriptedModel((CALL,), "Done."), tools=[later]).run("Go.")
    assert results(result.history) == ["found"]


async def test_a_plain_function_that_the_turn_cuts_is_named(
    caplog: pytest.LogCaptureFixture,
) -> None:
    go_on = threading.Event()

    @tool(effect="read", name="stubborn")
    def block() -> str:
        """Block a thread."""
        go_on.wait(30)
        return "late"

    unlimited = Agent(ScriptedModel(), tools=[block])
    assert "without a timeout, in threads that cannot be stopped: stubborn" in unlimited.describe()
    limits = Limits(seconds=0.1)
    blocked = Agent(ScriptedModel((CALL,)), tools=[block], limits=limits, tool_timeout=60)
    assert "without a timeout" not in agent().describe()
    with caplog.at_level(logging.WARNING), pytest.raises(LimitError):
        await blocked.run("Go.")
    assert "function 'stubborn' still runs in its thread" in caplog.text
    go_on.set()
