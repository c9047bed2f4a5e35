"""`wrap_attempt`: the hook between the retries and each attempt of a tool."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast import Agent, Middleware, RetryOptions, tool
from holdfast.core.messages import Text, ToolCall, ToolResult
from holdfast.testing import FakeClock, ScriptedModel


class Flaky:
    """A tool that fails a number of times."""

    def __init__(self, failures: int, effect: Any = "read") -> None:
        self.left = failures
        self.runs = 0

        @tool(effect=effect)
        def work() -> str:
            """Work."""
            self.runs += 1
            self.left -= 1
            if self.left >= 0:
                raise ConnectionError("lost")
            return "done"

        self.tool = work


class Around(Middleware):
    def __init__(self, word: str = "", seen: list[str] | None = None) -> None:
        self.word = word
        self.seen = [] if seen is None else seen

    async def wrap_attempt(self, context: Any, call_next: Any) -> Any:
        self.seen.append(f"{self.word}{context.attempt}")
        return await call_next()


async def run(work: Flaky, *middleware: Middleware) -> Any:
    agent = Agent(
        ScriptedModel(ToolCall("1", "work", "{}"), "ok"),
        tools=[work.tool],
        middleware=middleware,
        retry=RetryOptions(max_retries=3),
        clock=FakeClock(),
    )
    return (await agent.run("go")).messages[2].parts[0]


async def test_it_is_called_around_each_attempt_in_order() -> None:
    seen: list[str] = []
    result = await run(Flaky(2), Around("a", seen), Around("b", seen))
    assert seen == ["a1", "b1", "a2", "b2", "a3", "b3"]
    assert (result.text, result.is_error) == ("done", False)


async def test_it_is_only_for_its_tools() -> None:
    around = Around().only(tools=["other"])
    await run(Flaky(0), around)
    assert around.seen == []


async def test_what_it_raises_is_retried_like_what_the_tool_raises() -> None:
    class Refuses(Middleware):
        async def wrap_attempt(self, context: Any, call_next: Any) -> Any:
            if context.attempt < 3:
                raise ConnectionError("not yet")
            return await call_next()

    work = Flaky(0)
    assert (await run(work, Refuses())).text == "done"
    assert work.runs == 1


async def test_a_write_that_it_makes_fail_is_not_repeated() -> None:
    class Breaks(Middleware):
        async def wrap_attempt(self, context: Any, call_next: Any) -> Any:
            await call_next()
            raise ConnectionError("lost after it")

    work = Flaky(0, "write")
    result = await run(work, Breaks())
    assert (work.runs, result.is_error) == (1, True)
    assert "It may have taken effect" in result.text


async def test_it_may_give_a_result_of_its_own() -> None:
    class Own(Middleware):
        async def wrap_attempt(self, context: Any, call_next: Any) -> Any:
            try:
                return await call_next()
            except ConnectionError:
                return ToolResult(context.call.id, context.tool, (Text("spare"),))

    work = Flaky(9)
    assert (await run(work, Own())).text == "spare"
    assert work.runs == 1


@pytest.mark.parametrize("answer", [None, "text"])
async def test_another_return_value_is_an_error_and_not_retried(answer: object) -> None:
    class Wrong(Middleware):
        async def wrap_attempt(self, context: Any, call_next: Any) -> Any:
            await call_next()
            return answer

    work = Flaky(0)
    assert (await run(work, Wrong())).is_error
    assert work.runs == 1


looked: list[str] = []


@tool(effect="read")
def look() -> str:
    """Look."""
    looked.append("look")
    if len(looked) == 1:
        raise OSError("first")
    return "seen"


class FirstFailure(Middleware):
    async def wrap_tool(self, context: Any, call_next: Any) -> Any:
        try:
            return await call_next(context)
        except OSError:
            await call_next(context)
            raise


async def test_a_wrap_hook_may_raise_an_earlier_failure() -> None:
    looked.clear()
    model = ScriptedModel(ToolCall("1", "look"), "done")
    retry = RetryOptions(max_retries=0)
    agent = Agent(model, tools=[look], middleware=[FirstFailure()], retry=retry)
    result = await agent.run("go")
    assert result.output == "done"
    assert len(looked) == 2
    assert result.messages[2].parts[0].text.startswith("Error: Function 'look' failed.")  # type: ignore[union-attr]
