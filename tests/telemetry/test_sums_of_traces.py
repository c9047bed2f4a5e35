"""The usage and the cost of all chats of a trace add up to those of its result, whatever fails."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.telemetry.recorded_spans import Recorder

from holdfast import Agent, Limits, MemoryJournal, RetryOptions, tool
from holdfast.core.errors import ErrorCategory, ErrorInfo, HoldfastError, ProviderError
from holdfast.core.messages import Reply, ReplyKind, Text, ToolCall, Usage
from holdfast.models import Prices
from holdfast.resilience import Resilience
from holdfast.testing import FakeClock, ScriptedModel

PRICES = Prices(
    {
        "first": {"input": "3", "output": "15", "cached_input": "0.3", "cache_write": "3.75"},
        "second": {"input": "1", "output": "2", "cached_input": "0.1", "cache_write": "1.25"},
        "scout": {"input": "7", "output": "9", "cached_input": "0.7", "cache_write": "8.75"},
    }
)

COUNTS = st.integers(0, 5000)


@st.composite
def usages(draw: st.DrawFn) -> Usage:
    """The usage of an attempt, whose parts fit into it."""
    total, output = draw(COUNTS), draw(COUNTS)
    cached = draw(st.integers(0, total))
    written = draw(st.integers(0, total - cached))
    return Usage(total, output, cached, written, draw(st.integers(0, output)))


STEPS = st.tuples(
    st.sampled_from(["ok", "call", "scout", "broken", "refused", "overloaded", "filtered"]),
    usages(),
)
SCRIPTS = st.lists(STEPS, min_size=1, max_size=8)


@tool(effect="read")
def look() -> str:
    """Look."""
    return "a room"


def make_answer(kind: str, usage: Usage, number: int) -> Any:
    """Return what a scripted model does at one attempt."""
    texts = (Text("Some text."),)
    if kind == "ok":
        return Reply(texts, usage=usage)
    if kind == "call":
        return Reply((ToolCall(str(number), "look"),), usage=usage)
    if kind == "scout":
        return Reply((ToolCall(str(number), "scout", '{"task": "Look."}'),), usage=usage)
    category = {
        "broken": ErrorCategory.TRANSIENT,
        "refused": ErrorCategory.AUTH_ERROR,
        "overloaded": ErrorCategory.SERVER_ERROR,
        "filtered": ErrorCategory.CONTENT_FILTERED,
    }[kind]
    partial = Reply(texts, kind=ReplyKind.UNTERMINATED, usage=usage) if kind == "broken" else None
    status = {"refused": 401, "overloaded": 500}.get(kind)
    info = ErrorInfo(category=category, safe="It failed.", status=status)
    return ProviderError("It failed.", info=info, partial=partial)


def make_model(name: str, script: list[tuple[str, Usage]]) -> ScriptedModel:
    answers = [make_answer(kind, usage, number) for number, (kind, usage) in enumerate(script)]
    return ScriptedModel(*answers, *[Reply((Text("End."),))] * 40, name=name)


async def check_sums(
    scripts: list[list[tuple[str, Usage]]], *, priced: bool, continues: bool
) -> None:
    """Run a turn, and compare the sums of its trace with its result."""
    recorder = Recorder()
    first, second, third = scripts
    below = [(kind if kind != "scout" else "call", usage) for kind, usage in third]
    scout = Agent(make_model("scout", below), name="scout", tools=[look], clock=FakeClock())
    agent = Agent(
        make_model("first", first),
        fallback=[make_model("second", second)],
        tools=[look, scout.as_tool()],
        retry=RetryOptions(max_retries=1),
        resilience=Resilience(breaker=None, budget=None, continue_streams=continues),
        prices=PRICES if priced else None,
        journal=MemoryJournal(),
        limits=Limits(iterations=6),
        observers=[recorder.observer],
        clock=FakeClock(),
    )
    result = None
    try:
        result = await agent.run("Go", session="s")
    except HoldfastError as error:
        result = error.result
    assert result is not None
    total, seen = result.usage, recorder.sum_usage()
    fields = ("input", "output", "cached_input", "cache_write", "reasoning")
    assert [getattr(seen, one) for one in fields] == [getattr(total, one) for one in fields]
    cost = Decimal(0) if result.cost is None else result.cost.amount
    assert recorder.sum_cost() == cost
    for span in recorder.spans:
        assert span.end_time is not None


RUNS = given(st.lists(SCRIPTS, min_size=3, max_size=3), st.booleans(), st.booleans())


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@RUNS
def test_a_trace_adds_up_to_its_result(
    scripts: list[list[tuple[str, Usage]]], priced: bool, continues: bool
) -> None:
    asyncio.run(check_sums(scripts, priced=priced, continues=continues))


@pytest.mark.slow  # 2,000 turns
@pytest.mark.timeout(900)
@settings(max_examples=2000, deadline=None, suppress_health_check=list(HealthCheck))
@RUNS
def test_two_thousand_traces_add_up_to_their_results(
    scripts: list[list[tuple[str, Usage]]], priced: bool, continues: bool
) -> None:
    asyncio.run(check_sums(scripts, priced=priced, continues=continues))


def test_the_spans_of_a_turn_that_was_stopped_have_ended() -> None:
    with suppress(HoldfastError):
        asyncio.run(
            check_sums(
                [[("refused", Usage())], [("filtered", Usage())], [("ok", Usage())]],
                priced=True,
                continues=False,
            )
        )
