"""What agents that work as tools spend: it counts for the caller, once, and its limit holds for all."""

from __future__ import annotations

import asyncio

import pytest

from holdfast import Agent, Limits, MemoryJournal, RetryOptions, Tool, tool
from holdfast.core.errors import ErrorCategory, ErrorInfo, LimitError, ProviderError
from holdfast.core.events import ToolFinished, TurnInterrupted
from holdfast.core.messages import Reply, Text, ToolCall, ToolResult, Usage
from holdfast.core.model_request import ModelRequest
from holdfast.events import FromAgent
from holdfast.middleware import UsageLimits
from holdfast.models import Prices
from holdfast.testing import CrashAt, FakeClock, ScriptedModel, SimulatedCrash
from holdfast.tools.context import ToolContext

CALL = 15
"""Tokens of one call of a scripted model."""


def asks(call_id: str = "c1", name: str = "scout") -> ToolCall:
    return ToolCall(call_id, name, '{"task": "look"}')


def scout(*script: object, **keywords: object) -> Tool:
    model = ScriptedModel(*(script or ("ok",) * 20))  # type: ignore[arg-type]
    return Agent(model, name="scout").as_tool(**keywords)  # type: ignore[arg-type]


async def test_what_it_spends_is_a_fact_of_the_call_and_in_the_usage_of_the_caller() -> None:
    journal = MemoryJournal()
    boss = Agent(ScriptedModel(asks(), "done"), tools=[scout()], journal=journal)
    result = await boss.run("Go", session="s")
    (finished,) = [
        record.event for record in await journal.read("s") if isinstance(record.event, ToolFinished)
    ]
    assert finished.usage == Usage(10, 5)
    assert result.usage == Usage(30, 15)


async def test_a_limit_that_the_agent_reached_stops_the_caller_before_its_next_call() -> None:
    model = ScriptedModel(asks(), "never")
    boss = Agent(model, tools=[scout()], limits=Limits(tokens=2 * CALL))
    with pytest.raises(LimitError, match="limit of 30 tokens") as caught:
        await boss.run("Go")
    assert len(model.requests) == 1
    assert caught.value.result is not None
    assert caught.value.result.usage.total == 2 * CALL


async def test_usage_limits_count_it_for_a_turn_and_for_a_session() -> None:
    prices = Prices({"*": {"input": "100000", "output": "100000"}})
    for limit in (
        UsageLimits(tokens=2 * CALL),
        UsageLimits(tokens=2 * CALL, per="session"),
        UsageLimits(cost="3"),
    ):
        model = ScriptedModel(asks(), "never")
        boss = Agent(model, tools=[scout()], middleware=[limit], prices=prices)
        result = await boss.run("Go")
        assert result.stop_reason.startswith("Usage limit")
        assert len(model.requests) == 1


async def test_it_is_not_asked_beyond_the_limit_of_the_caller() -> None:
    @tool(effect="read")
    def look() -> str:
        """Look."""
        return "nothing"

    script = ScriptedModel(*[ToolCall("1", "look", "{}")] * 5, "never")
    child = Agent(script, name="scout", tools=[look]).as_tool()
    boss = Agent(ScriptedModel(asks()), tools=[child], limits=Limits(tokens=4 * CALL))
    with pytest.raises(LimitError) as caught:
        await boss.run("Go")
    assert len(script.requests) == 3
    assert caught.value.result is not None
    assert caught.value.result.usage.total == 4 * CALL
    (said,) = [
        part.text
        for message in caught.value.result.messages
        for part in message.parts
        if isinstance(part, ToolResult)
    ]
    assert said == (
        "Agent 'scout' failed: The limit of tokens of the agent that it works for is reached."
    )


async def test_agents_at_once_share_the_limit_of_the_caller() -> None:
    together = asyncio.Event()
    asked = 0

    async def answer(request: ModelRequest) -> ToolCall | str:
        nonlocal asked
        asked += 1
        if asked == 3:
            together.set()
        await together.wait()
        return ToolCall("1", "look", "{}") if len(request.messages) == 1 else "never"

    @tool(effect="read")
    def look() -> str:
        """Look."""
        return "nothing"

    child = Agent(ScriptedModel(*[answer] * 9), name="scout", tools=[look]).as_tool()
    model = ScriptedModel((asks("1"), asks("2"), asks("3")), "never")
    boss = Agent(model, tools=[child], limits=Limits(tokens=4 * CALL))
    with pytest.raises(LimitError) as caught:
        await boss.run("Go")
    assert asked == 3
    assert caught.value.result is not None
    assert caught.value.result.usage.total == 4 * CALL


@pytest.mark.slow  # takes half a second or more
async def test_agents_inside_agents_count_once_and_for_all_above() -> None:
    inner = Agent(ScriptedModel("ok"), name="inner").as_tool()
    middle = Agent(ScriptedModel(asks(name="inner"), "ok"), name="middle", tools=[inner]).as_tool()
    boss = Agent(ScriptedModel(asks(name="middle"), "done"), tools=[middle])
    assert (await boss.run("Go")).usage.total == 5 * CALL

    script = ScriptedModel("never")
    inner = Agent(script, name="inner").as_tool()
    middle = Agent(ScriptedModel(asks(name="inner"), "ok"), name="middle", tools=[inner]).as_tool()
    boss = Agent(ScriptedModel(asks(name="middle")), tools=[middle], limits=Limits(tokens=2 * CALL))
    with pytest.raises(LimitError):
        await boss.run("Go")
    assert script.requests == []


async def test_a_budget_of_its_own_neither_counts_nor_is_bounded() -> None:
    model = ScriptedModel(asks(), asks(), "done")
    child = scout("one", "two", own_budget=True)
    result = await Agent(model, tools=[child], limits=Limits(tokens=3 * CALL + 1)).run("Go")
    assert result.usage.total == 3 * CALL


async def test_what_a_failed_agent_spent_counts_too() -> None:
    info = ErrorInfo(category=ErrorCategory.AUTH_ERROR, safe="No.")
    partial = Reply((Text("half"),), usage=Usage(7, 3))
    script = (ProviderError("No.", info=info, partial=partial),)
    result = await Agent(ScriptedModel(asks(), "done"), tools=[scout(*script)]).run("Go")
    assert result.usage.total == 2 * CALL + 10


async def test_what_an_agent_spent_before_it_was_cut_off_counts() -> None:
    clock = FakeClock()

    async def slow(_request: ModelRequest) -> str:
        await asyncio.Event().wait()
        return "never"

    @tool(effect="read")
    def look() -> str:
        """Look."""
        return "nothing"

    model = ScriptedModel(ToolCall("1", "look", "{}"), slow)
    child = Agent(model, name="scout", tools=[look], clock=clock).as_tool()
    journal = MemoryJournal()
    boss = Agent(ScriptedModel(asks()), tools=[child], journal=journal)
    async with boss.stream("Go", session="s") as run:
        async for item in run:
            if isinstance(item, FromAgent) and isinstance(item.item, ToolFinished):
                break
        while len(model.requests) < 2:
            await asyncio.sleep(0)
        run.cancel()
    events = [record.event for record in await journal.read("s")]
    (cut,) = [event for event in events if isinstance(event, TurnInterrupted)]
    assert cut.usage.total == CALL


@pytest.mark.parametrize("before", [False, True], ids=["after", "before"])
@pytest.mark.parametrize("moment", range(2, 10))
async def test_a_resumed_run_has_the_same_figure(moment: int, before: bool) -> None:
    def boss(journal: object, script: list[object]) -> Agent[str]:
        return Agent(ScriptedModel(*script), tools=[scout()], journal=journal)  # type: ignore[arg-type]

    journal = MemoryJournal()
    with pytest.raises(SimulatedCrash):
        await boss(CrashAt(journal, moment, before=before), [asks(), "done"]).run("Go", session="s")
    kept = [record.event for record in await journal.read("s")]
    asked = sum(type(event).__name__ == "ModelReplied" for event in kept)
    result = await boss(journal, [asks(), "done"][asked:]).resume("s")
    assert result.usage.total == 3 * CALL


async def test_a_tool_that_asks_a_model_itself_can_say_what_that_cost() -> None:
    @tool(effect="read")
    def translate(context: ToolContext) -> str:
        """Translate."""
        context.add_usage(Usage(100, 20))
        return "ok"

    model = ScriptedModel(ToolCall("1", "translate", "{}"), "done")
    result = await Agent(model, tools=[translate]).run("Go")
    assert result.usage.total == 2 * CALL + 120
    ToolContext(run_id="r", key="k").add_usage(Usage(1, 1))


async def test_every_attempt_of_a_tool_counts() -> None:
    @tool(effect="read")
    def flaky(context: ToolContext) -> str:
        """Flaky."""
        context.add_usage(Usage(100, 0))
        if context.attempt < 3:
            raise ConnectionError("no")
        return "ok"

    model = ScriptedModel(ToolCall("1", "flaky", "{}"), "done")
    agent = Agent(model, tools=[flaky], clock=FakeClock(), retry=RetryOptions(max_retries=3))
    assert (await agent.run("Go")).usage.input == 300 + 20
