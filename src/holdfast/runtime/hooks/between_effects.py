"""The hooks between two effects: before the tools of a reply, and after an iteration.

Their decisions can end the turn. The marker event that the tools of a reply begin is saved before
the first tool, and never for a turn that ends before its tools. After a crash it means that they are
in doubt. This module must never perform an effect.
"""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.core.batch import find_duplicate_calls
from holdfast.core.effects import Effect, RunTool, after_key, begun_key, closed_key, tool_key
from holdfast.core.errors import MiddlewareError
from holdfast.core.events import (
    Event,
    ModelReplied,
    OutputChecked,
    Status,
    ToolFinished,
    ToolsBegun,
    TurnClosed,
    TurnStopped,
)
from holdfast.core.machine import SessionMachine
from holdfast.core.messages import ReplyKind, ToolCall
from holdfast.core.output_retries import OUTPUT_CHECKED
from holdfast.core.session_state import Phase
from holdfast.middleware.chain import Hook
from holdfast.middleware.decisions import Decision, Deny
from holdfast.middleware.hook_calls import (
    call_after,
    call_each,
    has_enabled_hooks,
)
from holdfast.middleware.hook_contexts import AfterIteration, BeforeTools
from holdfast.runtime.active_turn import ActiveTurn
from holdfast.runtime.finalize import finalize_children
from holdfast.runtime.open_runs.suspension import find_suspended_keys, mark_suspended
from holdfast.runtime.turn_state.turn_hooks import Iteration, TurnHooks
from holdfast.tools.checked_call import CheckedCall, Invocation, check_call

# Access to enum members is slow, and these are needed between any two effects.
_OUTPUT, _TOOLS = Phase.OUTPUT, Phase.TOOLS


_CALLED_AGAIN = frozenset({"before_turn", "before_tools", "after_iteration", "fold"})
"""Hooks around and between effects that a later recovery calls again, so that none is skipped."""


def make_stop_event(run: ActiveTurn) -> TurnStopped:
    """Return the event that ends a turn that a hook has stopped, or in which a hook has failed.

    Raises:
        TurnLeftOpen: a recovery drives the turn, and the next one will call the failed hook again.
    """
    hooks = run.hooks
    end = hooks.stop_event(run.machine.turn, run.plan.clock.now())
    if end.error is not None:
        run.error = failure = hooks.failure
        if run.recovery is not None and failure is not None and failure.hook in _CALLED_AGAIN:
            run.recovery.check_failure(failure, end.error)
    return end


def hooks_idle(run: ActiveTurn) -> bool:
    """Whether no hook has anything to do between these two effects, so that they can be skipped."""
    hooks, phase = run.hooks, run.machine.phase
    if phase is _OUTPUT:
        return True
    if not hooks.chain.has_hooks:
        # Nothing else could end the turn.
        return hooks.folds.failure is None and hooks.stop is None
    if hooks.wants_to_end():
        return False
    this = hooks.iteration
    if this is None:
        return True
    if phase is not _TOOLS:
        mine = hooks.chain.after_iteration
        if mine and has_enabled_hooks(mine, hooks.facts):
            return False
        hooks.iteration = None
    elif not this.before_tools_called:
        mine = hooks.chain.before_tools
        if mine and has_enabled_hooks(mine, hooks.facts):
            return False
        this.before_tools_called = True
    return True


def has_hooks_before_tools(run: ActiveTurn) -> bool:
    """Whether a hook may see the next reply, or end the turn, before its tools start."""
    return run.hooks.chain.watches_replies or run.hooks.wants_to_end()


def make_marker(run: ActiveTurn, effects: Sequence[Effect]) -> ToolsBegun:
    """Make the marker of the current iteration. From now on a stop waits for its writing tools."""
    if run.shutdown is not None:
        first = [one for one in effects if isinstance(one, RunTool)][: run.plan.parallel_tools]
        writes = [one.key for one in first if not is_repeatable(run, one.call.name)]
        run.shutdown.expect_writes(run.run_id, writes)
    key = begun_key(run.machine.turn, run.machine.iteration)
    return ToolsBegun(key, run.plan.clock.now())


def is_repeatable(run: ActiveTurn, name: str) -> bool:
    """Whether a tool may run again although it may have run: it is known, and reads or is idempotent."""
    tool = run.plan.registry.get(name)
    return tool is not None and tool.effect in ("read", "idempotent")


def marker_after(run: ActiveTurn, event: Event) -> ToolsBegun | TurnClosed | None:
    """Return the event to save with this one: the begin of its tools, or the end of the turn.

    There is none when a hook may act between the two.
    """
    if type(event) is ToolFinished:
        return None
    if type(event) is ModelReplied and run.machine.allows_tools(event.reply.calls):
        if has_hooks_before_tools(run):
            return None
        if run.shutdown is None:
            return make_marker(run, ())
        turn, iteration, calls = run.machine.turn, run.machine.iteration, event.reply.calls
        duplicates = find_duplicate_calls(calls)
        tools = [
            RunTool(tool_key(turn, iteration, at), call, at)
            for at, call in enumerate(calls)
            if at not in duplicates
        ]
        return make_marker(run, tools)
    if not _completes_turn(run.machine, event):
        return None
    if run.hooks.chain.after_iteration or run.hooks.wants_to_end():
        return None
    return TurnClosed(closed_key(run.machine.turn), run.plan.clock.now(), Status.COMPLETED)


def _completes_turn(machine: SessionMachine, event: Event) -> bool:
    """Whether only the end of the turn comes after this event."""
    if type(event) is ModelReplied:
        reply = event.reply
        is_last = not reply.calls and reply.kind is not ReplyKind.PAUSED
        return is_last and not machine.flags & OUTPUT_CHECKED
    if type(event) is not OutputChecked or event.error is not None:
        return False
    return event.call is None and bool(event.parsed_by)


async def call_between_hooks(run: ActiveTurn, effects: tuple[Effect, ...]) -> bool:
    """Call the hooks between two effects; returns whether one of them ended or suspended the turn.

    Args:
        run: the turn, for which `hooks_idle` returned False.
        effects: the next effects.
    """
    try:
        end = await _call_hooks(run, run.hooks, effects)
        if end is None:
            return False
        await finalize_children(run)
        await run.log.commit(end)
    except BaseException as error:
        if not mark_suspended(run, effects, error):
            raise
    return True


async def _call_hooks(
    run: ActiveTurn, hooks: TurnHooks, effects: tuple[Effect, ...]
) -> TurnStopped | None:
    machine = run.machine
    if machine.phase is _TOOLS:
        by_code = any(isinstance(one, RunTool) and one.by_code for one in effects)
        await _call_before_tools(run, hooks, by_code=by_code)
    elif hooks.iteration is not None:
        await _call_after_iteration(hooks, machine)
    if machine.phase is Phase.CLOSING or not hooks.wants_to_end():
        return None
    return make_stop_event(run)


async def _call_before_tools(run: ActiveTurn, hooks: TurnHooks, *, by_code: bool) -> None:
    this = hooks.iteration
    if this is None or this.before_tools_called or this.reply is None or hooks.stop is not None:
        return
    this.before_tools_called = True
    if not hooks.chain.before_tools:
        return
    key = begun_key(run.machine.turn, this.number)
    unfinished = this.reply.kind is ReplyKind.TRUNCATED
    for index, call in enumerate(this.calls):
        this.checked[index] = check_call(
            run.plan.registry,
            call,
            unfinished=unfinished,
            by_code=by_code,
            now=run.plan.clock.now(),
        )
    calls, invalid = _visible_calls(this)
    context = BeforeTools(
        facts=hooks.facts,
        key=key,
        iteration=this.number,
        reply=this.reply,
        calls=calls,
        invalid=invalid,
        duplicates=frozenset(find_duplicate_calls(this.calls)),
    )

    def take(_: BeforeTools, hook: Hook, decision: Decision) -> None:
        if isinstance(decision, Deny):
            this.denial = decision.reason
        hooks.ask_to_stop(hook, decision)

    try:
        await call_each(hooks.chain.before_tools, context, take)
    except MiddlewareError as error:
        hooks.record_failure(error)
    except BaseException as error:
        if find_suspended_keys(error) is not None:
            this.before_tools_called = False
        raise


def _visible_calls(this: Iteration) -> tuple[tuple[ToolCall, ...], frozenset[int]]:
    """Return the calls with their validated arguments, and the indexes of the invalid ones."""
    calls = list(this.calls)
    for index, checked in this.checked.items():
        if isinstance(checked, CheckedCall):
            calls[index] = checked.visible_call
    invalid = [at for at, checked in this.checked.items() if isinstance(checked, Invocation)]
    return tuple(calls), frozenset(invalid)


async def _call_after_iteration(hooks: TurnHooks, machine: SessionMachine) -> None:
    this, hooks.iteration = hooks.iteration, None
    if this is None or not hooks.chain.after_iteration:
        return
    context = AfterIteration(
        facts=hooks.facts,
        key=after_key(machine.turn, this.number),
        iteration=this.number,
        reply=this.reply,
        calls=this.calls,
        results=tuple([result for _, result in sorted(this.results.items())]),
        exception=this.exception,
        usage=machine.usage,
        seconds=hooks.facts.clock() - this.started_at,
    )
    try:
        _, failure = await call_after(hooks.chain.after_iteration, context, hooks.apply_stop)
    except BaseException as error:
        if find_suspended_keys(error) is not None:
            hooks.iteration = this  # the hooks are called again when there is an answer
        raise
    hooks.record_failure(failure)
