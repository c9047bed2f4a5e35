"""What the cases about hooks measure: a model that answers from memory, and twenty built-ins.

Idle built-ins watch and have nothing to do; working ones do something at each iteration. Among both
are some that only set how tools are retried, timed and answered for, and have no hooks: four of the
idle, five of the working ones. This module must never be imported where the floor's memory is
measured: it imports the whole package.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence

from benchmarks.replies import ANSWER
from holdfast import (
    Agent,
    ContinuationPermission,
    FinishReason,
    Limits,
    Reply,
    Text,
    ToolCall,
    ToolPermission,
    Usage,
    tool,
)
from holdfast.middleware import (
    AnyMiddleware,
    Guidance,
    HistoryReduction,
    IterationLogging,
    PIIProtection,
    RepetitionGuard,
    Rule,
    TotalErrorThreshold,
    UsageLimits,
    error_handling_middlewares,
)
from holdfast.models import ModelRequest, Prices
from holdfast.resilience import CallContext, Done, Outcome

ITERATIONS = 50


class FromMemory:
    """Asks for a tool until it was asked `ITERATIONS` times, and then answers."""

    name = "memory:model"
    model = "model"
    account = "memory"

    def __init__(self) -> None:
        usage = Usage(100, 10)
        replies = [
            Reply(
                (ToolCall(f"c{day}", "weather", f'{{"city": "Porto", "days": {day}}}'),),
                finish=FinishReason.TOOL_CALLS,
                usage=usage,
            )
            for day in range(ITERATIONS - 1)
        ]
        self._replies = [Done(one) for one in (*replies, Reply((Text(ANSWER),), usage=usage))]

    def describe(self) -> Mapping[str, object]:
        """Its name."""
        return {"model": self.name}

    async def attempt(self, call: CallContext[ModelRequest]) -> Outcome[Reply]:
        """The reply for as many results as there are; a reply and its results are two messages."""
        await asyncio.sleep(0)
        return self._replies[len(call.payload.messages) // 2]


@tool(effect="read")
async def weather(city: str, days: int) -> str:
    """Weather in a city."""
    return f"{city}: fair, write to weather@example.org, day {days}"


def agent(middlewares: Sequence[AnyMiddleware], tool_timeout: float | None = 30.0) -> Agent[str]:
    """An agent of `ITERATIONS` iterations in a turn; a tool has a timeout, whoever sets it."""
    return Agent(
        FromMemory(),
        instructions="Be brief.",
        tools=[weather],
        limits=Limits(iterations=ITERATIONS + 5),
        tool_timeout=tool_timeout,
        middleware=middlewares,
        prices=Prices({"*": {"input": "0.001", "output": "0.001"}}) if middlewares else None,
    )


def nobody() -> list[AnyMiddleware]:
    """The floor: no middleware."""
    return []


def idle() -> list[AnyMiddleware]:
    """Twenty built-ins for which nothing happens."""
    return [
        PIIProtection(),
        *error_handling_middlewares(),
        ContinuationPermission(),
        HistoryReduction(4 * ITERATIONS),
        HistoryReduction(8 * ITERATIONS),
        IterationLogging(_log("silent", logging.WARNING)),
        IterationLogging(_log("silent", logging.WARNING)),
        ToolPermission(ask=["pay*"], default="allow").only(tools=["pay"]),
        ToolPermission(ask=["send*"], default="allow").only(tools=["send"]),
        TotalErrorThreshold(20),
        TotalErrorThreshold(30),
        UsageLimits(tokens=10**9),
        UsageLimits(tokens=10**9, per="session"),
        UsageLimits(model_calls=10**6),
        *error_handling_middlewares()[3:4],
    ]


def working() -> list[AnyMiddleware]:
    """Twenty built-ins, of which all that have hooks do something at each iteration."""
    return [
        PIIProtection(on_output=True, on_tool_results=True),
        *error_handling_middlewares(),
        RepetitionGuard(8, hint_at=2, withdraw_at=4, ask_at=6),
        Guidance(),
        Guidance(None),
        HistoryReduction(ITERATIONS),
        IterationLogging(_log("kept", logging.INFO)),
        ToolPermission(allow=["read_*", Rule("weather", {"city": "Porto"})]),
        ToolPermission(deny=["drop_*"], ask=["pay*"], allow=["weather"]),
        UsageLimits(cost="10"),
        UsageLimits(tokens=10**9, model_calls=10**6, per="session"),
        *error_handling_middlewares()[1:5],
    ]


def _log(name: str, level: int) -> logging.Logger:
    log = logging.getLogger(f"benchmark.{name}")
    log.setLevel(level)
    log.propagate = False
    log.handlers = [logging.NullHandler()]
    return log
