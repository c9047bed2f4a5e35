"""One tool with the hooks around it.

The hooks stand outside of retry and timeout, and inside of formatting: an exception stays an object
until all attempts are over, and the model never reads more of it than the formatter lets through.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple

import msgspec

from holdfast.core.batch import NOT_RUN_TEXT
from holdfast.core.effects import RunTool
from holdfast.core.errors import ErrorCategory, ErrorInfo, HoldfastError, Landed, MiddlewareError
from holdfast.core.events import ToolFinished
from holdfast.core.messages import Text, ToolResult
from holdfast.middleware.calling import acting, call_after, call_each, onion
from holdfast.middleware.chain import Hook
from holdfast.middleware.decisions import Decision, Deny, Replace, Stop
from holdfast.middleware.moments import AfterTool, OnError, ToolUse
from holdfast.resilience.pipeline import Done, Failed, Outcome, failed
from holdfast.runtime.hooked import Hooked
from holdfast.runtime.run import Run

Use = Callable[[Run, RunTool], Awaitable[Outcome[ToolResult]]]
Finish = Callable[[Run, RunTool, Outcome[ToolResult]], ToolFinished]


class _Denied(Exception):
    """The result that a call gets without being run."""

    def __init__(self, text: str, code: str) -> None:
        super().__init__(text)
        self.code = code


async def around_tool(
    run: Run, hooks: Hooked, effect: RunTool, use: Use, finish: Finish
) -> ToolFinished:
    """Call the hooks, and the tool between them unless one decides otherwise."""
    this = hooks.iteration
    mine = hooks.chain.of_tool(effect.call.name or "Unknown")
    if mine.none and not hooks.holds_tools():
        event = finish(run, effect, await use(run, effect))
        if this is not None:
            this.results[effect.index] = event.result
        return event
    await run.until_kept()
    number = this.number if this is not None else run.machine.iteration
    moment = ToolUse(hooks.facts, effect.key, number, effect.index, effect.call)
    began = hooks.facts.clock() if mine.after else 0.0
    outcome: Outcome[ToolResult] | None = None
    try:
        moment = await _before(hooks, mine.before, moment)
        if moment.result is not None:
            outcome = Done(moment.result, 0)
        elif mine.wrap:
            outcome = await _through_wraps(run, mine.wrap, effect, moment, use)
        else:
            outcome = await use(run, effect)
        event = finish(run, effect, outcome)
    except _Denied as refusal:
        event = _refused(run, effect, refusal)
    except MiddlewareError as error:
        outcome = failed(error)
        event = finish(run, effect, outcome)
    if isinstance(outcome, Failed) and hooks.chain.on_error:
        await _tell_error(hooks, moment, outcome)
    if mine.after:
        event = await _after(hooks, mine.after, moment, event, _How(began, outcome))
    if this is not None:
        this.results[effect.index] = event.result
    return event


class _How(NamedTuple):
    """How a call came to its result, for the hooks after it."""

    began: float
    outcome: Outcome[ToolResult] | None
    """None when it was denied."""


def _refused(run: Run, effect: RunTool, refusal: _Denied) -> ToolFinished:
    text = str(refusal)
    info = ErrorInfo(
        category=ErrorCategory.CLIENT_ERROR, landed=Landed.NO, safe=text, code=refusal.code
    )
    result = ToolResult(effect.call.id, effect.call.name, (Text(text),), is_error=True)
    return ToolFinished(effect.key, run.plan.clock.now(), result, info, 0)


async def _before(hooks: Hooked, mine: tuple[Hook, ...], moment: ToolUse) -> ToolUse:
    if hooks.stop is not None:
        raise _Denied(NOT_RUN_TEXT.format(name=moment.tool), "stopped")
    if hooks.iteration is not None and hooks.iteration.denied is not None:
        raise _Denied(hooks.iteration.denied, "denied")

    def take(seen: ToolUse, hook: Hook, decision: Decision) -> ToolUse:
        if isinstance(decision, Deny):
            raise _Denied(decision.reason, "denied")
        if isinstance(decision, Stop):
            hooks.ask_to_stop(hook, decision)
            raise _Denied(NOT_RUN_TEXT.format(name=seen.tool), "stopped")
        if isinstance(decision, Replace):
            return msgspec.structs.replace(seen, result=decision.for_call(seen.call))
        return seen

    return await call_each(acting(mine, moment), moment, take)


async def _through_wraps(
    run: Run, wraps: tuple[Hook, ...], effect: RunTool, moment: ToolUse, use: Use
) -> Outcome[ToolResult]:
    last: list[Outcome[ToolResult]] = []

    async def act(inner: ToolUse) -> ToolResult:
        outcome = await use(run, msgspec.structs.replace(effect, call=inner.call))
        last[:] = [outcome]
        if isinstance(outcome, Done):
            return outcome.value
        raise outcome.error

    try:
        result: ToolResult = await onion(wraps, act)(moment)
    except Exception as error:
        if last and isinstance(last[0], Failed) and last[0].error is error:
            return last[0]
        if not isinstance(error, HoldfastError):
            raise
        # The tool may have done its work before the wrap failed.
        return Failed(error, error.info, last[0].attempts if last else 0, may_repeat=not last)
    return Done(result, last[0].attempts if last else 0)


async def _after(
    hooks: Hooked, mine: tuple[Hook, ...], asked: ToolUse, event: ToolFinished, how: _How
) -> ToolFinished:
    moment = AfterTool(
        hooks.facts,
        asked.key,
        asked.iteration,
        asked.index,
        asked.call,
        event.result,
        how.outcome.error if isinstance(how.outcome, Failed) else None,
        hooks.facts.clock() - how.began,
        how.outcome is None,
        asked.result is not None,
    )

    def take(seen: AfterTool, hook: Hook, decision: Decision) -> AfterTool:
        if isinstance(decision, Replace):
            return msgspec.structs.replace(seen, result=decision.for_call(seen.call), replaced=True)
        hooks.ask_to_stop(hook, decision)
        return seen

    seen, failure = await call_after(mine, moment, take)
    hooks.fail(failure)
    return event if seen is moment else msgspec.structs.replace(event, result=seen.result)


async def _tell_error(hooks: Hooked, asked: ToolUse, outcome: Failed) -> None:
    moment = OnError(
        hooks.facts, asked.key, asked.iteration, outcome.error, outcome.info, asked.call
    )

    def take(same: OnError, hook: Hook, decision: Decision) -> OnError:
        hooks.ask_to_stop(hook, decision)
        return same

    _, failure = await call_after(hooks.chain.on_error, moment, take)
    hooks.fail(failure)
