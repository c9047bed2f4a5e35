"""The limit of tokens, the estimate of tokens, and a context window that is too small."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast import Agent, MemoryJournal, RetryOptions, tool
from holdfast.core.errors import ConfigurationError, ErrorCategory, ErrorInfo, ProviderError
from holdfast.core.events import ModelReplied, ToolFinished, TurnOpened
from holdfast.core.messages import (
    Media,
    Message,
    Refusal,
    Reply,
    Text,
    ToolCall,
    ToolResult,
    Usage,
    assistant,
    system,
    tool_results,
    user,
)
from holdfast.core.model_request import ModelRequest
from holdfast.middleware import HistoryReduction
from holdfast.middleware.history_reduction import (
    BYTES_PER_TOKEN,
    TokenEstimate,
    message_size,
    update_estimate,
)
from holdfast.testing import CrashAt, ScriptedModel, SimulatedCrash


def turn(number: int, size: int = 100) -> list[Message]:
    return [user(f"{number} ".ljust(size, "q")), assistant("a" * size)]


def history(turns: int, size: int = 100) -> list[Message]:
    return [message for number in range(turns) for message in turn(number, size)]


async def sent(past: Sequence[Message], reduction: HistoryReduction) -> tuple[Message, ...]:
    model = ScriptedModel("ok")
    await Agent(model, middleware=[reduction]).run("now", history=past)
    return tuple(model.requests[0].messages)


@pytest.mark.parametrize(
    ("message", "size"),
    [
        (user("Grüße"), 16 + 7),
        (assistant(ToolCall("1", "f", '{"a": 1}')), 16 + 1 + 8),
        (tool_results([ToolResult("1", "f", (Text("abc"), Text("d")))]), 16 + 4),
        (user(Media("image/png", b"x" * 10**6)), 16 + 4000),
        (assistant(Refusal("no")), 16 + 2),
        (user("\ud800"), 16 + 3),
    ],
)
def test_the_rule_of_the_estimate(message: Message, size: int) -> None:
    assert message_size(message) == size


async def test_few_long_messages_are_cut_by_their_tokens() -> None:
    past = history(5, 4000)
    assert await sent(past, HistoryReduction()) == (*past, user("now"))
    shorter = await sent(past, HistoryReduction(tokens=6000))
    assert shorter == (*past[-4:], user("now"))


async def test_below_the_budget_nothing_is_left_out() -> None:
    past = history(5)
    assert await sent(past, HistoryReduction(tokens=1000)) == (*past, user("now"))


async def test_the_current_turn_and_system_messages_are_always_sent() -> None:
    past = [system("rules"), *history(3, 4000)]
    assert await sent(past, HistoryReduction(tokens=1)) == (system("rules"), user("now"))


async def test_the_number_of_messages_counts_as_well() -> None:
    past = history(20)
    both = await sent(past, HistoryReduction(4, 0, tokens=10**6))
    assert both == await sent(past, HistoryReduction(4, 0))


@given(st.lists(st.integers(1, 3000), min_size=1, max_size=30), st.integers(50, 3000))
def test_the_sent_messages_fit_or_are_the_last_turn_alone(sizes: list[int], tokens: int) -> None:
    reduction = HistoryReduction(tokens=tokens)
    most = tokens * BYTES_PER_TOKEN
    cut = reduction._count_dropped(sizes, most * 0.75, most)
    assert cut < len(sizes)
    assert sum(sizes[cut:]) <= most or cut == len(sizes) - 1


def replied(text: str, cost: int) -> ModelReplied:
    return ModelReplied("t1.i0.model", 0.0, Reply((Text(text),), usage=Usage(cost, 1)))


def test_the_estimate_learns_from_the_difference_of_two_bills() -> None:
    state = TokenEstimate()
    for number in range(1, 5):
        state = update_estimate(state, TurnOpened("t1", 0.0, user("x" * 484)))
        state = update_estimate(state, replied("y" * 84, number * 300))
        state = update_estimate(state, ToolFinished("k", 0.0, ToolResult("1", "f", (Text("z"),))))
    assert state.tokens == 3 * 300
    assert state.bytes_per_token == pytest.approx((500 + 100 + 1) / 300)


@pytest.mark.parametrize(
    "costs", [(0, 0, 0, 0), (900, 600, 300, 10), (1, 10**6, 2 * 10**6, 3 * 10**6)]
)
def test_an_implausible_bill_is_ignored(costs: tuple[int, ...]) -> None:
    state = TokenEstimate()
    for cost in costs:
        state = update_estimate(state, TurnOpened("t1", 0.0, user("x" * 500)))
        state = update_estimate(state, replied("y", cost))
    assert state.bytes_per_token == BYTES_PER_TOKEN


async def test_a_session_with_more_tokens_per_byte_is_cut_earlier_also_after_a_restart() -> None:
    def dear(request: ModelRequest) -> Reply:
        seen = sum(message_size(message) for message in request.messages)
        return Reply((Text("a" * 400),), usage=Usage(seen // 2, 1))

    journal = MemoryJournal()
    models = [ScriptedModel(*[dear] * 9), ScriptedModel(*[dear] * 9)]
    plain = ScriptedModel(*["a" * 400] * 9)
    agents = [
        Agent(one, middleware=[HistoryReduction(tokens=1200)], journal=journal) for one in models
    ]
    other = Agent(plain, middleware=[HistoryReduction(tokens=1200)])
    for number in range(5):
        # The second agent stands for another process, which reads the journal.
        await agents[number > 3].run("q" * 400, session="s")
        await other.run("q" * 400, session="s")
    assert len(plain.requests[-1].messages) == 9
    assert len(models[1].requests[0].messages) < 9


def too_long() -> ProviderError:
    info = ErrorInfo(category=ErrorCategory.CONTEXT_WINDOW, safe="The context window is full.")
    return ProviderError("too long", info=info)


def asker(model: ScriptedModel, **keywords: Any) -> Agent[str]:
    return Agent(
        model,
        middleware=[HistoryReduction(100, **keywords)],
        retry=RetryOptions(max_retries=0),
    )


async def test_a_call_that_exceeds_the_window_is_repeated_with_half() -> None:
    past = history(10)
    model = ScriptedModel(too_long(), "ok")
    result = await asker(model).run("now", history=past)
    assert result.output == "ok"
    assert [len(request.messages) for request in model.requests] == [21, 9]
    assert model.requests[1].messages == (*past[-8:], user("now"))
    assert len(result.messages) == 22


async def test_the_call_is_repeated_only_once() -> None:
    model = ScriptedModel(too_long(), too_long(), "never")
    with pytest.raises(ProviderError):
        await asker(model).run("now", history=history(10))
    assert len(model.requests) == 2


async def test_messages_that_cannot_be_shortened_are_not_sent_again() -> None:
    model = ScriptedModel(too_long(), "never")
    with pytest.raises(ProviderError):
        await asker(model).run("now")
    assert len(model.requests) == 1


async def test_another_error_does_not_shorten_the_messages() -> None:
    model = ScriptedModel(ProviderError("down"), "never")
    with pytest.raises(ProviderError):
        await asker(model).run("now", history=history(10))
    assert len(model.requests) == 1


async def test_the_turns_dropped_then_are_summarised_too() -> None:
    async def summarize(messages: Sequence[Message]) -> str:
        return f"{len(messages)} messages"

    model = ScriptedModel(too_long(), "ok")
    await asker(model, summarize=summarize).run("now", history=history(10))
    assert model.requests[1].instructions.endswith("12 messages")


@tool(effect="read")
def look(n: int) -> str:
    """Look."""
    return "x" * 400


@pytest.mark.parametrize("crash_at", range(5, 15))
async def test_a_resumed_turn_sends_the_same_messages(crash_at: int) -> None:
    def agent(model: ScriptedModel, journal: Any) -> Agent[str]:
        reduction = HistoryReduction(tokens=400)
        return Agent(model, tools=[look], middleware=[reduction], journal=journal)

    def answer(request: ModelRequest) -> Reply:
        cost = sum(message_size(message) for message in request.messages) // 3
        calls = sum(message.role == "tool" for message in request.messages)
        part = ToolCall("1", "look", f'{{"n": {calls}}}') if calls < 3 else Text("done")
        return Reply((part,), usage=Usage(cost, 1))

    async def requests(journal: Any, crashes: bool) -> list[list[str]]:
        first = ScriptedModel("a" * 300, *[answer] * 9)
        await agent(first, journal).run("q" * 300, session="s")
        second = ScriptedModel(*[answer] * 9)
        if not crashes:
            await agent(second, journal).run("now", session="s")
            return [[m.text for m in one.messages] for one in second.requests]
        with pytest.raises(SimulatedCrash):
            await agent(second, CrashAt(journal, crash_at - 3)).run("now", session="s")
        third = ScriptedModel(*[answer] * 9)
        await agent(third, journal).resume("s")
        return [[m.text for m in one.messages] for one in (*second.requests, *third.requests)]

    whole = await requests(MemoryJournal(), crashes=False)
    parts = await requests(MemoryJournal(), crashes=True)
    assert [one for at, one in enumerate(parts) if one not in parts[:at]] == [
        one for at, one in enumerate(whole) if one not in whole[:at]
    ]


def test_a_wrong_budget_is_named() -> None:
    with pytest.raises(ConfigurationError, match="tokens"):
        HistoryReduction(tokens=0)
    assert HistoryReduction(tokens=5).describe()["tokens"] == 5
