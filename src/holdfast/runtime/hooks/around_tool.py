"""Runs one tool with the hooks around it.

The hooks run outside of retry and timeout, and inside of formatting. So hooks see an exception as
an object after the last attempt, and the model only sees what the formatter returns for it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple, TypeAlias

import msgspec

from holdfast.core.batch import NOT_RUN_TEXT
from holdfast.core.effects import RunTool
from holdfast.core.errors import (
    ErrorCategory,
    ErrorInfo,
    HoldfastError,
    Landed,
    MiddlewareError,
    ToolNotFoundError,
)
from holdfast.core.events import ToolFinished
from holdfast.core.messages import Text, ToolCall, ToolResult
from holdfast.middleware.chain import Hook, ToolHooks
from holdfast.middleware.decisions import Decision, Deny, Replace, Stop
from holdfast.middleware.hook_calls import (
    call_after,
    call_each,
    find_pending_hooks,
    wrap_with_hooks,
)
from holdfast.middleware.hook_contexts import AfterTool, OnError, ToolUse, arguments_of
from holdfast.resilience.pipeline import Done, Failed, Outcome, failed_outcome
from holdfast.runtime.active_turn import ActiveTurn
from holdfast.runtime.turn_state.turn_hooks import Iteration, TurnHooks
from holdfast.tools.checked_call import CheckedCall, Invocation, check_call

Checked: TypeAlias = CheckedCall | Invocation
ExecuteTool = Callable[[ActiveTurn, RunTool, Checked | None], Awaitable[Outcome[ToolResult]]]
FinishTool = Callable[[ActiveTurn, RunTool, Outcome[ToolResult]], ToolFinished]


class _DeniedError(Exception):
    """Raised when a call is denied; its text becomes the result of the call."""

    def __init__(self, text: str, code: str) -> None:
        super().__init__(text)
        self.code = code


async def around_tool(
    run: ActiveTurn, hooks: TurnHooks, effect: RunTool, execute: ExecuteTool, finish: FinishTool
) -> ToolFinished:
    """Call the hooks before the tool, the tool, and the hooks after it.

    A hook can deny the call or give a result in place of the tool's.
    """
    this = hooks.iteration
    mine = hooks.chain.hooks_for_tool(effect.call.name or "Unknown")
    if mine.is_empty and not hooks.blocks_tools():
        event = finish(run, effect, await execute(run, effect, None))
        if this is not None:
            this.results[effect.index] = event.result
        return event
    number = this.number if this is not None else run.machine.iteration
    checked = _check_effect(run, this, effect)
    moment = ToolUse(
        hooks.facts,
        effect.key,
        number,
        effect.index,
        _visible_call(checked, effect.call),
        written_call=effect.call,
    )
    within = _HookedCall((run, hooks, mine), effect, execute, moment, checked)
    began = hooks.facts.clock() if mine.after else 0.0
    outcome: Outcome[ToolResult] | None = None
    try:
        outcome = await within.outcome()
        event = finish(run, effect, outcome)
    except _DeniedError as refusal:
        event = _make_denied(run, effect, refusal)
    except MiddlewareError as error:
        outcome = failed_outcome(error)
        event = finish(run, effect, outcome)
    if isinstance(outcome, Failed) and hooks.chain.on_error:
        await _call_on_error(hooks, within.moment, outcome)
    if mine.after:
        event = await _call_after_tool(hooks, mine.after, within, event, _Execution(began, outcome))
    if this is not None:
        this.results[effect.index] = event.result
    return event


def _check_effect(run: ActiveTurn, this: Iteration | None, effect: RunTool) -> Checked:
    before = this.checked.get(effect.index) if this is not None else None
    return before or check_call(run.plan.registry, effect.call, unfinished=effect.unfinished)


def _visible_call(checked: Checked, call: ToolCall) -> ToolCall:
    """Return the call with its validated arguments, or unchanged if it cannot be run."""
    return checked.visible_call if isinstance(checked, CheckedCall) else call


class _HookedCall:
    """One tool call with the hooks before it and around it.

    Args:
        turn: the turn, its hooks, and those of this tool.
        effect: the call as the model wrote it.
        use: runs the tool.
        moment: the context of the first hook.
        checked: the call, validated.

    Attributes:
        moment: the context after the last hook, or the one of an edited call.
    """

    __slots__ = ("_checked", "_effect", "_hooks", "_last", "_mine", "_run", "_use", "moment")

    def __init__(
        self,
        turn: tuple[ActiveTurn, TurnHooks, ToolHooks],
        effect: RunTool,
        use: ExecuteTool,
        moment: ToolUse,
        checked: Checked,
    ) -> None:
        self._run, self._hooks, self._mine = turn
        self._effect = effect
        self._use = use
        self._checked = checked
        self._last: Outcome[ToolResult] | None = None
        self.moment = moment

    @property
    def valid(self) -> bool:
        """Whether hooks see the call: it can be run, or a hook may replace an unknown tool."""
        checked = self._checked
        if isinstance(checked, CheckedCall):
            return True
        unknown = isinstance(checked.error, ToolNotFoundError)
        if not unknown or self._effect.unfinished:
            return False
        return arguments_of(self.moment.call) is not None

    async def outcome(self) -> Outcome[ToolResult]:
        """Run the call with its hooks. Raises _DeniedError when a hook denies it."""
        _check_held(self._hooks, self.moment)
        if not self.valid:
            # The call cannot run, so there is nothing to approve or to wrap.
            return await self._run_it(self._effect)
        self.moment = await self._judge(self.moment)
        if self.moment.result is not None:
            return Done(self.moment.result, 0)
        if self._mine.wrap:
            return await self._through_wraps()
        return await self._run_it(self._effect)

    def _judge(self, moment: ToolUse) -> Awaitable[ToolUse]:
        """Call the hooks before the tool. Raises _DeniedError."""
        before = self._hooks.chain.hooks_for_tool(moment.tool).before
        return call_each(find_pending_hooks(before, moment), moment, self._take)

    def _take(self, seen: ToolUse, hook: Hook, decision: Decision) -> ToolUse:
        if isinstance(decision, Deny):
            raise _DeniedError(decision.reason, "denied")
        if isinstance(decision, Stop):
            self._hooks.ask_to_stop(hook, decision)
            raise _DeniedError(NOT_RUN_TEXT.format(name=seen.tool), "stopped")
        if isinstance(decision, Replace):
            return msgspec.structs.replace(seen, result=decision.for_call(seen.call))
        return seen

    def _run_it(self, effect: RunTool) -> Awaitable[Outcome[ToolResult]]:
        return self._use(self._run, effect, self._checked)

    async def _through_wraps(self) -> Outcome[ToolResult]:
        try:
            result: ToolResult = await wrap_with_hooks(self._mine.wrap, self._act)(self.moment)
        except Exception as error:
            last = self._last
            if isinstance(last, Failed) and last.error is error:
                return last
            if not isinstance(error, HoldfastError):
                raise
            # The tool may have taken effect before the wrap failed.
            attempts = last.attempts if last is not None else 0
            return Failed(error, error.info, attempts, may_repeat=last is None)
        return Done(result, self._last.attempts if self._last is not None else 0)

    async def _act(self, inner: ToolUse) -> ToolResult:
        """Run the tool inside of the wraps. A call that a wrap edited is checked again first."""
        if inner.call not in (self.moment.call, self.moment.written_call):
            await self._take_edited(inner)
        if self.moment.result is not None:
            return self.moment.result
        effect = msgspec.structs.replace(self._effect, call=inner.call)
        self._last = outcome = await self._run_it(effect)
        if isinstance(outcome, Done):
            return outcome.value
        raise outcome.error

    async def _take_edited(self, inner: ToolUse) -> None:
        self._checked = check_call(
            self._run.plan.registry, inner.call, unfinished=self._effect.unfinished, edited=True
        )
        shown = _visible_call(self._checked, inner.call)
        self.moment = msgspec.structs.replace(
            inner, call=shown, result=None, written_call=inner.call, edited=True
        )
        if self.valid:
            self.moment = await self._judge(self.moment)


class _Execution(NamedTuple):
    """How a call was executed, for the hooks after it."""

    started_at: float
    outcome: Outcome[ToolResult] | None
    """None when the call was denied."""


def _make_denied(run: ActiveTurn, effect: RunTool, refusal: _DeniedError) -> ToolFinished:
    text = str(refusal)
    info = ErrorInfo(
        category=ErrorCategory.CLIENT_ERROR, landed=Landed.NO, safe=text, code=refusal.code
    )
    result = ToolResult(effect.call.id, effect.call.name, (Text(text),), is_error=True)
    return ToolFinished(effect.key, run.plan.clock.now(), result, info, 0)


def _check_held(hooks: TurnHooks, moment: ToolUse) -> None:
    """Raise _DeniedError when no tool of this reply may run."""
    if hooks.stop is not None:
        raise _DeniedError(NOT_RUN_TEXT.format(name=moment.tool), "stopped")
    if hooks.iteration is not None and hooks.iteration.denial is not None:
        raise _DeniedError(hooks.iteration.denial, "denied")


async def _call_after_tool(
    hooks: TurnHooks,
    mine: tuple[Hook, ...],
    within: _HookedCall,
    event: ToolFinished,
    execution: _Execution,
) -> ToolFinished:
    asked = within.moment
    moment = AfterTool(
        facts=hooks.facts,
        key=asked.key,
        iteration=asked.iteration,
        index=asked.index,
        call=asked.call,
        result=event.result,
        exception=execution.outcome.error if isinstance(execution.outcome, Failed) else None,
        seconds=hooks.facts.clock() - execution.started_at,
        denied=execution.outcome is None,
        replaced=asked.result is not None,
        valid=within.valid,
    )

    def take(seen: AfterTool, hook: Hook, decision: Decision) -> AfterTool:
        if isinstance(decision, Replace):
            return msgspec.structs.replace(seen, result=decision.for_call(seen.call), replaced=True)
        hooks.ask_to_stop(hook, decision)
        return seen

    seen, failure = await call_after(mine, moment, take)
    hooks.record_failure(failure)
    return event if seen is moment else msgspec.structs.replace(event, result=seen.result)


async def _call_on_error(hooks: TurnHooks, asked: ToolUse, outcome: Failed) -> None:
    moment = OnError(
        facts=hooks.facts,
        key=asked.key,
        iteration=asked.iteration,
        exception=outcome.error,
        info=outcome.info,
        call=asked.call,
    )

    def take(same: OnError, hook: Hook, decision: Decision) -> OnError:
        hooks.ask_to_stop(hook, decision)
        return same

    _, failure = await call_after(hooks.chain.on_error, moment, take)
    hooks.record_failure(failure)
