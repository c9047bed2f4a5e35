"""One attempt of one tool: the innermost act of the tools' pipeline.

It must never format an error for the model: an exception stays an object until the pipeline is
through with it, so that retry can see it.
"""

from __future__ import annotations

import msgspec
from msgspec import Struct

from holdfast.core.effects import RunTool
from holdfast.core.errors import HoldfastBug, Landed
from holdfast.core.messages import ToolResult
from holdfast.resilience.pipeline import Act, Call, Done, Failed, Outcome
from holdfast.tools.context import ToolContext
from holdfast.tools.invoke import invoke
from holdfast.tools.registry import Registry


class ToolAttempt(Struct, frozen=True):
    """What one attempt of a tool needs; the context's attempt number is set for each attempt."""

    effect: RunTool
    context: ToolContext


def tool_act(registry: Registry, timeout: float | None) -> Act[ToolAttempt, ToolResult]:
    """The act that runs a tool of `registry`.

    Args:
        registry: the agent's tools.
        timeout: seconds for one attempt of a tool that names none; None waits.
    """

    async def attempt(call: Call[ToolAttempt]) -> Outcome[ToolResult]:
        effect, context = call.payload.effect, call.payload.context
        if call.attempt != context.attempt:
            context = msgspec.structs.replace(context, attempt=call.attempt)
        done = await invoke(
            registry, effect.call, context, unfinished=effect.unfinished, timeout=timeout
        )
        if done.result is not None:
            return Done(done.result)
        if done.error is None or done.info is None:
            raise HoldfastBug(f"the call {effect.key} ended with neither a result nor an error")
        tool = registry.get(effect.call.name)
        writes = tool is not None and tool.effect == "write"
        return Failed(done.error, done.info, may_repeat=not writes or done.info.landed is Landed.NO)

    return attempt
