"""The whole of it once against real time and a real socket: what virtual time cannot show."""

from __future__ import annotations

import asyncio
import time

from holdfast import Agent, Resilience, RetryOptions, tool
from holdfast.core.deltas import TextDelta
from holdfast.resilience.breaker.options import BreakerOptions
from holdfast.resilience.cache.options import CacheOptions
from holdfast.resilience.hedge.options import HedgeOptions
from holdfast.resilience.limiter.options import LimiterOptions
from holdfast.resilience.metrics import CallMetrics
from holdfast.testing.emulator import (
    Delay,
    DropAfter,
    EmulatedRequest,
    Emulator,
    ErrorResponse,
    call,
)
from holdfast.testing.emulator.script import ReplyLike

paid: list[int] = []


@tool(effect="write")
async def pay(amount: int) -> str:
    """Pay."""
    paid.append(amount)
    return "paid"


def clerk(request: EmulatedRequest) -> ReplyLike:
    return "Done." if request.tool_results else call("pay", {"amount": 27})


async def test_a_turn_through_refusals_and_drops_waits_as_told_and_pays_once() -> None:
    # Seed 2.7: repeating the call repeated the whole loop of tools, and payments with it.
    metrics = CallMetrics()
    resilience = Resilience(
        breaker=BreakerOptions(minimum_throughput=2, failure_ratio=1.0, open_seconds=0.2),
        limiter=LimiterOptions(concurrency=2, requests_per_minute=6000),
        attempt_timeout=20.0,
        deadline=60.0,
        cache=CacheOptions(),
        metrics=metrics,
    )
    faults = [
        ErrorResponse("rate_limit", {"retry-after": "0.3"}),
        None,
        DropAfter(1),
        ErrorResponse("overloaded"),
    ]
    async with Emulator(clerk, faults=faults) as emulator:
        agent = Agent(
            "openai:m",
            base_url=emulator.base_url,
            api_key="k",
            tools=[pay],
            resilience=resilience,
            retry=RetryOptions(max_retries=5, retry_delay=0.01),
        )
        began = time.monotonic()
        result = await agent.run("Pay.")
        took = time.monotonic() - began
        sent = [entry.received for entry in emulator.requests]
    assert (result.output, paid) == ("Done.", [27])
    assert len(sent) == 5
    assert sent[1] - sent[0] >= 0.3
    assert 0.3 <= took < 20
    seen = metrics.snapshot("model")
    assert (seen.total_calls, seen.successful_calls) == (2, 2)


async def test_a_hedge_answers_in_the_place_of_a_slow_one_whose_connection_is_closed() -> None:
    def clerk_for_one(request: EmulatedRequest) -> ReplyLike:
        return "Done at last."

    async with Emulator(clerk_for_one, faults=[Delay(30)]) as emulator:
        agent = Agent(
            "openai:m",
            base_url=emulator.base_url,
            api_key="k",
            resilience=Resilience(hedge=HedgeOptions(delay=0.05, max_share=1.0)),
        )
        began = time.monotonic()
        async with agent.stream("Slow?") as run:
            shown = [item.text async for item in run if isinstance(item, TextDelta)]
        assert time.monotonic() - began < 20
        while not emulator.requests[0].client_gone:
            await asyncio.sleep(0.01)
        assert len(emulator.requests) == 2
    assert "".join(shown) == run.result.output == "Done at last."
