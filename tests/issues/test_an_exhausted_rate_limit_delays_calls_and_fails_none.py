"""A reply with the last request of its rate limit delays the next calls and fails none."""

import asyncio

import pytest
from tests.resilience.operations import OK, Bench, Script, fail

from holdfast import Agent, Limits
from holdfast.core.errors import ErrorCategory
from holdfast.core.messages import Reply
from holdfast.resilience.limiter.decision import FREE
from holdfast.resilience.limiter.options import LimiterOptions
from holdfast.resilience.limiter.strategy import LimiterStrategy, RateLimiter
from holdfast.resilience.pipeline import Done, Failed
from holdfast.testing import Emulator, FakeClock
from holdfast.testing.emulator import ExtraHeaders

SPENT = {"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "1m0s"}


async def test_a_call_with_less_time_than_the_pause_is_sent_at_once() -> None:
    clock = FakeClock()
    async with Emulator(["one", "two"], faults=[ExtraHeaders(SPENT)]) as provider:
        agent = Agent(
            "openai:m",
            base_url=provider.base_url,
            api_key="k",
            clock=clock,
            limits=Limits(seconds=20),
        )
        assert [(await agent.run("go")).output for _ in range(2)] == ["one", "two"]
    assert clock.sleeps == []


async def test_a_call_that_has_waited_is_not_failed_by_a_pause_that_grew_meanwhile() -> None:
    bench, throttle = Bench(auto=False), RateLimiter("x", LimiterOptions())
    for _ in range(2):
        assert throttle.try_enter() is FREE
    throttle.leave(FREE, Done(Reply(()), resumes_at=60.0), bench.clock)

    waiting = asyncio.ensure_future(LimiterStrategy(throttle).wrap(Script(OK))(bench.call()))
    await asyncio.sleep(0)
    throttle.leave(FREE, Done(Reply(()), resumes_at=90.0), bench.clock)
    bench.clock.advance(60.0)
    assert await waiting is OK


@pytest.mark.parametrize("resumes_at", [10.0, 50.0])
async def test_a_pause_that_a_refusal_asked_for_still_fails_who_cannot_wait(
    resumes_at: float,
) -> None:
    bench, throttle = Bench(), RateLimiter("x", LimiterOptions())
    for _ in range(2):
        assert throttle.try_enter() is FREE
    refusal = fail(ErrorCategory.RATE_LIMIT_RETRYABLE, retry_after=30.0)
    throttle.leave(FREE, refusal, bench.clock)
    throttle.leave(FREE, Done(Reply(()), resumes_at=resumes_at), bench.clock)

    outcome = await LimiterStrategy(throttle).wrap(Script(OK))(bench.call(deadline=20.0))
    assert isinstance(outcome, Failed)
    assert outcome.info.retry_after == 30.0
