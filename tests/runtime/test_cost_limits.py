"""A limit of the cost ends a turn before the call that would exceed it, also of a retry or a subagent."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast import Agent, Limits, MemoryJournal, RetryOptions, Status, tool
from holdfast.core.cost import Cost
from holdfast.core.errors import ErrorCategory, ErrorInfo, LimitError, ProviderError
from holdfast.core.events import ModelFailed
from holdfast.core.messages import FinishReason, Reply, ReplyKind, Text, ToolCall, Usage
from holdfast.core.model_request import ModelRequest, ModelSettings
from holdfast.core.run_fold import list_costs
from holdfast.errors import ConfigurationError
from holdfast.middleware.history_reduction import message_size
from holdfast.models import Prices
from holdfast.models.presets import PRESETS
from holdfast.resilience import Resilience
from holdfast.resilience.hedge.options import HedgeOptions
from holdfast.testing import Emulator, FakeClock, ScriptedModel
from holdfast.testing.emulator import DropAfter, EmulatedRequest, HttpStatus

INPUT, OUTPUT = Decimal(1), Decimal(10)
SHORT = ModelSettings(max_tokens=500)
PRICES = Prices({"*": {"input": INPUT, "output": OUTPUT}})


@tool(effect="read")
def look() -> str:
    """Look."""
    return "nothing"


LOOK = ToolCall("1", "look", "{}")


def size_of(request: ModelRequest) -> int:
    """Return the bytes of a request, as a provider may count them."""
    size = sum(map(message_size, request.messages)) + len(request.instructions.encode())
    for spec in request.tools:
        size += len(spec.name) + len(spec.description) + len(msgspec.json.encode(spec.schema))
    return size


@dataclass
class Provider:
    """A provider that counts tokens in its own way, and adds up what it charges.

    Args:
        rng: decides how long replies are, and which attempts fail.
        per_byte: the tokens of a byte.
        failures: the share of attempts that fail.
        calls: the share of replies that call tools.
        asks: the calls.
    """

    rng: random.Random
    per_byte: float = 0.25
    failures: float = 0.0
    calls: float = 0.6
    asks: tuple[ToolCall, ...] = (LOOK,)
    charged: Decimal = Decimal(0)
    inputs: list[tuple[int, int]] = field(default_factory=list)

    def __call__(self, request: ModelRequest) -> Reply | ProviderError:
        size = size_of(request)
        sent = int(size * self.per_byte) + 1
        self.inputs.append((size, sent))
        written, most = self.rng.randrange(1, 3000), request.settings.max_tokens
        is_cut = most is not None and written >= most
        written = min(written, most) if most is not None else written
        usage = Usage(sent, written)
        self.charged += (sent * INPUT + written * OUTPUT) / 1_000_000
        if self.rng.random() < self.failures:
            partial = Reply((Text("a"),), usage=usage)
            info = ErrorInfo(category=ErrorCategory.SERVER_ERROR, safe="It broke.")
            return ProviderError("It broke.", info=info, partial=partial)
        if is_cut:
            finish, kind = FinishReason.LENGTH, ReplyKind.TRUNCATED
            return Reply((Text("b"),), kind, finish, usage)
        if self.rng.random() < self.calls:
            parts = (Text("c" * self.rng.randrange(200)), *self.asks)
            return Reply(parts, finish=FinishReason.TOOL_CALLS, usage=usage)
        return Reply((Text("Done."),), usage=usage)

    @property
    def most_wrong(self) -> Decimal:
        """The cost of the tokens that the first estimate missed; later ones know how the provider counts."""
        missed = [sent - int(size * 0.25) for size, sent in self.inputs[:1]]
        return max(0, *missed, 2) * INPUT / 1_000_000 + Decimal("0.00001")


def agent(provider: Provider, budget: Decimal, **keywords: Any) -> Agent[str]:
    return Agent(
        ScriptedModel(*[provider] * 500),
        tools=[look],
        prices=PRICES,
        limits=Limits(cost=budget, iterations=40),
        clock=FakeClock(),
        **keywords,
    )


@given(
    seed=st.integers(0, 2**32),
    budget=st.decimals("0.001", "0.4", places=4),
    per_byte=st.sampled_from([0.1, 0.25, 0.4]),
    failures=st.sampled_from([0.0, 0.3]),
)
@settings(max_examples=15, deadline=None)
def test_no_turn_spends_more_than_its_limit_by_more_than_one_estimate(
    seed: int, budget: Decimal, per_byte: float, failures: float
) -> None:
    provider = Provider(random.Random(seed), per_byte, failures)

    async def run() -> Any:
        try:
            return await agent(provider, budget).run("Go " * 100)
        except (LimitError, ProviderError) as error:
            return error.result

    result = asyncio.run(run())
    assert provider.charged <= budget + provider.most_wrong
    assert result.cost is None or result.cost.amount == provider.charged
    if result.status is Status.LIMIT:
        assert result.error.code in ("cost", "iterations")


@given(seed=st.integers(0, 2**32), failures=st.sampled_from([0.0, 0.2, 0.5]))
@settings(max_examples=8, deadline=None)
def test_each_attempt_is_paid_once_whoever_makes_it(seed: int, failures: float) -> None:
    rng = random.Random(seed)
    scout = ToolCall("2", "scout", '{"task": "look"}')
    providers = [
        Provider(rng, 0.3, failures),
        Provider(rng, 0.2, failures, asks=(LOOK, scout)),
        Provider(rng, 0.25, 0.0, asks=(scout,)),
    ]
    models = [ScriptedModel(*[one] * 500, name=f"m:{at}") for at, one in enumerate(providers)]
    short = RetryOptions(max_retries=1)
    child = Agent(models[0], name="scout", tools=[look], clock=FakeClock(), retry=short)
    journal = MemoryJournal()
    boss = Agent(
        models[1],
        fallback=[models[2]],
        tools=[look, child.as_tool()],
        prices=PRICES,
        clock=FakeClock(),
        retry=short,
        journal=journal,
        limits=Limits(iterations=5),
    )

    async def run() -> tuple[Any, list[Any]]:
        try:
            result: Any = await boss.run("Go", session="s")
        except (LimitError, ProviderError) as error:
            result = error.result
        return result, [record.event for record in await journal.read("s")]

    result, events = asyncio.run(run())
    charged = sum(one.charged for one in providers)
    assert result.cost == Cost(charged)
    assert sum(event.cost.amount for event in events if getattr(event, "cost", None)) == charged
    by_model = [cost for event in events for _, _, cost in list_costs(event)]
    assert sum(cost.amount for cost in by_model if cost is not None) == charged
    assert sum((usage for event in events for _, usage, _ in list_costs(event)), Usage()) == (
        result.usage
    )


async def test_a_turn_ends_before_the_call_that_the_rest_does_not_pay_for() -> None:
    journal = MemoryJournal()
    provider = Provider(random.Random(1), calls=1.0)
    with pytest.raises(LimitError, match=r"The limit of the cost \(0.05\) is reached") as caught:
        await agent(provider, Decimal("0.05"), journal=journal).run("Go", session="s")
    result: Any = caught.value.result
    assert caught.value.limit == "cost"
    assert (result.status, result.error.code) == (Status.LIMIT, "cost")
    assert result.cost.amount == provider.charged <= Decimal("0.05")
    assert len(result.messages) > 2
    events = [record.event for record in await journal.read("s")]
    (failed,) = [event for event in events if isinstance(event, ModelFailed)]
    assert failed.error.code == "cost"


async def test_a_reply_is_limited_to_what_the_rest_pays_for() -> None:
    model = ScriptedModel("ok", "ok", "ok")
    for limit, settings_, wanted in (
        ("0.0100", None, 990),
        ("0.0100", ModelSettings(max_tokens=500), 500),
        ("5", None, None),  # it pays for more than a model writes
    ):
        chosen = Agent(model, prices=PRICES, limits=Limits(cost=limit), settings=settings_)
        await chosen.run("Go")
        sent = model.requests[-1].settings.max_tokens
        assert sent == wanted or (wanted == 990 and 980 < (sent or 0) < 1000)


async def test_a_short_reply_may_be_wanted() -> None:
    model = ScriptedModel("ok")
    limits = Limits(cost="0.0006")
    with pytest.raises(LimitError):
        await Agent(model, prices=PRICES, limits=limits).run("Go")
    assert model.requests == []
    short = ModelSettings(max_tokens=20)
    await Agent(model, prices=PRICES, limits=limits, settings=short).run("Go")


async def test_a_reply_must_be_longer_than_its_thinking() -> None:
    model = ScriptedModel("ok")
    thinking = ModelSettings(reasoning_tokens=2000)
    with pytest.raises(LimitError):
        await Agent(model, prices=PRICES, limits=Limits(cost="0.02"), settings=thinking).run("Go")
    assert model.requests == []


async def test_a_reply_that_the_limit_cuts_ends_the_turn() -> None:
    def cut(request: ModelRequest) -> Reply:
        most = request.settings.max_tokens or 0
        finish = FinishReason.LENGTH
        return Reply((Text("Half"),), ReplyKind.TRUNCATED, finish, Usage(10, most))

    model = ScriptedModel(cut, "never")
    with pytest.raises(LimitError) as caught:
        await Agent(model, prices=PRICES, limits=Limits(cost="0.01")).run("Go")
    assert len(model.requests) == 1
    result: Any = caught.value.result
    assert (result.status, result.error.code, result.text) == (Status.LIMIT, "cost", "Half")
    assert Decimal("0.0099") < result.cost.amount <= Decimal("0.01")


async def test_a_retry_is_asked_too() -> None:
    partial = Reply((Text("Half"),), usage=Usage(10, 900))
    info = ErrorInfo(category=ErrorCategory.SERVER_ERROR, safe="It broke.")
    model = ScriptedModel(ProviderError("It broke.", info=info, partial=partial), "never")
    with pytest.raises(LimitError) as caught:
        await Agent(model, prices=PRICES, limits=Limits(cost="0.01"), clock=FakeClock()).run("Go")
    assert len(model.requests) == 1
    result: Any = caught.value.result
    assert (result.status, result.error.code) == (Status.LIMIT, "cost")
    assert result.cost.amount == Decimal("0.00901")


async def test_a_fallback_is_asked_at_its_own_price() -> None:
    dear = ScriptedModel("never", name="dear")
    cheap = ScriptedModel("ok", name="cheap")
    object.__setattr__(dear, "model", "dear")
    object.__setattr__(cheap, "model", "cheap")
    prices = Prices({"dear": {"input": 1, "output": 1000}, "cheap": {"input": 0, "output": 1}})
    chosen = Agent(dear, fallback=[cheap], prices=prices, limits=Limits(cost="0.1"))
    assert (await chosen.run("Go")).output == "ok"
    assert dear.requests == []
    for limits in (Limits(cost="0.0001"), Limits(cost="0.0002")):
        with pytest.raises(LimitError) as caught:
            await chosen.run("Go", limits=limits)
        result: Any = caught.value.result
        said = f"The limit of the cost ({limits.cost}) is reached."
        assert (str(caught.value), result.error.safe) == (said, said)
        assert [one.target for one in result.tried] == ["dear"]
        assert result.cost == Cost(Decimal(0))


async def test_a_hedge_pays_from_the_same_rest() -> None:
    async def slow(_request: ModelRequest) -> str:
        await asyncio.sleep(0.01)
        return "ok"

    model = ScriptedModel(slow, "never")
    hedge = Resilience(hedge=HedgeOptions(delay=0.001, max_share=1.0))
    chosen = Agent(model, prices=PRICES, limits=Limits(cost="0.01"), resilience=hedge)
    assert (await chosen.run("Go")).output == "ok"
    assert len(model.requests) == 1


async def test_an_attempt_that_nobody_counted_keeps_what_was_reserved_for_it() -> None:
    info = ErrorInfo(category=ErrorCategory.TIMEOUT, safe="No answer.")
    model = ScriptedModel(ProviderError("No answer.", info=info), "never")
    chosen = Agent(model, prices=PRICES, limits=Limits(cost="0.01"), clock=FakeClock())
    with pytest.raises(LimitError) as caught:
        await chosen.run("Go")
    result: Any = caught.value.result
    assert (len(model.requests), result.cost.known) == (1, False)


@pytest.mark.parametrize(("status", "is_known"), [(503, True), (502, False), (504, False)])
async def test_a_gateway_that_waited_in_vain_may_have_spent(status: int, is_known: bool) -> None:
    async with Emulator(["ok"], faults=[HttpStatus(status)]) as provider:
        chosen = emulated(provider, "openai", "9", settings=SHORT, clock=FakeClock())
        result = await chosen.run("Go")
    assert result.cost is not None
    assert (result.output, result.cost.known) == ("ok", is_known)


async def test_it_keeps_that_after_the_call_too() -> None:
    info = ErrorInfo(category=ErrorCategory.TIMEOUT, safe="No answer.")
    call = Reply((LOOK,), finish=FinishReason.TOOL_CALLS, usage=Usage(10, 500))
    chosen = Agent(
        ScriptedModel(ProviderError("No answer.", info=info), call, "never"),
        tools=[look],
        prices=PRICES,
        limits=Limits(cost="0.0112"),
        settings=ModelSettings(max_tokens=500),
        clock=FakeClock(),
    )
    # 0.005 are reserved for the attempt that nobody counted, and as much is paid for the next one.
    with pytest.raises(LimitError) as caught:
        await chosen.run("Go")
    result: Any = caught.value.result
    assert (result.error.code, result.iterations) == ("cost", 2)


@pytest.mark.parametrize("failures", [0.0, 0.3])
@pytest.mark.parametrize("seed", range(5))
async def test_subagents_at_once_share_the_rest_of_their_caller(seed: int, failures: float) -> None:
    provider = Provider(random.Random(seed), failures=failures)
    child = Agent(
        ScriptedModel(*[provider] * 500),
        name="scout",
        tools=[look],
        clock=FakeClock(),
        retry=RetryOptions(max_retries=1),
    ).as_tool()
    calls = tuple(ToolCall(str(n), "scout", '{"task": "look"}') for n in range(8))
    boss = ScriptedModel(Reply(calls, finish=FinishReason.TOOL_CALLS, usage=Usage(10, 5)), "done")
    budget = Decimal("0.2")
    chosen = Agent(boss, tools=[child], prices=PRICES, limits=Limits(cost=budget))
    try:
        result: Any = await chosen.run("Go")
    except LimitError as error:
        result = error.result
    own = len(boss.requests) * Decimal("0.00006")
    assert result.cost.amount == provider.charged + own
    assert result.cost.amount <= budget + 8 * provider.most_wrong
    assert len(provider.inputs) >= 8


async def test_a_subagent_at_the_limit_of_its_caller_tells_it() -> None:
    child = Agent(ScriptedModel("never"), name="scout").as_tool()
    call = Reply(
        (ToolCall("1", "scout", '{"task": "look"}'),),
        finish=FinishReason.TOOL_CALLS,
        usage=Usage(10, 700),
    )
    chosen = Agent(ScriptedModel(call), tools=[child], prices=PRICES, limits=Limits(cost="0.009"))
    with pytest.raises(LimitError) as caught:
        await chosen.run("Go")
    result: Any = caught.value.result
    assert "Agent 'scout' failed: The limit of the cost of the agent that it works for" in str(
        result.messages
    )


async def test_a_subagent_with_a_budget_of_its_own_has_its_own_limit() -> None:
    child = Agent(ScriptedModel("ok"), name="scout", prices=PRICES, limits=Limits(cost="1"))
    call = ToolCall("1", "scout", '{"task": "look"}')
    boss = ScriptedModel(call, "done")
    settings_ = ModelSettings(max_tokens=20)
    chosen = Agent(
        boss,
        tools=[child.as_tool(own_budget=True)],
        prices=PRICES,
        limits=Limits(cost="0.0005"),
        settings=settings_,
    )
    assert (await chosen.run("Go")).output == "done"


def test_a_limit_needs_a_price_of_each_model() -> None:
    limits = Limits(cost="1")
    with pytest.raises(
        ConfigurationError, match=r"limits.cost: needs prices, and the agent has none"
    ):
        Agent(ScriptedModel(), limits=limits)
    prices = Prices({"model": {"input": 1, "output": 1}})
    other = ScriptedModel(name="other:new")
    object.__setattr__(other, "model", "new")
    Agent(ScriptedModel(), limits=limits, prices=prices)
    with pytest.raises(ConfigurationError, match=r"limits.cost: needs a price of other:new"):
        Agent(ScriptedModel(), fallback=[other], limits=limits, prices=prices)


async def test_a_limit_of_a_turn_needs_a_price_too() -> None:
    model = ScriptedModel("never")
    journal = MemoryJournal()
    with pytest.raises(ConfigurationError, match=r"limits.cost: needs prices"):
        await Agent(model, journal=journal).run("Go", limits=Limits(cost="1"), session="s")
    other = ScriptedModel(name="other:new")
    object.__setattr__(other, "model", "new")
    priced = Agent(
        model, prices=Prices({"model": {"input": 1, "output": 1}}), limits=Limits(cost="1")
    )
    with pytest.raises(ConfigurationError, match=r"needs a price of other:new"):
        await priced.run("Go", model=other)
    assert (model.requests, list(await journal.read("s"))) == ([], [])


@pytest.mark.parametrize(
    ("cost", "said"),
    [
        (0.5, 'limits.cost: must be an exact number, got float. Write it as text: "0.5"'),
        ("much", "limits.cost: is a text that is not a number"),
        ("-1", "limits.cost: must be a number from 0"),
        (Decimal("NaN"), "limits.cost: must be a number from 0"),
        (0, "limits.cost: must be above 0"),
    ],
)
def test_a_wrong_limit_is_named(cost: Any, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said.replace("(", r"\(")):
        Limits(cost=cost)


def test_a_limit_is_saved_as_text() -> None:
    saved = msgspec.json.encode(Limits(cost="0.50"))
    assert saved == b'{"cost":"0.50"}'
    assert msgspec.json.decode(saved, type=Limits) == Limits(cost=Decimal("0.50"))


TOO_LARGE = {
    "openai": "max_tokens is too large: 49999. This model supports at most 16384 tokens",
    "openai-responses": "max_output_tokens: 49999 > 16384",
    "gemini": "maxOutputTokens must be at most 16384, got 49999",
}


def emulated(provider: Emulator, preset: str, cost: str, **keywords: Any) -> Agent[str]:
    url = provider.base_url_for(PRESETS[preset].wire)
    limits = Limits(cost=cost)
    return Agent(f"{preset}:m", base_url=url, api_key="k", prices=PRICES, limits=limits, **keywords)


@pytest.mark.parametrize("preset", TOO_LARGE)
async def test_a_limit_of_a_reply_that_a_model_cannot_reach_is_left_out(preset: str) -> None:
    refusal = HttpStatus(400, body={"error": {"message": TOO_LARGE[preset]}})
    async with Emulator(["ok"], faults=[refusal]) as provider:
        result = await emulated(provider, preset, "0.5").run("Go")
        first, second = [str(request.body) for request in provider.requests]
    assert result.output == "ok"
    assert ("okens" in first, "okens" in second) == (True, False)
    assert result.cost is not None
    assert result.cost.known


async def test_a_refusal_that_quotes_the_user_lifts_no_limit() -> None:
    said = "Invalid content: 'Why is max_tokens is too large said to me?'"
    refusal = HttpStatus(400, body={"error": {"message": said}})
    async with Emulator(["never"], faults=[refusal]) as provider:
        chosen = emulated(provider, "openai", "0.5")
        with pytest.raises(ProviderError):
            await chosen.run("Why is max_tokens is too large said to me?")
        assert len(provider.requests) == 1


async def test_a_limit_never_raises_what_a_wire_sends_by_default() -> None:
    async with Emulator(["ok", "ok"]) as provider:
        await emulated(provider, "anthropic", "0.5").run("Go")
        await emulated(provider, "anthropic", "0.01").run("Go")
        first, second = [request.body["max_tokens"] for request in provider.requests]
    assert first == 8192
    assert 900 < second < 1000


async def test_a_stream_that_broke_off_keeps_what_was_reserved_for_it() -> None:
    faults = [DropAfter(chunks=2)]
    async with Emulator(["A long answer, word by word.", "never"], faults=faults) as provider:
        with pytest.raises(LimitError) as caught:
            await emulated(provider, "openai", "0.01", clock=FakeClock()).run("Go")
    result: Any = caught.value.result
    assert (len(provider.requests), result.error.code, result.cost.known) == (1, "cost", False)


@pytest.mark.parametrize("preset", ["openai", "openai-responses", "anthropic", "gemini"])
async def test_no_turn_of_the_emulator_spends_more_than_its_limit(preset: str) -> None:
    """The emulator counts four bytes of the request and four letters of the reply as a token."""
    rng, charged = random.Random(preset), [Decimal(0), Decimal(0)]

    def answer(request: EmulatedRequest) -> Reply:
        written, most = rng.randrange(1, 2500), request.max_tokens
        is_cut = most is not None and written >= most
        text = Text("word" * (min(written, most) - 1 if most is not None else written))
        sent = request.size // 4 + 1
        cost = (sent * INPUT + (len(text.text) // 4 + 1) * OUTPUT) / 1_000_000
        charged[:] = [charged[0] + cost, charged[1] or sent * INPUT / 1_000_000]
        if is_cut:
            return Reply((text,), finish=FinishReason.LENGTH)
        return Reply((text, LOOK), finish=FinishReason.TOOL_CALLS)

    for _ in range(3):
        charged[:] = [Decimal(0), Decimal(0)]
        budget = Decimal(rng.randrange(100, 700)) / 10_000
        faults = [HttpStatus(503), None, None, HttpStatus(529)]
        async with Emulator([answer] * 50, faults=faults) as provider:
            chosen = emulated(provider, preset, str(budget), tools=[look], clock=FakeClock())
            with pytest.raises(LimitError) as caught:
                await chosen.run("Go")
        result: Any = caught.value.result
        assert result.cost == Cost(charged[0])
        assert result.cost.amount <= budget + charged[1]
