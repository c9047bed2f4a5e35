"""Scripted acts and calls: what the tests of the strategies run through a pipeline."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec

from holdfast.core.errors import ErrorCategory, ErrorInfo, HoldfastError, Landed, exception_for
from holdfast.core.notices import Notice
from holdfast.resilience.pipeline import (
    CallContext,
    Done,
    ExecutionContext,
    Failed,
    Operation,
    Outcome,
    Strategy,
)
from holdfast.testing.fake_clock import FakeClock, FixedRng

C = ErrorCategory
Outcomes = Outcome[Any]


def info(category: ErrorCategory = C.SERVER_ERROR, **known: Any) -> ErrorInfo:
    return ErrorInfo(category=category, **({"safe": category.value} | known))


def fail(category: ErrorCategory = C.SERVER_ERROR, **known: Any) -> Failed:
    may_repeat = known.pop("may_repeat", True)
    about = info(category, **known)
    return Failed(exception_for(about), about, may_repeat=may_repeat)


def held(later: float | None) -> Failed:
    about = info(C.TRANSIENT, retry_after=later, landed=Landed.NO)
    return Failed(HoldfastError("held", info=about), about, attempts=0, sent=False)


class Script:
    """An act that gives these outcomes in turn, and the last one for ever; it keeps its calls."""

    def __init__(self, *outcomes: Outcomes | Callable[[CallContext[Any]], Any]) -> None:
        self.outcomes = list(outcomes)
        self.calls: list[CallContext[Any]] = []
        self.times: list[float] = []

    async def __call__(self, call: CallContext[Any]) -> Outcomes:
        self.calls.append(call)
        self.times.append(call.execution.clock.monotonic())
        outcome = self.outcomes.pop(0) if len(self.outcomes) > 1 else self.outcomes[0]
        if callable(outcome):
            outcome = await outcome(call)
        if isinstance(outcome, Failed):
            # A fresh exception for each attempt, as in life.
            return msgspec.structs.replace(outcome, error=exception_for(outcome.info))
        return outcome


class Bench:
    """One clock, one rng, and everything that was published."""

    def __init__(self, *rng: float, auto: bool = True) -> None:
        self.clock = FakeClock(auto=auto)
        self.notices: list[Notice] = []
        self.env = ExecutionContext(self.clock, FixedRng(*(rng or (0.5,))), self.notices.append)

    def call(self, payload: Any = None, **known: Any) -> CallContext[Any]:
        return CallContext("t1.i0.model", payload, self.env, **known)

    def seen(self, kind: type) -> list[Any]:
        return [notice for notice in self.notices if isinstance(notice, kind)]

    async def run(self, act: Operation[Any, Any], *strategies: Strategy, **known: Any) -> Outcomes:
        for strategy in reversed(strategies):
            act = strategy.wrap(act)
        return await act(self.call(**known))


async def never(_: CallContext[Any]) -> Outcomes:
    await asyncio.Event().wait()
    raise AssertionError("unreachable")


OK: Done[Any] = Done("ok")
