"""What hooks cost: one hook beyond its own work, and twenty built-ins around an iteration.

The floor is the same agent without them, and the model answers from memory: nothing but hooks and
folds differs. The tool is called with other arguments each time, as repetition ends a turn.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from benchmarks.case import Budget, Case, Seen, Side, Turn, each
from benchmarks.replies import ANSWER

if TYPE_CHECKING:
    from holdfast.middleware import BeforeTool
    from holdfast.middleware.chain import Hook

ITERATIONS = 50
CALLS = 1000


def _agent(made: str, tool_timeout: float | None = 30.0) -> Side:
    @asynccontextmanager
    async def side(_url: str) -> AsyncIterator[Turn]:
        from benchmarks import built_ins  # noqa: PLC0415 - not in the floor's process

        agent = built_ins.agent(getattr(built_ins, made)(), tool_timeout)

        async def turn(_: str) -> Seen:
            result = await agent.run("What will the weather be?")
            return Seen(result.text, result.usage.input, result.usage.output)

        yield turn

    return side


@asynccontextmanager
async def _bare(_url: str) -> AsyncIterator[Turn]:
    hook, moment = _hook()

    async def turn(_: str) -> Seen:
        for _number in range(CALLS):
            await hook.function(moment)
        return Seen(ANSWER, 0, 0)

    yield turn


@asynccontextmanager
async def _called(_url: str) -> AsyncIterator[Turn]:
    from holdfast.middleware.hook_calls import call_hook  # noqa: PLC0415 - not in the floor's process

    hook, moment = _hook()

    async def turn(_: str) -> Seen:
        for _number in range(CALLS):
            await call_hook(hook, moment)
        return Seen(ANSWER, 0, 0)

    yield turn


def _hook() -> tuple[Hook, BeforeTool]:
    from holdfast import Middleware  # noqa: PLC0415
    from holdfast.core.messages import ToolCall  # noqa: PLC0415 - not in the floor's process
    from holdfast.middleware import BeforeTool  # noqa: PLC0415
    from holdfast.middleware.chain import compile_chain  # noqa: PLC0415

    class Nothing(Middleware):
        async def before_tool(self, context: BeforeTool) -> None:
            del context

    chain = compile_chain([Nothing()])
    facts: Any = None
    return chain.before_tool[0], BeforeTool(facts, "t1.i0.tool.0", 0, 0, ToolCall("1", "f"))


def _case(
    name: str, sides: tuple[Side, Side], what: str, per: int, limit: float | None = None
) -> Case:
    return Case(
        name=name,
        floor=sides[0],
        ours=sides[1],
        scenario="memory",
        sample=each("memory", times=10, per=per),
        budgets=(
            Budget(
                metric="cpu", what=what, compare="difference", scale=1e-6, shown="us", limit=limit
            ),
        ),
    )


_NOBODY = _agent("nobody")

ONE = _case("hook", (_bare, _called), "one hook beyond its own work", CALLS, 2.0)
IDLE = _case(
    "idle-hooks",
    (_NOBODY, _agent("idle")),
    "twenty idle built-ins, per iteration",
    ITERATIONS,
    40.0,
)
WORKING = _case(
    "working-hooks",
    (_NOBODY, _agent("working")),
    "twenty working built-ins, per iteration",
    ITERATIONS,
)

# Only counted: an iteration without the wire and without hooks.
_PLAIN = _agent("nobody", None)
IN_PROCESS = _case("in-process", (_PLAIN, _PLAIN), "an iteration of a model in memory", ITERATIONS)
