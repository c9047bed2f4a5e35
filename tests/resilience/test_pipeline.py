from __future__ import annotations

from collections.abc import Mapping

import pytest
from tests.resilience.acts import OK, Bench, Script, fail

from holdfast.core.errors import ConfigurationError
from holdfast.resilience.circuit import Breaker, Circuit
from holdfast.resilience.pipeline import ORDER, Act, P, Pipeline, Strategy, T
from holdfast.resilience.retry import Retry


class Named:
    """A strategy that does nothing but stand somewhere."""

    def __init__(self, name: str) -> None:
        self.name = name

    def describe(self) -> Mapping[str, object]:
        return {}

    def wrap(self, act: Act[P, T]) -> Act[P, T]:
        return act


def named(*names: str) -> tuple[Strategy, ...]:
    return tuple(Named(name) for name in names)


def test_the_order_of_the_design_is_accepted() -> None:
    assert [name for name, _ in Pipeline(named(*ORDER)).describe()] == list(ORDER)


def test_flaw_a_formatter_inside_retry_cannot_be_built() -> None:
    with pytest.raises(ConfigurationError, match="'format' must not stand inside 'retry'"):
        Pipeline(named("retry", "format"))


def test_flaw_two_layers_of_retry_cannot_be_built() -> None:
    with pytest.raises(ConfigurationError, match="'retry' must not stand inside 'breaker'"):
        Pipeline((Retry(), Breaker(Circuit("x")), Retry()))


def test_of_sorts_and_leaves_out_what_is_off() -> None:
    pipeline = Pipeline.of(None, Breaker(Circuit("x")), None, Retry())
    assert [strategy.name for strategy in pipeline.strategies] == ["retry", "breaker"]


def test_a_strategy_of_ones_own_stays_inside_the_one_before_it() -> None:
    pipeline = Pipeline.of(*named("mine", "breaker", "inner", "retry", "audit"))
    assert [s.name for s in pipeline.strategies] == ["mine", "retry", "audit", "breaker", "inner"]


async def test_an_empty_pipeline_is_the_act_itself() -> None:
    act = Script(OK)
    assert Pipeline().around(act) is act


async def test_the_first_strategy_is_outermost() -> None:
    act, circuit = Script(fail()), Circuit("x")
    bench = Bench()
    await Pipeline((Retry(), Breaker(circuit))).around(act)(bench.call())
    assert circuit.snapshot().unwell == 4
