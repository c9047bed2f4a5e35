"""How strategies compose, and what becomes of one of somebody's own that breaks the rules."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from tests.resilience.operations import OK, Bench, C, Script, fail, never

from holdfast.core.errors import ConfigurationError
from holdfast.resilience.breaker.options import BreakerOptions
from holdfast.resilience.breaker.strategy import BreakerStrategy, CircuitBreaker
from holdfast.resilience.limiter.strategy import LimiterStrategy, RateLimiter
from holdfast.resilience.pipeline import (
    ORDER,
    CallContext,
    Failed,
    Operation,
    P,
    Pipeline,
    Strategy,
    T,
)
from holdfast.resilience.retry.strategy import Retry
from holdfast.resilience.timeout.strategy import Deadline


class Named:
    """A strategy that does nothing but stand somewhere."""

    def __init__(self, name: str) -> None:
        self.name = name

    def describe(self) -> Mapping[str, object]:
        return {}

    def wrap(self, operation: Operation[P, T]) -> Operation[P, T]:
        return operation


def named(*names: str) -> tuple[Strategy, ...]:
    return tuple(Named(name) for name in names)


def test_the_order_of_the_design_is_accepted() -> None:
    assert [name for name, _ in Pipeline(named(*ORDER)).describe()] == list(ORDER)


def test_flaw_a_formatter_inside_retry_cannot_be_built() -> None:
    with pytest.raises(ConfigurationError, match="'format' must not stand inside 'retry'"):
        Pipeline(named("retry", "format"))


def test_flaw_two_layers_of_retry_cannot_be_built() -> None:
    with pytest.raises(ConfigurationError, match="'retry' must not stand inside 'breaker'"):
        Pipeline((Retry(), BreakerStrategy(CircuitBreaker("x")), Retry()))


def test_of_sorts_and_leaves_out_what_is_off() -> None:
    pipeline = Pipeline.of(None, BreakerStrategy(CircuitBreaker("x")), None, Retry())
    assert [strategy.name for strategy in pipeline.strategies] == ["retry", "breaker"]


def test_a_strategy_of_ones_own_stays_inside_the_one_before_it() -> None:
    pipeline = Pipeline.of(*named("mine", "breaker", "inner", "retry", "audit"))
    assert [s.name for s in pipeline.strategies] == ["mine", "retry", "audit", "breaker", "inner"]


async def test_an_empty_pipeline_is_the_act_itself() -> None:
    act = Script(OK)
    assert Pipeline().wrap_operation(act) is act


async def test_the_first_strategy_is_outermost() -> None:
    act, circuit = Script(fail()), CircuitBreaker("x")
    bench = Bench()
    await Pipeline((Retry(), BreakerStrategy(circuit))).wrap_operation(act)(bench.call())
    assert circuit.snapshot().failures == 4


class Own:
    """A strategy of one's own, which does what it is told."""

    name = "own"

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def describe(self) -> dict[str, object]:
        return {}

    def wrap(self, operation: Operation[Any, Any]) -> Operation[Any, Any]:
        async def with_own(call: CallContext[Any]) -> Any:
            await operation(call)
            return self.answer() if callable(self.answer) else self.answer

        return with_own


@pytest.mark.parametrize("nonsense", [None, "ok", 3, [OK]])
async def test_an_answer_of_ones_own_that_is_no_outcome_is_named(nonsense: Any) -> None:
    act = Pipeline.of(Retry(), Own(nonsense)).wrap_operation(Script(OK))
    with pytest.raises(
        ConfigurationError, match=r"pipeline\.own: gave .*, which is not an outcome"
    ):
        await act(Bench().call())


async def test_a_strategy_of_ones_own_that_raises_leaves_nothing_behind() -> None:
    def fault() -> None:
        raise KeyError("fault")

    circuit, throttle = CircuitBreaker("x", BreakerOptions(probes=1)), RateLimiter("x")
    pipeline = Pipeline.of(Retry(), BreakerStrategy(circuit), LimiterStrategy(throttle), Own(fault))
    act = Script(OK)
    with pytest.raises(KeyError):
        await pipeline.wrap_operation(act)(Bench().call())
    assert len(act.calls) == 1
    assert (throttle.load().running, circuit.snapshot().failures) == (0, 0)


async def test_a_strategy_of_ones_own_that_never_answers_is_ended_by_the_deadline() -> None:
    class Blocks(Own):
        def wrap(self, operation: Operation[Any, Any]) -> Operation[Any, Any]:
            return never

    pipeline = Pipeline.of(Deadline(0.01), Retry(), Blocks(None))
    outcome = await pipeline.wrap_operation(Script(OK))(Bench().call())
    assert isinstance(outcome, Failed)
    assert outcome.info.category is C.TIMEOUT


@pytest.mark.parametrize("wrong", ["retry", 3, object(), lambda act: act, Retry])
def test_what_is_no_strategy_is_named(wrong: Any) -> None:
    for make in (lambda: Pipeline.of(wrong), lambda: Pipeline((wrong,))):
        with pytest.raises(
            ConfigurationError,
            match=r"pipeline\.strategies\[0\]: must be an object with name, describe, wrap",
        ):
            make()
