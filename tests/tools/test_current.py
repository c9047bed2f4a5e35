"""The call that the code below a tool is part of: in threads, in tasks, side by side, one in another."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator

import pytest

from holdfast import Agent, Limits, current_tool_call, tool
from holdfast.compat import ErrorHandling, FunctionRetryExecutor
from holdfast.core.messages import ToolCall
from holdfast.testing import FakeClock, ScriptedModel
from holdfast.tools.context import ToolContext, tool_call_scope
from holdfast.tools.invoke import Invocation, invoke
from holdfast.tools.registry import Registry


def seen() -> str:
    """What code deep below a tool finds."""
    call = current_tool_call()
    return "nothing" if call is None else f"{call.tool} {call.key} {call.call_id} {call.attempt}"


async def called(function: object, name: str, number: int = 0) -> Invocation:
    context = ToolContext(run_id="r1", key=f"t1.i0.tool.{number}", call_id=f"c{number}", tool=name)
    registry = Registry([function])  # type: ignore[list-item]
    return await invoke(registry, ToolCall(f"c{number}", name, "{}"), context)


async def found_by(function: object) -> str:
    name = getattr(function, "__name__", "")
    result = (await called(function, name)).result
    assert result is not None
    assert seen() == "nothing"
    return result.text


def in_a_thread() -> str:
    """In a thread."""
    assert threading.current_thread() is not threading.main_thread()
    return seen()


def in_a_thread_of_its_own() -> str:
    """In a thread that a tool starts by itself it must be carried by hand, as any context."""
    found: list[str] = []
    thread = threading.Thread(target=lambda: found.append(seen()))
    thread.start()
    thread.join()
    return found[0]


async def in_a_task() -> str:
    """In the task."""
    await asyncio.sleep(0)
    return seen()


async def in_tasks_of_tasks() -> str:
    """In a task that a task started."""

    async def inner() -> str:
        return await asyncio.create_task(asyncio.to_thread(seen))

    return await asyncio.create_task(inner())


def in_a_generator() -> Iterator[str]:
    """In a generator."""
    yield seen()


async def in_an_async_generator() -> AsyncIterator[str]:
    """In an async generator."""
    yield seen()


@pytest.mark.parametrize(
    "function", [in_a_thread, in_a_task, in_tasks_of_tasks, in_a_generator, in_an_async_generator]
)
async def test_the_call_is_found_from_anywhere_below_the_tool(function: object) -> None:
    name = getattr(function, "__name__", "")
    assert f"{name} t1.i0.tool.0 c0 1" in await found_by(function)


async def test_a_bare_thread_has_no_context_of_its_caller() -> None:
    assert await found_by(in_a_thread_of_its_own) == "nothing"


def test_outside_of_a_tool_there_is_none() -> None:
    assert current_tool_call() is None


async def test_it_is_gone_after_a_tool_that_fails_and_after_one_that_is_cancelled() -> None:
    async def fails() -> None:
        """Fail."""
        raise ValueError(seen())

    async def waits() -> None:
        """Wait."""
        await asyncio.sleep(3600)

    failed = await called(fails, "fails")
    assert str(failed.error) == "fails t1.i0.tool.0 c0 1"
    assert seen() == "nothing"
    task = asyncio.create_task(called(waits, "waits"))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert seen() == "nothing"


async def test_a_hundred_calls_at_once_do_not_see_each_other() -> None:
    barrier = asyncio.Barrier(100)

    async def look() -> str:
        """Look, when all others are looking too."""
        await barrier.wait()
        before = seen()
        await barrier.wait()
        return f"{before} {await asyncio.to_thread(seen)}"

    done = await asyncio.gather(*(called(look, "look", number) for number in range(100)))
    for number, one in enumerate(done):
        found = f"look t1.i0.tool.{number} c{number} 1"
        assert one.result is not None
        assert one.result.text == f"{found} {found}"


async def test_blocking_calls_in_a_hundred_threads_do_not_see_each_other() -> None:
    def look() -> str:
        """Look."""
        return seen()

    done = await asyncio.gather(*(called(look, "look", number) for number in range(100)))
    assert [one.result.text for one in done if one.result] == [
        f"look t1.i0.tool.{number} c{number} 1" for number in range(100)
    ]


async def test_blocks_nest_and_restore() -> None:
    outer, inner = ToolContext(run_id="r", key="a"), ToolContext(run_id="r", key="b")
    with tool_call_scope(outer):
        with tool_call_scope(inner):
            assert current_tool_call() is inner
        assert current_tool_call() is outer
    assert current_tool_call() is None


async def test_in_a_run_it_names_the_run_and_the_attempt_and_may_ask() -> None:
    attempts: list[tuple[str, str, int, str]] = []

    @tool(effect="read")
    async def flaky() -> str:
        """Fails once."""
        call = current_tool_call()
        assert call is not None
        attempts.append((call.run_id, call.key, call.attempt, call.idempotency_key))
        if len(attempts) == 1:
            raise ConnectionError("down")
        return "up"

    model = ScriptedModel(ToolCall("c1", "flaky"), "done")
    agent = Agent(model, tools=[flaky], clock=FakeClock())
    result = await agent.run("go")
    run = result.run_id
    assert attempts == [
        (run, "t1.i0.tool.0", attempt, f"{run}:t1.i0.tool.0:1700000000000000") for attempt in (1, 2)
    ]


async def test_a_tool_of_an_agent_inside_sees_its_own_call_and_the_outer_one_is_restored() -> None:
    found: list[str] = []

    @tool(effect="read")
    async def inside() -> str:
        """Look inside."""
        found.append(seen())
        return "seen"

    inner = Agent(ScriptedModel(ToolCall("in", "inside"), "told"), name="inner", tools=[inside])

    @tool(effect="read")
    async def outside() -> str:
        """Look, let the other agent look, and look again."""
        found.append(seen())
        await inner.run("look")
        found.append(seen())
        return "seen"

    both = (ToolCall("out", "outside"), ToolCall("sub", "inner", '{"task": "look"}'))
    again = Agent(ScriptedModel(ToolCall("in", "inside"), "told"), name="inner", tools=[inside])
    model = ScriptedModel(both, "done")
    agent = Agent(model, tools=[outside, again.as_tool()], limits=Limits(iterations=3))
    await agent.run("go")
    assert sorted(found) == sorted(
        [
            "outside t1.i0.tool.0 out 1",
            "inside t1.i0.tool.0 in 1",
            "outside t1.i0.tool.0 out 1",
            "inside t1.i0.tool.0 in 1",
        ]
    )
    assert found[0].startswith("outside")


async def test_the_stand_alone_executor_sets_it_too() -> None:
    found: list[str] = []

    def flaky(city: str) -> str:
        found.append(seen())
        if len(found) == 1:
            raise ConnectionError("down")
        return city

    executor = FunctionRetryExecutor(ErrorHandling(retry_delay=0.0))
    assert await executor.execute_with_retry(flaky, {"city": "Porto"}, "forecast") == "Porto"
    assert found == ["forecast forecast  1", "forecast forecast  2"]
    assert current_tool_call() is None
