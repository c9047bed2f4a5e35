"""The hooks around one attempt of a tool, inside of the retries.

What a hook raises counts as what the tool raised, so that the retry strategy judges it. The hooks run
the call that was approved, and must never change it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from msgspec import Struct

from holdfast.core.errors import HoldfastBug, MiddlewareError
from holdfast.core.messages import ToolResult
from holdfast.middleware.chain import Hook
from holdfast.middleware.hook_calls import is_enabled
from holdfast.middleware.hook_contexts import ToolUse
from holdfast.tools.checked_call import Invocation, call_failed

RunOnce: TypeAlias = Callable[[], Awaitable[Invocation]]
"""Runs one attempt of the tool."""


class AttemptHooks(Struct, frozen=True):
    """The hooks around each attempt of one call, and the context of the first attempt."""

    hooks: tuple[Hook, ...]
    context: ToolUse


async def run_attempt(around: AttemptHooks, context: ToolUse, run_once: RunOnce) -> Invocation:
    """Run one attempt with the hooks around it, the first one outermost.

    Args:
        around: the hooks.
        context: the context of this attempt.
        run_once: runs the tool.
    """
    done: list[Invocation] = []

    async def run_tool() -> ToolResult:
        invocation = await run_once()
        done.append(invocation)
        if invocation.result is not None:
            return invocation.result
        raise invocation.error or HoldfastBug("an attempt ended with neither a result nor an error")

    call_next: Callable[[], Awaitable[ToolResult]] = run_tool
    for hook in reversed(around.hooks):
        call_next = _wrap_attempt(hook, context, call_next)
    try:
        result = await call_next()
    except Exception as error:  # noqa: BLE001  # REASON: hooks are the user's code
        known = (one for one in done if one.error is error and one.result is None)
        return next(known, None) or call_failed(context.call, error)
    return next((one for one in done if one.result is result), None) or Invocation(result)


def _wrap_attempt(
    hook: Hook, context: ToolUse, call_next: Callable[[], Awaitable[ToolResult]]
) -> Callable[[], Awaitable[ToolResult]]:
    async def wrapped() -> ToolResult:
        if not is_enabled(hook, context.facts):
            return await call_next()
        answer: object = await hook.function(context, call_next)
        if not isinstance(answer, ToolResult):
            problem = f"returned {type(answer).__name__}; it must return ToolResult"
            raise MiddlewareError(hook.owner, hook.name, problem)
        return answer

    return wrapped
