"""One function per kind of effect. Each performs the effect and returns the event that ends it.

Exceptions of models, strategies and tools become values here. This room may use a broad `except`,
so that an unexpected exception becomes an event and the run is not lost. Cancellation must never be
suppressed.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from functools import partial

import msgspec

from holdfast.core.batch import IN_DOUBT_TEXT
from holdfast.core.effects import (
    AcceptTurn,
    CallModel,
    CheckOutput,
    CloseTurn,
    CopyResult,
    Effect,
    RunTool,
)
from holdfast.core.errors import (
    ErrorCategory,
    ErrorInfo,
    MiddlewareError,
    tool_failure_text,
)
from holdfast.core.events import (
    Event,
    OutputChecked,
    ToolFinished,
)
from holdfast.core.messages import NO_USAGE, Text, ToolCall, ToolResult
from holdfast.core.notices import DuplicateCall
from holdfast.core.printable import escape_invisible
from holdfast.core.redaction import redact
from holdfast.middleware.hook_contexts import ToolUse
from holdfast.resilience.pipeline import (
    CallContext,
    Done,
    Failed,
    Outcome,
)
from holdfast.runtime.active_turn import ActiveTurn
from holdfast.runtime.doubt import DoubtGuard, LeftInDoubtError, left_in_doubt
from holdfast.runtime.finalize import close_turn
from holdfast.runtime.hooks.around_tool import HookedCall, ToolDeniedError
from holdfast.runtime.hooks.before_turn import accept_turn
from holdfast.runtime.hooks.between_effects import is_repeatable
from holdfast.runtime.model_call import call_model, clean_failure, log_detail, make_unexpected
from holdfast.runtime.spending import UsageMeter
from holdfast.runtime.tool_attempt import AttemptHooks, ToolAttempt, make_event_sink
from holdfast.tools.checked_call import CheckedCall, Invocation, check_call
from holdfast.tools.context import ToolContext
from holdfast.tools.registry import UNKNOWN_TOOL, shorten_name
from holdfast.tools.tool_failures import ToolError, error_text

_log = logging.getLogger("holdfast")
_log.addHandler(logging.NullHandler())  # silent until the application configures logging

IN_DOUBT_NOTE = " It may have taken effect: check before calling it again."


def perform_effect(run: ActiveTurn, effect: Effect) -> Awaitable[Event]:
    """Perform any effect."""
    return _FUNCTIONS[type(effect)](run, effect)


async def run_tool(run: ActiveTurn, effect: RunTool) -> ToolFinished:
    """Run one tool, with the hooks around it. A failure becomes a text for the model."""
    guard = _make_guard(run, effect) if run.plan.registry.has_checks else None
    call = None
    if run.hooks.chain.has_hooks:
        call = HookedCall(run, effect, guard.use_tool if guard else partial(_use_tool, run))
    outcome: Outcome[ToolResult]
    is_left = run.effects[effect.key].is_in_doubt and not _may_repeat(run, effect)
    if is_left and guard is None:
        event = _make_in_doubt(run, effect)
        outcome = Done(event.result, attempts=0)
        return event if call is None else await call.call_after_tool(event, outcome)
    outcome = await (_use_unhooked(run, effect, guard) if call is None else call.run_tool())
    if guard is not None and is_left and not guard.is_reached:
        outcome = left_in_doubt(effect.call)
    event = _finish_tool(run, effect, outcome, guard)
    if call is not None:
        event = await call.call_after_tool(event, outcome)
    if run.plan.output is None:
        return event
    from holdfast.runtime.output_check import finish_output_call  # only for typed output

    return finish_output_call(run, event, outcome)


def _make_guard(run: ActiveTurn, effect: RunTool) -> DoubtGuard | None:
    """Return the guard of a tool that has a check; None for any other."""
    tool = run.plan.registry.get(effect.call.name)
    if tool is None or tool.check is None:
        return None
    return DoubtGuard(run, effect, partial(_use_tool, run))


def _use_unhooked(
    run: ActiveTurn, effect: RunTool, guard: DoubtGuard | None
) -> Awaitable[Outcome[ToolResult]]:
    """Check the call and run its tool; no hook can replace, deny or stop it."""
    registry, call = run.plan.registry, effect.call
    checked = check_call(
        registry,
        call,
        unfinished=effect.unfinished,
        by_code=effect.by_code,
        now=run.plan.clock.now(),
    )
    return guard.use_tool(effect, checked) if guard else _use_tool(run, effect, checked)


def _may_repeat(run: ActiveTurn, effect: RunTool) -> bool:
    """Whether the tool may run again after a crash: only a `read` or an `idempotent` tool may.

    The effect of a tool that is no longer registered is unknown, so such a tool is not repeated
    and the model reads that its call is in doubt.
    """
    return is_repeatable(run, effect.call.name)


def _make_in_doubt(run: ActiveTurn, effect: RunTool) -> ToolFinished:
    call = effect.call
    text = IN_DOUBT_TEXT.format(name=call.name)
    info = ErrorInfo(category=ErrorCategory.UNKNOWN, safe=text, code="in_doubt")
    content = (Text(text),)
    result = ToolResult(call.id, call.name, content, is_error=True, in_doubt=True)
    return ToolFinished(effect.key, run.plan.clock.now(), result, info, attempts=0)


async def _use_tool(
    run: ActiveTurn,
    effect: RunTool,
    checked: CheckedCall | Invocation,
    begins_before: float | None = None,
) -> Outcome[ToolResult]:
    """Run the tool, with all attempts; with those that begin before a time, if that is given."""
    call = effect.call
    notes = run.usage_meters.setdefault(
        effect.key, UsageMeter(run.tokens_left, run.context.parent_meter, run.money)
    )
    if run.shutdown is not None:
        may_repeat = _may_repeat(run, effect)
        await run.shutdown.begin_call(run.run_id, effect.key, writes=not may_repeat)
    run.effects.note_call(effect.key)
    facts = run.hooks.facts
    context = ToolContext(
        run_id=run.run_id,
        key=effect.key,
        call_id=call.id,
        tool=call.name,
        session=run.context.session,
        turn_opened_at=run.machine.opened_at,
        deps=run.context.deps,
        arguments_json=checked.text if isinstance(checked, CheckedCall) else "{}",
        metadata=run.context.options.metadata,
        outer_calls=facts.outer_calls,
        remaining=run.time_left(),
        asker=run.questions.make_tool_asker(run),
        event_sink=make_event_sink(run.env, facts.emit),
        usage_sink=notes,
        shared_objects=facts.shared_objects,
    )
    try:
        return await run.plan.use_tool(
            CallContext(
                effect.key,
                ToolAttempt(
                    effect,
                    context,
                    notes,
                    checked,
                    around=_find_attempt_hooks(run, effect, checked),
                    turn_timeout=run.questions.turn_timeout,
                ),
                run.env,
                _find_earlier(run.deadline, begins_before),
                tool=call.name,
            )
        )
    except Exception as error:
        return make_unexpected(error)


def _find_earlier(deadline: float | None, other: float | None) -> float | None:
    if other is None or deadline is None:
        return deadline if other is None else other
    return min(deadline, other)


def _find_attempt_hooks(
    run: ActiveTurn, effect: RunTool, checked: CheckedCall | Invocation
) -> AttemptHooks | None:
    """Return the hooks around each attempt of a call that can run; None without any."""
    hooks = run.hooks.chain.hooks_for_tool(effect.call.name).attempt
    if not hooks or not isinstance(checked, CheckedCall):
        return None
    context = ToolUse(
        facts=run.hooks.facts,
        key=effect.key,
        iteration=run.machine.iteration,
        index=effect.index,
        call=checked.visible_call,
        written_call=effect.call,
    )
    return AttemptHooks(hooks, context)


def _log_unknown_tool(run: ActiveTurn, call: ToolCall, key: str) -> None:
    """Log a call of a tool that does not exist. Its name is the model's, and may hold anything."""
    name = _to_log_line(shorten_name(call.name))
    _log.warning("tool %s (%s of run %s) does not exist, so it was not run", name, key, run.run_id)


def _to_log_line(name: str) -> str:
    return escape_invisible(redact(name)).replace("\n", "\\n")


def _finish_tool(
    run: ActiveTurn, effect: RunTool, outcome: Outcome[ToolResult], guard: DoubtGuard | None
) -> ToolFinished:
    call = effect.call
    at = run.plan.clock.now()
    notes = run.usage_meters.get(effect.key)
    usage, cost = (notes.usage, notes.cost) if notes is not None else (NO_USAGE, None)
    if isinstance(outcome, Done):
        refusal = notes.refusal if notes is not None and outcome.value.is_error else None
        info = refusal.to_public() if refusal is not None else None
        if info is not None and info.code == UNKNOWN_TOOL:
            _log_unknown_tool(run, call, effect.key)
        return ToolFinished(
            key=effect.key,
            at=at,
            result=outcome.value,
            error=info,
            attempts=outcome.attempts,
            usage=usage,
            cost=cost,
        )
    if isinstance(outcome.error, ToolDeniedError):
        result = ToolResult(call.id, call.name, (Text(str(outcome.error)),), is_error=True)
        return ToolFinished(
            key=effect.key,
            at=at,
            result=result,
            error=outcome.info,
            attempts=0,
            usage=usage,
            cost=cost,
        )
    outcome = clean_failure(run, outcome)
    _log.warning(
        "tool %s (%s of run %s) failed: %s", call.name, effect.key, run.run_id, log_detail(outcome)
    )
    in_doubt = not outcome.may_repeat and _may_write(run, call)
    text = _failure_text(run, call, outcome)
    note = guard.note if guard is not None else ""
    if in_doubt or note:
        note = f"{note}{IN_DOUBT_NOTE if in_doubt else ''}"
        text = f"{text if text.endswith(('.', '!', '?')) else text + '.'}{note}"
    content = (Text(text),)
    result = ToolResult(call.id, call.name, content, is_error=True, in_doubt=in_doubt)
    return ToolFinished(
        key=effect.key,
        at=at,
        result=result,
        error=outcome.info.to_public(),
        attempts=outcome.attempts,
        usage=usage,
        cost=cost,
    )


def _failure_text(run: ActiveTurn, call: ToolCall, outcome: Failed) -> str:
    """Return the text for the model about a failed tool, or about a failed hook of the tool."""
    error: BaseException = outcome.error
    if isinstance(error, LeftInDoubtError):
        return f"Error: {error}"
    if isinstance(error, MiddlewareError) and isinstance(error.__cause__, Exception):
        error = error.__cause__
    message = run.plan.secrets.remove_from(error_text(error))
    if isinstance(error, ToolError):
        return message
    detailed = run.plan.tool_calls.detailed_errors
    return tool_failure_text(call.name, message, detailed=detailed)


def _may_write(run: ActiveTurn, call: ToolCall) -> bool:
    """Whether the tool of a call may not be called twice."""
    tool = run.plan.registry.get(call.name)
    return tool is not None and tool.effect not in ("read", "idempotent")


async def copy_result(run: ActiveTurn, effect: CopyResult) -> ToolFinished:
    """Give a call that its reply has twice the result of the first one, and notify the readers."""
    name = shorten_name(effect.result.name)
    _log.warning(
        "tool %s (%s of run %s) was called twice by one reply, and runs once",
        _to_log_line(name),
        effect.key,
        run.run_id,
    )
    run.hooks.facts.emit(DuplicateCall(effect.key, effect.same_as, name))
    if run.hooks.iteration is not None:
        run.hooks.iteration.results[effect.index] = effect.result
    return ToolFinished(
        key=effect.key,
        at=run.plan.clock.now(),
        result=effect.result,
        error=effect.error,
        attempts=0,
        same_as=effect.same_as,
    )


async def check_output(run: ActiveTurn, effect: CheckOutput) -> OutputChecked:
    """Check an output. A validator that raises an unexpected exception ends the turn.

    Raises:
        TurnLeftOpen: a recovery drives the turn, and this failure must not end the turn.
    """
    from holdfast.runtime.output_check import (  # only for typed output
        require_output,
        validate_output,
    )

    require_output(run)
    try:
        return await validate_output(run, effect)
    except Exception as error:
        failure = clean_failure(run, make_unexpected(error))
    run.error = failure.error
    _log.warning("check %s of run %s failed: %s", effect.key, run.run_id, log_detail(failure))
    if run.recovery is not None:
        run.recovery.check_failure(failure.error, failure.info)
    safe = (
        f"An output validator failed with {type(failure.error).__name__}; the log has the details."
    )
    info = msgspec.structs.replace(failure.info.to_public(), safe=safe, code="output_validator")
    return OutputChecked(effect.key, run.plan.clock.now(), error=info)


_FUNCTIONS: dict[type[Effect], Callable[..., Awaitable[Event]]] = {
    AcceptTurn: accept_turn,
    CallModel: call_model,
    RunTool: run_tool,
    CopyResult: copy_result,
    CheckOutput: check_output,
    CloseTurn: close_turn,
}
