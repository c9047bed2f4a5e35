"""Replies that say they were the last: the endpoint's limiter pauses, and nothing else changes."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from holdfast import Agent, Limits, Resilience, RetryOptions
from holdfast.resilience import LimiterOptions
from holdfast.testing import FakeClock
from holdfast.testing.emulator import Emulator, ExtraHeaders, HttpStatus

SPENT = {"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "20s"}


async def waits_after(
    headers: Mapping[str, str], *, model: str = "openai:m", options: LimiterOptions | None = None
) -> list[float]:
    """What the second of two turns waits for, when the first reply came with these headers."""
    clock = FakeClock()
    wire = {"anthropic": "anthropic", "openai": "openai_chat"}[model.partition(":")[0]]
    async with Emulator(["one", "two"], faults=[ExtraHeaders(headers)]) as emulator:
        agent = Agent(
            model,
            base_url=emulator.base_url_for(wire),
            api_key="k",
            clock=clock,
            limits=Limits(seconds=None),
            resilience=Resilience(limiter=options or LimiterOptions()),
            retry=RetryOptions(max_retries=0),
        )
        assert (await agent.run("go")).output == "one"
        assert (await agent.run("go")).output == "two"
        return [wait for wait in clock.sleeps if wait]


async def test_a_reply_that_was_the_last_lets_the_next_call_wait_for_the_reset() -> None:
    assert await waits_after(SPENT) == [20.0]


async def test_the_limit_that_takes_longest_counts() -> None:
    tokens = {"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "31s"}
    assert await waits_after({**SPENT, **tokens}) == [31.0]


async def test_a_gateway_in_front_of_anthropic_says_it_in_the_usual_words() -> None:
    assert await waits_after(SPENT, model="anthropic:m") == [20.0]


@pytest.mark.parametrize("what", ["requests", "tokens", "input-tokens", "output-tokens"])
async def test_anthropic_says_it_with_a_moment(what: str) -> None:
    headers = {
        "date": "Sun, 06 Nov 1994 08:49:37 GMT",
        f"anthropic-ratelimit-{what}-remaining": "0",
        f"anthropic-ratelimit-{what}-reset": "1994-11-06T08:49:44Z",
    }
    assert await waits_after(headers, model="anthropic:m") == [7.0]


@pytest.mark.parametrize(
    "headers",
    [
        {**SPENT, "x-ratelimit-remaining-requests": "1"},
        {"x-ratelimit-remaining-requests": "0"},
        {"x-ratelimit-reset-requests": "20s"},
        {**SPENT, "x-ratelimit-reset-requests": "soon"},
        {**SPENT, "x-ratelimit-reset-requests": "-5"},
        {**SPENT, "x-ratelimit-reset-requests": "inf"},
        {**SPENT, "x-ratelimit-remaining-requests": "none"},
        {**SPENT, "x-ratelimit-reset-requests": "0s"},
    ],
    ids=str,
)
async def test_nothing_waits_while_something_remains_or_nothing_is_said(
    headers: dict[str, str],
) -> None:
    assert await waits_after(headers) == []


async def test_the_pause_is_never_longer_than_it_may_be() -> None:
    headers = {**SPENT, "x-ratelimit-reset-requests": "6m0s"}
    assert await waits_after(headers, options=LimiterOptions(max_pause=30)) == [30.0]
    assert await waits_after(headers) == [60.0]  # as long as a call waits, so that none fails by it


async def test_a_run_without_a_limiter_does_not_heed_it() -> None:
    async with Emulator(["one", "two"], faults=[ExtraHeaders(SPENT)]) as emulator:
        clock = FakeClock()
        agent = Agent(
            "openai:m",
            base_url=emulator.base_url,
            api_key="k",
            clock=clock,
            resilience=Resilience(limiter=None),
        )
        assert [(await agent.run("go")).output for _ in range(2)] == ["one", "two"]
        assert clock.sleeps == []


async def test_time_that_a_stream_took_counts() -> None:
    clock = FakeClock()
    async with Emulator(["one", "two"], faults=[ExtraHeaders(SPENT)]) as emulator:
        agent = Agent("openai:m", base_url=emulator.base_url, api_key="k", clock=clock)
        async with agent.stream("go") as run:
            async for _ in run.text(live=True):
                clock.advance(15.0)
        assert run.result.output == "one"
        await agent.run("go")
        assert clock.sleeps == [5.0]


async def test_a_refusal_after_it_is_treated_as_ever() -> None:
    faults = [ExtraHeaders(SPENT), HttpStatus(429, {"retry-after-ms": "3000"})]
    async with Emulator(["one", "two"], faults=faults) as emulator:
        clock = FakeClock()
        agent = Agent("openai:m", base_url=emulator.base_url, api_key="k", clock=clock)
        assert [(await agent.run("go")).output for _ in range(2)] == ["one", "two"]
        assert clock.sleeps == [20.0, 3.0]
