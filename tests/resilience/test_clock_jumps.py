"""A clock that jumps, in either direction and at any moment: every call ends, and no wait is absurd."""

from __future__ import annotations

import asyncio
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.resilience.operations import Bench, C, Script, fail

from holdfast.core.messages import Reply, Text, user
from holdfast.core.model_request import ModelRequest
from holdfast.resilience.breaker.options import BreakerOptions
from holdfast.resilience.budget.options import BudgetOptions
from holdfast.resilience.cache.options import CacheOptions
from holdfast.resilience.cache.strategy import Store
from holdfast.resilience.defaults import Candidate, Resilience, compose_model_call
from holdfast.resilience.endpoint_states import EndpointStates
from holdfast.resilience.hedge.decision import delay_before
from holdfast.resilience.hedge.options import HedgeOptions
from holdfast.resilience.hedge.strategy import Latencies
from holdfast.resilience.limiter.options import LimiterOptions
from holdfast.resilience.limiter.strategy import RateLimiter
from holdfast.resilience.metrics import CallMetrics
from holdfast.resilience.pipeline import CallContext, Done, ExecutionContext, Failed, Outcome
from holdfast.resilience.retry.options import RetryOptions
from holdfast.resilience.retry.strategy import Retry
from holdfast.testing.fake_clock import FixedRng

LONGEST = 120.0  # of what any default waits at once


class Jumping:
    """A clock that breaks its promise: at each look it has jumped by the next of `jumps`."""

    def __init__(self, jumps: list[float]) -> None:
        self.jumps, self.looks, self.time = jumps, 0, 1000.0
        self.sleeps: list[float] = []

    def now(self) -> float:
        return self.monotonic()

    def monotonic(self) -> float:
        self.time += self.jumps[self.looks % len(self.jumps)] if self.jumps else 0.0
        self.looks += 1
        return self.time

    async def sleep(self, seconds: float) -> None:
        self.sleeps.append(seconds)
        self.time += seconds
        await asyncio.sleep(0)


JUMPS = st.lists(
    st.sampled_from([0.0, 0.0, 0.001, 1.0, -1.0, 30.0, -30.0, 3600.0, -3600.0, 1e9, -1e9]),
    max_size=12,
)
OUTCOMES = st.lists(
    st.sampled_from(
        [
            Done(Reply((Text("ok"),))),
            fail(C.SERVER_ERROR),
            fail(C.RATE_LIMIT_RETRYABLE, retry_after=5.0),
            fail(C.TIMEOUT),
            fail(C.AUTH_ERROR),
        ]
    ),
    min_size=1,
    max_size=8,
)


@pytest.mark.slow  # takes half a second or more
@settings(max_examples=200, deadline=None)
@given(JUMPS, OUTCOMES, st.none() | st.floats(0, 100))
def test_every_call_ends_and_nothing_waits_longer_than_its_settings(
    jumps: list[float], outcomes: list[Outcome[Any]], deadline: float | None
) -> None:
    asyncio.run(everything(Jumping(jumps), outcomes, deadline))


async def everything(clock: Jumping, outcomes: list[Outcome[Any]], deadline: float | None) -> None:
    shared, store = EndpointStates(), Store(CacheOptions(ttl=60.0))
    chosen = Resilience(
        budget=BudgetOptions(),
        breaker=BreakerOptions(minimum_throughput=2, window=10.0),
        limiter=LimiterOptions(concurrency=2, requests_per_minute=60, tokens_per_minute=1000),
        hedge=HedgeOptions(delay=1.0),
        cache=store,
        metrics=CallMetrics(),
    )
    act = Script(*outcomes)
    _, ask = compose_model_call(
        [Candidate("a", "a", "a", act)], RetryOptions(), chosen, shared=shared
    )
    env = ExecutionContext(clock, FixedRng(0.5))
    for number in range(6):
        request = ModelRequest(model="a", messages=[user(str(number % 2))])
        ends = None if deadline is None else clock.time + deadline
        outcome = await asyncio.wait_for(ask(CallContext("k", request, env, ends)), 60)
        assert isinstance(outcome, Done | Failed)
    assert all(math.isfinite(wait) and 0 <= wait <= LONGEST for wait in clock.sleeps)
    throttle = next(one for one in shared._states.values() if isinstance(one, RateLimiter))
    load = throttle.load()
    assert (load.running, load.waiting, store._flights) == (0, 0, {})
    assert all(circuit.snapshot().probes == 0 for circuit in shared.all_breakers())


async def test_forward_past_the_deadline_the_call_is_given_up_at_once() -> None:
    bench = Bench()

    async def slow(call: CallContext[Any]) -> Outcome[Any]:
        bench.clock.advance(1e6)
        return fail()

    outcome = await bench.run(Script(slow), Retry(), deadline=10.0)
    assert isinstance(outcome, Failed)
    assert (outcome.attempts, outcome.out_of_time, bench.clock.sleeps) == (1, True, [])


async def test_back_the_retries_are_still_counted() -> None:
    clock = Jumping([-3600.0])
    act = Script(fail())
    outcome = await Retry().wrap(act)(
        CallContext("k", None, ExecutionContext(clock, FixedRng(0.5)), 1e6)
    )
    assert isinstance(outcome, Failed)
    assert (outcome.attempts, clock.sleeps) == (4, [1.0, 2.0, 4.0])


@pytest.mark.parametrize("took", [-1.0, -1e9])
def test_back_an_attempt_took_no_time_that_could_be_learnt(took: float) -> None:
    latencies = Latencies(HedgeOptions(samples=1))
    latencies.record_latency(took)
    assert latencies.begin_call() is None
    latencies.record_latency(2.0)
    assert latencies.begin_call() == 2.0
    assert delay_before(HedgeOptions(samples=1), [2.0]) == 2.0


async def test_forward_what_a_cache_keeps_is_too_old_and_asked_again() -> None:
    bench, act = Bench(), Script(Done(Reply((Text("ok"),))))
    chosen = Resilience(cache=CacheOptions(ttl=60.0))
    _, ask = compose_model_call(
        [Candidate("a", "a", "a", act)], RetryOptions(), chosen, shared=EndpointStates()
    )
    request = ModelRequest(model="a", messages=[user("hi")])
    for passed, calls in ((0.0, 1), (1.0, 1), (1e9, 2)):
        bench.clock.advance(passed)
        await ask(bench.call(request))
        assert len(act.calls) == calls


async def test_a_plain_custom_strategy_that_blocks_costs_its_time_and_no_more() -> None:
    # A plain function runs on the loop and cannot be interrupted; its answer is judged afterwards.
    bench = Bench()

    def blocks(error: BaseException, attempt: int) -> float:
        bench.clock.advance(50.0)
        return 5.0

    outcome = await bench.run(
        Script(fail()), Retry(RetryOptions(custom_retry=blocks)), deadline=53.0
    )
    assert isinstance(outcome, Failed)
    assert (outcome.attempts, outcome.out_of_time, bench.clock.sleeps) == (1, True, [])
