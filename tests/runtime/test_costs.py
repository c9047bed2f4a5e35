"""What calls cost is computed once, for each attempt with its model, and saved with the event."""

from __future__ import annotations

import asyncio
from decimal import Decimal
from typing import Any

import msgspec
import pytest

from holdfast import Agent, MemoryJournal, RetryOptions, SqliteJournal, tool
from holdfast.core.cost import Cost
from holdfast.core.error_info import Landed
from holdfast.core.errors import ErrorCategory, ErrorInfo, ProviderError
from holdfast.core.events import (
    Event,
    FailedTarget,
    ModelFailed,
    ModelReplied,
    ToolFinished,
    TurnInterrupted,
)
from holdfast.core.messages import FinishReason, Reply, ReplyKind, Text, ToolCall, Usage
from holdfast.core.model_request import ModelRequest
from holdfast.core.run_fold import list_costs
from holdfast.errors import ConfigurationError
from holdfast.events import FromAgent
from holdfast.models import Prices
from holdfast.resilience import Resilience
from holdfast.resilience.cache.options import CacheOptions
from holdfast.resilience.hedge.options import HedgeOptions
from holdfast.testing import CrashAt, FakeClock, ScriptedModel, SimulatedCrash
from holdfast.tools.context import ToolContext

PRICES = Prices(
    {
        "dear": {"input": "10", "output": "100"},
        "cheap": {"input": "1", "output": "2"},
        "model": {"input": "1000", "output": "2000"},
    }
)
CALL = Decimal("0.02")
"""What a call of a scripted model costs: 10 tokens in, 5 out."""


def reply(model: str, usage: Usage, **fields: Any) -> Reply:
    return Reply((Text("Done."),), usage=usage, model=model, **fields)


def fails(partial: Reply | None = None, **fields: Any) -> ProviderError:
    values = {"category": ErrorCategory.SERVER_ERROR, "safe": "It broke."} | fields
    return ProviderError("It broke.", info=ErrorInfo(**values), partial=partial)


async def saved(journal: MemoryJournal, kind: type[Event]) -> list[Any]:
    return [one.event for one in await journal.read("s") if isinstance(one.event, kind)]


async def test_without_prices_nothing_is_computed() -> None:
    journal = MemoryJournal()
    result = await Agent(ScriptedModel("Hi"), journal=journal).run("Go", session="s")
    assert result.cost is None
    (event,) = await saved(journal, ModelReplied)
    assert event.cost is None


async def test_a_cost_is_saved_with_its_event_and_in_the_result() -> None:
    journal = MemoryJournal()
    model = ScriptedModel(reply("cheap", Usage(1_000_000, 500_000)))
    agent = Agent(model, prices=PRICES, journal=journal)
    result = await agent.run("Go", session="s")
    assert result.cost == Cost(Decimal(2))
    (event,) = await saved(journal, ModelReplied)
    assert event.cost == Cost(Decimal(2))
    read = await Agent(ScriptedModel(), journal=journal).resume("s")
    assert read.cost == Cost(Decimal(2))


async def test_a_reply_of_the_cache_costs_nothing() -> None:
    model = ScriptedModel(reply("cheap", Usage(1_000_000, 0)))
    agent = Agent(model, prices=PRICES, resilience=Resilience(cache=CacheOptions()))
    assert (await agent.run("Go")).cost == Cost(Decimal(1))
    assert (await agent.run("Go")).cost == Cost(Decimal(0))
    assert len(model.requests) == 1


async def test_a_failed_attempt_costs_what_its_part_cost() -> None:
    whole = reply("dear", Usage(1000, 10))
    cut = reply("dear", Usage(1000, 0), kind=ReplyKind.UNTERMINATED)
    for partial, wanted in (
        (whole, Cost(Decimal("0.022"))),
        (cut, Cost(Decimal("0.021"), known=False)),  # nobody counted the rest
    ):
        model = ScriptedModel(fails(partial), whole)
        result = await Agent(model, prices=PRICES, clock=FakeClock()).run("Go")
        assert result.cost == wanted


@pytest.mark.parametrize(
    ("fields", "is_known"),
    [
        ({"status": 503}, True),
        ({"landed": Landed.NO}, True),
        ({"landed": Landed.UNKNOWN}, False),
    ],
)
async def test_an_attempt_without_a_count_may_have_cost_something(
    fields: dict[str, Any], is_known: bool
) -> None:
    model = ScriptedModel(fails(**fields), reply("cheap", Usage(1_000_000, 0)))
    result = await Agent(model, prices=PRICES, clock=FakeClock()).run("Go")
    assert result.cost == Cost(Decimal(1), known=is_known)


async def test_each_target_is_priced_as_itself() -> None:
    journal = MemoryJournal()
    partial = reply("dear", Usage(1000, 10))
    first = ScriptedModel(fails(partial, category=ErrorCategory.AUTH_ERROR), name="a:dear")
    second = ScriptedModel(reply("cheap", Usage(1000, 1000)), name="b:cheap")
    agent = Agent(first, fallback=[second], prices=PRICES, journal=journal)
    result = await agent.run("Go", session="s")
    assert result.cost == Cost(Decimal("0.014"))
    (event,) = await saved(journal, ModelReplied)
    (tried,) = event.tried
    assert (tried.target, tried.usage, tried.cost) == (
        "a:dear",
        Usage(1000, 10),
        Cost(Decimal("0.011")),
    )
    assert list(list_costs(event)) == [
        ("a:dear", Usage(1000, 10), Cost(Decimal("0.011"))),
        ("cheap", Usage(1000, 1000), Cost(Decimal("0.003"))),
    ]


async def test_a_call_that_fails_for_good_has_a_cost() -> None:
    journal = MemoryJournal()
    partial = reply("dear", Usage(1000, 10))
    agent = Agent(
        ScriptedModel(*[fails(partial)] * 3),
        prices=PRICES,
        journal=journal,
        clock=FakeClock(),
        retry=RetryOptions(max_retries=2),
    )
    with pytest.raises(ProviderError) as caught:
        await agent.run("Go", session="s")
    assert caught.value.result.cost == Cost(Decimal("0.033"))  # type: ignore[attr-defined]
    (event,) = await saved(journal, ModelFailed)
    assert event.cost == Cost(Decimal("0.033"))


async def test_a_hedge_that_lost_is_not_known() -> None:
    async def slow(_request: ModelRequest) -> str:
        await asyncio.Event().wait()
        return "never"

    model = ScriptedModel(slow, reply("cheap", Usage(1_000_000, 0)))
    hedge = HedgeOptions(delay=0.001, max_share=1.0)
    result = await Agent(model, prices=PRICES, resilience=Resilience(hedge=hedge)).run("Go")
    assert str(result.cost) == "at least 1 USD"


async def test_a_model_without_a_price_is_not_known_and_stays_so() -> None:
    @tool(effect="read")
    def look() -> str:
        """Look."""
        return "nothing"

    call = Reply(
        (ToolCall("1", "look", "{}"),),
        finish=FinishReason.TOOL_CALLS,
        usage=Usage(1_000_000, 0),
        model="cheap",
    )
    model = ScriptedModel(call, reply("new", Usage(1, 1)), name="new")
    result = await Agent(
        model, tools=[look], prices=Prices({"cheap": {"input": 1, "output": 2}})
    ).run("Go")
    assert result.cost == Cost(Decimal(1), known=False)
    assert result.cost.total is None


async def test_a_reply_without_a_count_is_not_known() -> None:
    result = await Agent(ScriptedModel(reply("cheap", Usage())), prices=PRICES).run("Go")
    assert result.cost == Cost(Decimal(0), known=False)


def asks(name: str = "scout") -> ToolCall:
    return ToolCall("c1", name, '{"task": "look"}')


async def test_agents_inside_an_agent_cost_once_at_its_prices() -> None:
    journal = MemoryJournal()
    inner = Agent(ScriptedModel("ok"), name="inner").as_tool()
    middle = Agent(ScriptedModel(asks("inner"), "ok"), name="middle", tools=[inner]).as_tool()
    model = ScriptedModel(asks("middle"), "done")
    boss = Agent(model, tools=[middle], prices=PRICES, journal=journal)
    result = await boss.run("Go", session="s")
    assert result.cost == Cost(5 * CALL)
    (event,) = await saved(journal, ToolFinished)
    assert event.cost == Cost(3 * CALL)


async def test_an_agent_with_prices_of_its_own_uses_them() -> None:
    own = Prices({"model": {"input": 0, "output": 0}})
    child = Agent(ScriptedModel("ok"), name="scout", prices=own).as_tool()
    result = await Agent(ScriptedModel(asks(), "done"), tools=[child], prices=PRICES).run("Go")
    assert result.cost == Cost(2 * CALL)
    other = Prices({"*": {"input": 1, "output": 1}}, currency="EUR")
    child = Agent(ScriptedModel(), name="scout", prices=other).as_tool()
    model = ScriptedModel(asks(), "done")
    result = await Agent(model, tools=[child], prices=PRICES, detailed_errors=True).run("Go")
    assert "prices: are in EUR" in str(result.messages)


async def test_an_agent_with_a_budget_of_its_own_does_not_count() -> None:
    child = Agent(ScriptedModel("ok"), name="scout", prices=PRICES).as_tool(own_budget=True)
    result = await Agent(ScriptedModel(asks(), "done"), tools=[child], prices=PRICES).run("Go")
    assert result.cost == Cost(2 * CALL)


async def test_a_tool_may_say_what_its_own_calls_cost() -> None:
    for cost in (Cost(Decimal("0.5")), None):

        @tool(effect="read")
        def translate(context: ToolContext) -> str:
            """Translate."""
            context.add_usage(Usage(100, 20), cost)  # noqa: B023 - it runs in this round
            return "ok"

        model = ScriptedModel(ToolCall("1", "translate", "{}"), "done")
        result = await Agent(model, tools=[translate], prices=PRICES).run("Go")
        whole = 2 * CALL + (cost.amount if cost is not None else 0)
        assert result.cost == Cost(whole, known=cost is not None)


async def test_what_was_cut_off_is_saved_with_the_interruption() -> None:
    @tool(effect="read")
    def look() -> str:
        """Look."""
        return "nothing"

    async def slow(_request: ModelRequest) -> str:
        await asyncio.Event().wait()
        return "never"

    inner = ScriptedModel(ToolCall("1", "look", "{}"), slow)
    child = Agent(inner, name="scout", tools=[look]).as_tool()
    journal = MemoryJournal()
    boss = Agent(ScriptedModel(asks()), tools=[child], journal=journal, prices=PRICES)
    async with boss.stream("Go", session="s") as run:
        async for item in run:
            if isinstance(item, FromAgent) and isinstance(item.item, ToolFinished):
                break
        while len(inner.requests) < 2:
            await asyncio.sleep(0)
        run.cancel()
    (event,) = await saved(journal, TurnInterrupted)
    assert event.cost == Cost(CALL, known=False)


@pytest.mark.parametrize("before", [False, True], ids=["after", "before"])
@pytest.mark.parametrize("moment", range(2, 10))
async def test_a_resumed_run_has_the_same_cost(moment: int, before: bool) -> None:
    def boss(journal: object, script: list[object]) -> Agent[str]:
        child = Agent(ScriptedModel(*["ok"] * 9), name="scout").as_tool()
        return Agent(ScriptedModel(*script), tools=[child], journal=journal, prices=PRICES)  # type: ignore[arg-type]

    journal = MemoryJournal()
    with pytest.raises(SimulatedCrash):
        await boss(CrashAt(journal, moment, before=before), [asks(), "done"]).run("Go", session="s")
    events = [record.event for record in await journal.read("s")]
    asked = sum(isinstance(event, ModelReplied) for event in events)
    result = await boss(journal, [asks(), "done"][asked:]).resume("s")
    assert result.cost == Cost(3 * CALL)


async def test_a_turn_that_began_without_prices_is_not_known() -> None:
    @tool(effect="read")
    def look() -> str:
        """Look."""
        return "nothing"

    journal = MemoryJournal()
    script = [ToolCall("1", "look", "{}"), "done"]
    crashing = Agent(ScriptedModel(*script), tools=[look], journal=CrashAt(journal, 4))
    with pytest.raises(SimulatedCrash):
        await crashing.run("Go", session="s")
    agent = Agent(ScriptedModel("done"), tools=[look], journal=journal, prices=PRICES)
    assert (await agent.resume("s")).cost == Cost(CALL, known=False)


def test_old_events_are_read_as_before() -> None:
    old = b'{"target":"a","attempts":1,"error":{"category":"timeout","safe":"No."}}'
    failed = msgspec.json.decode(old, type=FailedTarget)
    assert (failed.usage, failed.cost) == (Usage(), None)
    assert msgspec.json.encode(failed) == old


async def test_a_cost_is_read_from_a_file_again(tmp_path: Any) -> None:
    path = tmp_path / "talk.db"
    with SqliteJournal(path) as journal:
        agent = Agent(ScriptedModel("Hi"), prices=PRICES, journal=journal)
        await agent.run("Go", session="s")
    with SqliteJournal(path) as journal:
        events = [record.event for record in await journal.read("s")]
    (event,) = [one for one in events if isinstance(one, ModelReplied)]
    assert event.cost == Cost(CALL)


def test_prices_are_prices() -> None:
    with pytest.raises(ConfigurationError, match="prices: must be Prices, got dict"):
        Agent(ScriptedModel(), prices={"m": 1})  # type: ignore[arg-type]
