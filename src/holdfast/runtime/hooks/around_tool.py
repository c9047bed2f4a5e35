"""The hooks around one tool: before it, around it, and after it.

The hooks run outside of retry and timeout, and inside of formatting. So hooks see an exception as
an object after the last attempt, and the model only sees what the formatter returns for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeAlias

import msgspec

from holdfast.core.batch import NOT_RUN_TEXT
from holdfast.core.effects import RunTool
from holdfast.core.errors import (
    ErrorCategory,
    ErrorInfo,
    Landed,
    MiddlewareError,
    ToolNotFoundError,
)
from holdfast.core.events import ToolFinished
from holdfast.core.messages import ToolCall, ToolResult
from holdfast.middleware.chain import Hook
from holdfast.middleware.decisions import Decision, Deny, Replace, Stop
from holdfast.middleware.hook_calls import call_after, call_each, has_enabled_hooks
from holdfast.middleware.hook_contexts import AfterTool, OnError, ToolUse, arguments_of
from holdfast.resilience.pipeline import Done, Failed, Outcome, failed_outcome
from holdfast.runtime.active_turn import ActiveTurn
from holdfast.runtime.hooks.wrapping import wrap_with_hooks
from holdfast.tools.checked_call import CheckedCall, Invocation, check_call

Checked: TypeAlias = CheckedCall | Invocation
UseTool: TypeAlias = Callable[[RunTool, Checked], Awaitable[Outcome[ToolResult]]]
"""Runs the tool of a checked call, with all attempts."""


class ToolDeniedError(Exception):
    """The call was denied by a hook; its text is the result of the call, word for word."""


def _denied_outcome(text: str, code: str) -> Failed:
    info = ErrorInfo(category=ErrorCategory.CLIENT_ERROR, landed=Landed.NO, safe=text, code=code)
    return Failed(ToolDeniedError(text), info, attempts=0, sent=False)


class HookedCall:
    """One tool call with the hooks of its tool.

    Args:
        run: the turn.
        effect: the call as the model wrote it.
        use: runs the tool.
    """

    __slots__ = (
        "_approved_calls",
        "_began",
        "_checked",
        "_context",
        "_effect",
        "_hooks",
        "_judging",
        "_mine",
        "_refused",
        "_run",
        "_this",
        "_use",
    )

    def __init__(self, run: ActiveTurn, effect: RunTool, use: UseTool) -> None:
        hooks = run.hooks
        self._run = run
        self._hooks = hooks
        self._this = this = hooks.iteration
        self._mine = hooks.chain.hooks_for_tool(effect.call.name or "Unknown")
        self._effect = effect
        self._use = use
        self._began = run.plan.clock.monotonic()
        before = this.checked.get(effect.index) if this is not None else None
        self._checked: Checked = before or check_call(
            run.plan.registry,
            effect.call,
            unfinished=effect.unfinished,
            by_code=effect.by_code,
            now=run.plan.clock.now(),
        )
        self._judging: asyncio.Lock | None = None  # made for wrap hooks
        self._context: ToolUse | None = None
        self._approved_calls: tuple[ToolCall | None, ...] = ()
        """The call that all hooks before the tool have approved, in its two forms."""
        self._refused: Failed | None = None
        """The outcome of the call that a hook before the tool has refused."""

    @property
    def context(self) -> ToolUse:
        """The context of the next hook. It is made when the first hook needs it."""
        context = self._context
        if context is None:
            this, effect = self._this, self._effect
            tool = self._run.plan.registry.get(effect.call.name)
            context = self._context = ToolUse(
                facts=self._hooks.facts,
                key=effect.key,
                iteration=this.number if this is not None else self._run.machine.iteration,
                index=effect.index,
                call=_visible_call(self._checked, effect.call),
                written_call=effect.call,
                unknown=_unknown_text(self._checked),
                by_code=effect.by_code,
                server="" if tool is None else tool.server,
                tool_digest="" if tool is None else tool.digest,
            )
        return context

    @property
    def valid(self) -> bool:
        """Whether hooks see the call: it can be run, or a hook may replace an unknown tool."""
        checked = self._checked
        if isinstance(checked, CheckedCall):
            return True
        unknown = isinstance(checked.error, ToolNotFoundError)
        if not unknown or self._effect.unfinished:
            return False
        return arguments_of(self.context.call) is not None

    async def run_tool(self) -> Outcome[ToolResult]:
        """Call the hooks before the tool, and then the tool with the wrap hooks around it."""
        if self._hooks.blocks_tools():
            return self._blocked_outcome()
        mine = self._mine.before_and_wrap
        if not mine or not has_enabled_hooks(mine, self._hooks.facts) or not self.valid:
            # A call that cannot run needs no approval and no wrap.
            return await self._use(self._effect, self._checked)
        try:
            return await self._run_judged()
        except MiddlewareError as error:
            return failed_outcome(error)

    def _blocked_outcome(self) -> Failed:
        """The outcome of a call that does not run because of a hook of the turn or of the reply."""
        this = self._this
        if self._hooks.stop is None and this is not None and this.denial is not None:
            return _denied_outcome(this.denial, "denied")
        return _denied_outcome(NOT_RUN_TEXT.format(name=self.context.tool), "stopped")

    async def _run_judged(self) -> Outcome[ToolResult]:
        await self._call_before_tool()
        if self._refused is not None:
            return self._refused
        if self.context.result is not None:
            return Done(self.context.result, 0)
        if not self._mine.wrap:
            return await self._use(self._effect, self._checked)
        return await wrap_with_hooks(self._mine.wrap, self._run_passed_on)(self.context)

    async def _call_before_tool(self) -> None:
        """Call the hooks before the tool. They approve the call, refuse it, or replace its result."""
        self._refused, self._approved_calls = None, ()
        before = self._hooks.chain.hooks_for_tool(self.context.tool).before
        context = await call_each(before, self.context, self._apply_decision)
        self._context = context
        if self._refused is None:
            self._approved_calls = (context.call, context.written_call)

    def _apply_decision(self, seen: ToolUse, hook: Hook, decision: Decision) -> ToolUse | None:
        if isinstance(decision, Deny):
            self._refused = _denied_outcome(decision.reason, "denied")
            return None
        if isinstance(decision, Stop):
            self._hooks.ask_to_stop(hook, decision)
            self._refused = _denied_outcome(NOT_RUN_TEXT.format(name=seen.tool), "stopped")
            return None
        if isinstance(decision, Replace):
            return msgspec.structs.replace(seen, result=decision.for_call(seen.call))
        return seen

    async def _run_passed_on(self, inner: ToolUse) -> Outcome[ToolResult]:
        """Run the call that the wrap hooks passed on. A call that they edited is judged again."""
        if self._judging is None:
            self._judging = asyncio.Lock()
        async with self._judging:  # a wrap hook may pass on two calls at once
            if inner.call not in self._approved_calls:
                await self._judge_edited(inner)
                if self._refused is not None:
                    return self._refused
            checked, result = self._checked, self.context.result
        if result is not None:
            return Done(result, 0)
        effect = msgspec.structs.replace(self._effect, call=inner.call)
        return await self._use(effect, checked)

    async def _judge_edited(self, inner: ToolUse) -> None:
        self._checked = check_call(
            self._run.plan.registry,
            inner.call,
            unfinished=self._effect.unfinished,
            edited=True,
            by_code=self._effect.by_code,
            now=self._run.plan.clock.now(),
        )
        self._context = msgspec.structs.replace(
            inner,
            call=_visible_call(self._checked, inner.call),
            result=None,
            written_call=inner.call,
            edited=True,
            unknown=_unknown_text(self._checked),
        )
        self._approved_calls = ()
        if self.valid:
            await self._call_before_tool()

    async def call_after_tool(
        self, event: ToolFinished, outcome: Outcome[ToolResult]
    ) -> ToolFinished:
        """Call the hooks after the tool; returns the event with the result as they changed it.

        Args:
            event: the event for the outcome.
            outcome: the outcome of `run_tool`.
        """
        is_denied = False
        if isinstance(outcome, Failed):
            is_denied = isinstance(outcome.error, ToolDeniedError)
            if not is_denied:
                await self._call_on_error(outcome)
        mine, hooks = self._mine.after, self._hooks
        if mine and has_enabled_hooks(mine, hooks.facts):
            context = self._after_context(event, outcome, is_denied=is_denied)
            seen, failure = await call_after(mine, context, self._apply_after)
            hooks.record_failure(failure)
            if seen is not context:
                event = msgspec.structs.replace(event, result=seen.result)
        if self._this is not None:
            self._this.results[self._effect.index] = event.result
        return event

    def _after_context(
        self, event: ToolFinished, outcome: Outcome[ToolResult], *, is_denied: bool
    ) -> AfterTool:
        asked = self.context
        return AfterTool(
            facts=asked.facts,
            key=asked.key,
            iteration=asked.iteration,
            index=asked.index,
            call=asked.call,
            result=event.result,
            exception=None if is_denied else self._find_exception(outcome),
            seconds=asked.facts.clock() - self._began,
            denied=is_denied,
            replaced=asked.result is not None,
            valid=self.valid,
        )

    def _find_exception(self, outcome: Outcome[ToolResult]) -> BaseException | None:
        """Return why the call failed, or why it could not run."""
        if isinstance(outcome, Failed):
            return outcome.error
        checked = self._checked
        if isinstance(checked, Invocation) and checked.result is outcome.value:
            return checked.error
        return None

    def _apply_after(self, seen: AfterTool, hook: Hook, decision: Decision) -> AfterTool:
        if isinstance(decision, Replace):
            result = decision.for_call(seen.call, replaced=seen.result)
            return msgspec.structs.replace(seen, result=result, replaced=True)
        return self._hooks.apply_stop(seen, hook, decision)

    async def _call_on_error(self, outcome: Failed) -> None:
        hooks = self._hooks
        if not has_enabled_hooks(hooks.chain.on_error, hooks.facts):
            return
        asked = self.context
        context = OnError(
            facts=asked.facts,
            key=asked.key,
            iteration=asked.iteration,
            exception=outcome.error,
            info=outcome.info,
            call=asked.call,
        )
        _, failure = await call_after(hooks.chain.on_error, context, hooks.apply_stop)
        hooks.record_failure(failure)


def _unknown_text(checked: Checked) -> str:
    """Return the text for the model about a tool that does not exist; "" when the tool exists."""
    if isinstance(checked, CheckedCall) or not isinstance(checked.error, ToolNotFoundError):
        return ""
    return checked.result.text if checked.result is not None else str(checked.error)


def _visible_call(checked: Checked, call: ToolCall) -> ToolCall:
    """Return the call with its validated arguments, or unchanged if it cannot be run."""
    return checked.visible_call if isinstance(checked, CheckedCall) else call
