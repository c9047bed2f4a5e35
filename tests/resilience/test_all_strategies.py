"""All strategies at once, under failures, slowness and cancellation: nothing may be left behind."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

import pytest
from tests.resilience.operations import Bench, C, fail

from holdfast.core.deltas import TextDelta
from holdfast.core.messages import Reply, Text, user
from holdfast.core.model_request import ModelRequest
from holdfast.resilience.breaker.options import BreakerOptions
from holdfast.resilience.budget.options import BudgetOptions
from holdfast.resilience.cache.options import CacheOptions
from holdfast.resilience.cache.strategy import Store
from holdfast.resilience.defaults import Candidate, Resilience, compose_model_call
from holdfast.resilience.endpoint_states import EndpointStates
from holdfast.resilience.hedge.options import HedgeOptions
from holdfast.resilience.limiter.options import LimiterOptions
from holdfast.resilience.limiter.strategy import LimiterLoad, RateLimiter
from holdfast.resilience.metrics import CallMetrics
from holdfast.resilience.pipeline import CallContext, Done, Failed, Operation, Outcome
from holdfast.resilience.retry.options import RetryOptions

CATEGORIES = [C.SERVER_ERROR, C.TRANSIENT, C.AUTH_ERROR, C.TIMEOUT, C.UNKNOWN]


class Endpoint:
    """Answers late, badly or not at all, as its rng say; counts how many are inside at once."""

    def __init__(self, rng: Random) -> None:
        self.rng, self.inside, self.most = rng, 0, 0

    async def __call__(self, call: CallContext[ModelRequest]) -> Outcome[Reply]:
        self.inside += 1
        self.most = max(self.most, self.inside)
        try:
            await call.execution.clock.sleep(self.rng.choice([0, 0.1, 1, 5, 20]))
            roll = self.rng.random()
            if roll < 0.15:
                return fail(C.RATE_LIMIT_RETRYABLE, retry_after=self.rng.choice([None, 0.5, 4.0]))
            if roll < 0.5:
                return fail(self.rng.choice(CATEGORIES))
            call.execution.emit(TextDelta("answer"))
            return Done(Reply((Text(f"to {call.payload.instructions}"),)))
        finally:
            self.inside -= 1


def resilience(store: Store) -> Resilience:
    return Resilience(
        budget=BudgetOptions(reserve=50),
        breaker=BreakerOptions(minimum_throughput=5, open_seconds=3.0, probes=2),
        limiter=LimiterOptions(concurrency=6, queue=40, requests_per_minute=600, max_wait=30.0),
        hedge=HedgeOptions(delay=2.0, max_share=0.5),
        cache=store,
        metrics=CallMetrics(),
    )


async def ended(task: asyncio.Task[Any]) -> str:
    try:
        outcome = await task
    except asyncio.CancelledError:
        return "cancelled"
    assert isinstance(outcome, Done | Failed)
    return "done" if isinstance(outcome, Done) else "failed"


@pytest.mark.slow  # takes half a second or more
@pytest.mark.parametrize("seed", range(15))
async def test_whatever_happens_nothing_is_left_behind(seed: int) -> None:
    rng, shared, store = Random(seed), EndpointStates(), Store(CacheOptions(entries=5))
    bench, endpoints = Bench(), {name: Endpoint(rng) for name in ("a", "b")}
    acts: dict[str, Operation[ModelRequest, Reply]] = dict(endpoints)
    chosen = resilience(store)
    _, ask = compose_model_call(
        [Candidate(name, f"m-{name}", name, act) for name, act in acts.items()],
        RetryOptions(max_retries=2, max_breaker_wait=10.0),
        chosen,
        shared=shared,
    )
    others = asyncio.all_tasks()
    tasks = []
    for number in range(80):
        request = ModelRequest(model="m-a", messages=[user("hi")], instructions=str(number % 30))
        deadline = bench.clock.monotonic() + rng.choice([3.0, 60.0, 1e6])
        tasks.append(asyncio.ensure_future(ask(bench.call(request, deadline=deadline))))
        await asyncio.sleep(0)  # a task that is cancelled before it begins is no call
        if rng.random() < 0.4:
            await bench.clock.sleep(rng.random())
        if rng.random() < 0.2:
            rng.choice(tasks).cancel()
    results = [await ended(task) for task in tasks]

    assert asyncio.all_tasks() - others == set()
    assert results.count("done") > 20
    for name, endpoint in endpoints.items():
        throttle = next(
            state
            for key, state in shared._states.items()
            if isinstance(state, RateLimiter) and state.target == name
        )
        load = throttle.load()
        assert load == LimiterLoad(name, running=0, waiting=0, limit=load.limit)
        assert (endpoint.inside, endpoint.most <= 6) == (0, True)
    assert all(circuit.snapshot().probes == 0 for circuit in shared.all_breakers())
    assert store._flights == {}
    assert chosen.metrics is not None
    assert chosen.metrics.snapshot("model").total_calls == 80
