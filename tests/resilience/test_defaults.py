from __future__ import annotations

from typing import Any

import pytest
from tests.resilience.operations import OK, Bench, Script, fail

from holdfast.core.errors import ConfigurationError
from holdfast.core.messages import user
from holdfast.core.model_request import ModelRequest
from holdfast.resilience.breaker.options import BreakerOptions
from holdfast.resilience.budget.options import BudgetOptions
from holdfast.resilience.cache.options import CacheOptions
from holdfast.resilience.defaults import (
    Candidate,
    Resilience,
    compose_model_call,
    outer_pipeline,
    target_pipeline,
    tool_pipeline,
)
from holdfast.resilience.endpoint_states import EndpointStates
from holdfast.resilience.fallback.options import FallbackTarget
from holdfast.resilience.fallback.strategy import Fallback
from holdfast.resilience.hedge.options import HedgeOptions
from holdfast.resilience.limiter.options import LimiterOptions
from holdfast.resilience.limiter.strategy import LimiterLoad
from holdfast.resilience.metrics import CallMetrics
from holdfast.resilience.pipeline import Done, Pipeline
from holdfast.resilience.retry.options import RetryOptions


def names(pipeline: Pipeline) -> list[str]:
    return [name for name, _ in pipeline.describe()]


def inner(resilience: Resilience, **known: Any) -> Pipeline:
    return target_pipeline("openai:x", RetryOptions(), resilience, shared=EndpointStates(), **known)


def test_by_default_a_model_call_has_these_strategies_in_this_order() -> None:
    assert names(inner(Resilience())) == ["retry", "breaker", "limiter"]
    assert names(outer_pipeline("acme", Resilience())) == []
    assert names(tool_pipeline(RetryOptions())) == ["retry"]


def test_everything_on_is_the_order_of_the_design() -> None:
    everything = Resilience(
        attempt_timeout=30.0,
        deadline=60.0,
        hedge=HedgeOptions(),
        cache=CacheOptions(),
        metrics=CallMetrics(),
    )
    fallback = Fallback("a", (FallbackTarget("b", Script(OK)),))
    assert names(outer_pipeline("acme", everything, fallback=fallback)) == [
        "metrics",
        "deadline",
        "cache",
        "fallback",
    ]
    assert names(inner(everything)) == ["retry", "hedge", "breaker", "limiter", "timeout"]


def test_what_is_off_is_not_there() -> None:
    off = Resilience(budget=None, breaker=None, limiter=None)
    assert names(inner(off)) == ["retry"]


def test_agents_share_the_state_of_one_endpoint_and_of_no_other() -> None:
    shared = EndpointStates()
    assert shared.budget_for("a", BudgetOptions()) is shared.budget_for("a", BudgetOptions())
    assert shared.limiter_for("a", LimiterOptions()) is shared.limiter_for("a", LimiterOptions())
    assert shared.latencies_for("a", HedgeOptions()) is shared.latencies_for("a", HedgeOptions())
    assert shared.breaker_for("a", BreakerOptions()) is not shared.breaker_for(
        "b", BreakerOptions()
    )
    assert shared.budget_for("a", BudgetOptions(), "x") is not shared.budget_for(
        "a", BudgetOptions(), "y"
    )
    other = BreakerOptions(failures=9)
    assert shared.breaker_for("a", other) is not shared.breaker_for("a", BreakerOptions())
    assert {circuit.target for circuit in shared.all_breakers()} == {"a", "b"}


def test_the_endpoints_that_are_remembered_are_bounded() -> None:
    shared = EndpointStates(max_states=3)
    first = shared.breaker_for("0", BreakerOptions())
    for number in range(1, 4):
        shared.breaker_for(str(number), BreakerOptions())
    assert len(shared.all_breakers()) == 3
    assert shared.breaker_for("0", BreakerOptions()) is not first


REQUEST = ModelRequest(model="model-a", messages=[user("hi")])


def candidates(**acts: Script) -> list[Candidate]:
    return [Candidate(name, f"model-{name}", f"acme/{name}", act) for name, act in acts.items()]


async def test_with_another_model_to_ask_nobody_waits_for_an_open_breaker() -> None:
    bench, failing, well = Bench(), Script(fail()), Script(OK)
    resilience = Resilience(breaker=BreakerOptions(mode="consecutive", failures=1))
    _, ask = compose_model_call(
        candidates(a=failing, b=well), RetryOptions(), resilience, shared=EndpointStates()
    )
    outcome = await ask(bench.call(REQUEST))
    assert isinstance(outcome, Done)
    assert (outcome.attempts, len(failing.calls), bench.clock.sleeps) == (2, 1, [1.0])
    assert (await ask(bench.call(REQUEST))).attempts == 1
    assert len(failing.calls) == 1
    assert {call.payload.model for call in well.calls} == {"model-b"}


def test_what_is_described_is_what_runs() -> None:
    pipeline, _ = compose_model_call(
        candidates(a=Script(OK), b=Script(OK)),
        RetryOptions(),
        Resilience(cache=CacheOptions()),
        shared=EndpointStates(),
    )
    assert names(pipeline) == ["cache", "fallback", "retry", "breaker", "limiter"]
    assert dict(pipeline.describe())["fallback"]["targets"] == ["a", "b"]


async def test_one_model_needs_no_fallback() -> None:
    pipeline, ask = compose_model_call(
        candidates(a=Script(OK)), RetryOptions(), Resilience(), shared=EndpointStates()
    )
    assert "fallback" not in names(pipeline)
    assert await ask(Bench().call(REQUEST)) == OK


def test_no_model_is_an_error() -> None:
    with pytest.raises(ConfigurationError, match="model: is not given"):
        compose_model_call([], RetryOptions(), Resilience())


@pytest.mark.parametrize(
    "bad",
    [
        {"budget": 0.2},
        {"breaker": True},
        {"limiter": 10},
        {"attempt_timeout": 0},
        {"deadline": "60"},
        {"hedge": True},
        {"cache": 100},
        {"metrics": True},
    ],
    ids=str,
)
def test_a_bad_setting_is_named(bad: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=f"resilience.{next(iter(bad))}"):
        Resilience(**bad)


def test_what_is_shared_can_be_looked_at() -> None:
    shared = EndpointStates()
    circuit = shared.breaker_for("a", BreakerOptions())
    throttle = shared.limiter_for("b", LimiterOptions(concurrency=3))
    shared.budget_for("c", BudgetOptions())
    assert (shared.all_breakers(), shared.all_limiters()) == ((circuit,), (throttle,))
    assert shared.all_limiters()[0].load() == LimiterLoad("b", running=0, waiting=0, limit=3)


def test_what_nobody_chose_is_off() -> None:
    chosen = Resilience()
    assert not chosen.continue_streams
    assert chosen.attempt_timeout is chosen.deadline is None
    assert chosen.hedge is chosen.cache is chosen.metrics is None
