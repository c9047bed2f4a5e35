"""One attempt of one tool with the hooks around it: the innermost operation of the pipeline of tools.

It must never format an error for the model, or let a hook change the call that was approved. An
exception, of the tool or of a hook, stays an object until the pipeline ends, so that the retry
strategy can inspect it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeAlias

import msgspec
from msgspec import Struct

from holdfast.calls.sdk_errors import classify
from holdfast.core.effects import RunTool
from holdfast.core.errors import (
    ConflictError,
    ErrorCategory,
    ErrorInfo,
    HoldfastBug,
    Landed,
    MiddlewareError,
)
from holdfast.core.messages import ToolResult
from holdfast.core.notices import Notice
from holdfast.journal.journal_errors import JournalError
from holdfast.middleware.chain import Hook
from holdfast.middleware.hook_calls import is_enabled
from holdfast.middleware.hook_contexts import ToolUse
from holdfast.resilience.pipeline import (
    CallContext,
    Done,
    ExecutionContext,
    Failed,
    Operation,
    Outcome,
)
from holdfast.resilience.timeout.pausable_timeout import PausableTimeout
from holdfast.runtime.spending import UsageMeter
from holdfast.telemetry.observers import ObservedTool, RunScopes, wait_for_nobody
from holdfast.tools.checked_call import CheckedCall, Invocation, call_failed
from holdfast.tools.connection_failures import find_connection_failure
from holdfast.tools.context import EventSink, ToolContext
from holdfast.tools.invoke import invoke_checked
from holdfast.tools.tool import ToolEffect

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


class ToolAttempt(Struct, frozen=True):
    """The input of one attempt of a tool; `context` is the context of the first attempt.

    `checked` is the call as hooks and people saw it, or the reason why it cannot run. `around` has
    the hooks around each attempt. `turn_timeout` is the limit of the turn.
    """

    effect: RunTool
    context: ToolContext
    meter: UsageMeter
    checked: CheckedCall | Invocation
    around: AttemptHooks | None = None
    turn_timeout: PausableTimeout | None = None


def make_tool_operation(
    timeout: float | None, *, repeat_in_doubt: bool
) -> Operation[ToolAttempt, ToolResult]:
    """Make the operation that runs the tool of a checked call.

    Args:
        timeout: seconds for one attempt of a tool without a timeout; None for a share of its turn.
        repeat_in_doubt: whether a tool without a declared effect may be repeated when it is not
            known whether it acted.
    """

    async def attempt(call: CallContext[ToolAttempt]) -> Outcome[ToolResult]:
        scopes = call.execution.scopes
        if not isinstance(scopes, RunScopes) or isinstance(call.payload.checked, Invocation):
            return await run_tool(call)
        seen = _describe_attempt(scopes.run_id, call, call.payload.checked)
        with scopes.enter(seen):
            outcome = await run_tool(call)
            if isinstance(outcome, Failed):
                seen.failure = outcome
            return outcome

    async def run_tool(call: CallContext[ToolAttempt]) -> Outcome[ToolResult]:
        effect, context = call.payload.effect, call.payload.context
        if call.attempt > 1:
            left = call.remaining()
            context = msgspec.structs.replace(context, attempt=call.attempt, remaining=left)
        checked, around = call.payload.checked, call.payload.around
        if isinstance(checked, Invocation):
            done = checked
        elif around is None:
            done = await invoke_checked(
                checked, context, timeout=timeout, turn_timeout=call.payload.turn_timeout
            )
        else:
            seen = msgspec.structs.replace(around.context, attempt=call.attempt)
            turn_timeout = call.payload.turn_timeout
            run_once = partial(
                invoke_checked, checked, context, timeout=timeout, turn_timeout=turn_timeout
            )
            done = await run_attempt(around, seen, run_once)
        call.payload.meter.refusal = done.info
        if done.result is not None:
            call.payload.meter.last = done
            return Done(done.result)
        call.payload.meter.left_running = done.left_running
        if done.error is None or done.info is None:
            raise HoldfastBug(f"the call {effect.key} ended with neither a result nor an error")
        # A call that cannot run has done nothing.
        declared = checked.tool.effect if isinstance(checked, CheckedCall) else "read"
        may_repeat = _may_repeat(declared, done.error, done.info, repeat_in_doubt)
        return Failed(done.error, done.info, may_repeat=may_repeat, out_of_time=done.out_of_time)

    return attempt


def _describe_attempt(
    run_id: str, call: CallContext[ToolAttempt], checked: CheckedCall
) -> ObservedTool:
    """Return an attempt as observers see it."""
    return ObservedTool(
        run_id=run_id,
        key=call.key,
        name=call.tool,
        call_id=checked.call.id,
        arguments=checked.visible_call.arguments,
        attempt=call.attempt,
    )


def _may_repeat(
    declared: ToolEffect | None, error: Exception, info: ErrorInfo, repeat_in_doubt: bool
) -> bool:
    if isinstance(error, ConflictError | JournalError):
        return False  # its question was not saved, so this process can no longer drive the run
    if declared in ("read", "idempotent") or info.landed is Landed.NO:
        return True
    if declared == "write":
        return False
    return repeat_in_doubt or not _is_in_doubt(error, info)


def _is_in_doubt(error: Exception, info: ErrorInfo) -> bool:
    """Whether the failure leaves open if the tool acted: a timeout, or a connection that was lost.

    Other exceptions of a tool say where its code stopped; these two come from the other side.
    """
    failure = find_connection_failure(error)
    if failure is not None:
        return failure.is_in_doubt
    # Only the response of a server is left, such as 504.
    known = (info, classify(error))
    if any(one.landed is Landed.NO for one in known):
        return False
    return any(
        one.category is ErrorCategory.TIMEOUT
        or (one.category is ErrorCategory.TRANSIENT and one.status is None)
        for one in known
    )


def make_event_sink(env: ExecutionContext, emit: Callable[[Notice], None]) -> EventSink | None:
    """Make the sink for the notices of a tool; None when there is no reader.

    Args:
        env: the context that the operations of the run share.
        emit: publishes the notices of hooks and tools.
    """
    publish, ready = env.publish, env.ready
    if publish is None or ready is None:
        return None
    live = ready is not wait_for_nobody
    return EventSink(publish, emit, ready, env.has_live_reader, live=live)
