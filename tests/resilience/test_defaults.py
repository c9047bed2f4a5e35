from __future__ import annotations

from typing import Any

import pytest
from tests.resilience.acts import OK, Bench, Script, fail

from holdfast.core.errors import ConfigurationError
from holdfast.core.messages import user
from holdfast.core.request import ModelRequest
from holdfast.resilience.breaker import BreakerOptions
from holdfast.resilience.budget import BudgetOptions
from holdfast.resilience.cache import CacheOptions
from holdfast.resilience.defaults import (
    Candidate,
    Resilience,
    ask_models,
    outer_pipeline,
    target_pipeline,
    tool_pipeline,
)
from holdfast.resilience.fallback import Fallback, Target
from holdfast.resilience.handling import ErrorHandling
from holdfast.resilience.hedge import HedgeOptions
from holdfast.resilience.limiter import LimiterOptions
from holdfast.resilience.metrics import CallMetrics
from holdfast.resilience.pipeline import Done, Pipeline
from holdfast.resilience.shared import Shared
from holdfast.resilience.throttle import Load


def names(pipeline: Pipeline) -> list[str]:
    return [name for name, _ in pipeline.describe()]


def inner(resilience: Resilience, **known: Any) -> Pipeline:
    return target_pipeline("openai:x", ErrorHandling(), resilience, shared=Shared(), **known)


def test_by_default_a_model_call_has_these_strategies_in_this_order() -> None:
    assert names(inner(Resilience())) == ["retry", "breaker", "limiter"]
    assert names(outer_pipeline("acme", Resilience())) == []
    assert names(tool_pipeline(ErrorHandling())) == ["retry"]


def test_everything_on_is_the_order_of_the_design() -> None:
    everything = Resilience(
        attempt_timeout=30.0,
        deadline=60.0,
        hedge=HedgeOptions(),
        cache=CacheOptions(),
        metrics=CallMetrics(),
    )
    fallback = Fallback("a", (Target("b", Script(OK)),))
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
    shared = Shared()
    assert shared.budget("a", BudgetOptions()) is shared.budget("a", BudgetOptions())
    assert shared.throttle("a", LimiterOptions()) is shared.throttle("a", LimiterOptions())
    assert shared.latencies("a", HedgeOptions()) is shared.latencies("a", HedgeOptions())
    assert shared.circuit("a", BreakerOptions()) is not shared.circuit("b", BreakerOptions())
    assert shared.budget("a", BudgetOptions(), "x") is not shared.budget("a", BudgetOptions(), "y")
    other = BreakerOptions(failures=9)
    assert shared.circuit("a", other) is not shared.circuit("a", BreakerOptions())
    assert {circuit.target for circuit in shared.circuits()} == {"a", "b"}


def test_the_endpoints_that_are_remembered_are_bounded() -> None:
    shared = Shared(most=3)
    first = shared.circuit("0", BreakerOptions())
    for number in range(1, 4):
        shared.circuit(str(number), BreakerOptions())
    assert len(shared.circuits()) == 3
    assert shared.circuit("0", BreakerOptions()) is not first


REQUEST = ModelRequest(model="model-a", messages=[user("hi")])


def candidates(**acts: Script) -> list[Candidate]:
    return [Candidate(name, f"model-{name}", f"acme/{name}", act) for name, act in acts.items()]


async def test_with_another_model_to_ask_nobody_waits_for_an_open_breaker() -> None:
    bench, failing, well = Bench(), Script(fail()), Script(OK)
    resilience = Resilience(breaker=BreakerOptions(mode="consecutive", failures=1))
    _, ask = ask_models(candidates(a=failing, b=well), ErrorHandling(), resilience, shared=Shared())
    outcome = await ask(bench.call(REQUEST))
    assert isinstance(outcome, Done)
    assert (outcome.attempts, len(failing.calls), bench.clock.sleeps) == (2, 1, [1.0])
    assert (await ask(bench.call(REQUEST))).attempts == 1
    assert len(failing.calls) == 1
    assert {call.payload.model for call in well.calls} == {"model-b"}


def test_what_is_described_is_what_runs() -> None:
    pipeline, _ = ask_models(
        candidates(a=Script(OK), b=Script(OK)),
        ErrorHandling(),
        Resilience(cache=CacheOptions()),
        shared=Shared(),
    )
    assert names(pipeline) == ["cache", "fallback", "retry", "breaker", "limiter"]
    assert dict(pipeline.describe())["fallback"]["targets"] == ["a", "b"]


async def test_one_model_needs_no_fallback() -> None:
    pipeline, ask = ask_models(
        candidates(a=Script(OK)), ErrorHandling(), Resilience(), shared=Shared()
    )
    assert "fallback" not in names(pipeline)
    assert await ask(Bench().call(REQUEST)) == OK


def test_no_model_is_an_error() -> None:
    with pytest.raises(ConfigurationError, match="model: is not given"):
        ask_models([], ErrorHandling(), Resilience())


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
    shared = Shared()
    circuit = shared.circuit("a", BreakerOptions())
    throttle = shared.throttle("b", LimiterOptions(concurrency=3))
    shared.budget("c", BudgetOptions())
    assert (shared.circuits(), shared.throttles()) == ((circuit,), (throttle,))
    assert shared.throttles()[0].load() == Load("b", running=0, waiting=0, limit=3)
