"""What type checkers must see of notices of one's own, and of what hooks and tools share. Never run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_type

from holdfast import Agent, Middleware, ToolContext, tool
from holdfast.events import CustomNotice, FromAgent, Observation
from holdfast.middleware import AfterTool, BeforeIteration, RunFacts


class Progress(CustomNotice, frozen=True):
    percent: int
    note: str = ""


@dataclass
class Timer:
    begun: float = 0.0


class Times(Middleware):
    def enabled(self, hook: str, facts: RunFacts) -> bool:
        return assert_type(facts.shared(Timer), Timer).begun >= 0

    async def before_iteration(self, context: BeforeIteration) -> None:
        context.shared(Timer).begun = context.clock()
        context.emit(Progress(0, "begins"))

    async def after_tool(self, context: AfterTool) -> None:
        assert_type(context.shared(Timer).begun, float)
        context.emit("half")  # type: ignore[arg-type]
        context.emit(Timer())  # type: ignore[arg-type]
        context.shared(Timer())  # type: ignore[arg-type]


@tool(effect="read")
def work(context: ToolContext) -> str:
    context.emit(Progress(50))
    context.emit(Progress(percent=50, note="half"))
    context.emit(Progress("50"))  # type: ignore[arg-type]
    context.emit(50)  # type: ignore[arg-type]
    context.shared(Timer).begun = "now"  # type: ignore[assignment]
    return assert_type(context.shared(Timer), Timer).__class__.__name__


def observe(seen: Observation) -> None:
    if isinstance(seen.item, Progress):
        assert_type(seen.item.percent, int)


async def read(agent: Agent) -> None:
    async with agent.stream("Hi") as run:
        async for item in run:
            if isinstance(item, Progress):
                assert_type(item, Progress)
                assert_type(item.key, str)
                item.percent = 5  # type: ignore[misc]
            elif isinstance(item, FromAgent) and isinstance(item.item, Progress):
                assert_type(item.item.percent, int)


Agent("ollama:qwen3", tools=[work], middleware=[Times()], observers=[observe])
