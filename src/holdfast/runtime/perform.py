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
from holdfast.core.detached_errors import clean_error, clean_info
from holdfast.core.effects import AcceptTurn, CallModel, CheckOutput, CloseTurn, Effect, RunTool
from holdfast.core.errors import (
    ConfigurationError,
    ErrorCategory,
    ErrorInfo,
    HoldfastError,
    Landed,
    LimitError,
    MiddlewareError,
    tool_failure_text,
)
from holdfast.core.events import (
    Event,
    ModelFailed,
    ModelReplied,
    OutputChecked,
    ToolFinished,
    TurnStopped,
)
from holdfast.core.limits import ITERATION_LIMIT_TEXT
from holdfast.core.messages import Reply, Text, ToolCall, ToolResult, Usage
from holdfast.core.model_request import ModelRequest
from holdfast.core.printable import escape_invisible
from holdfast.core.redaction import redact
from holdfast.core.transcript import TranscriptSnapshot
from holdfast.middleware.hook_calls import has_enabled_hooks
from holdfast.middleware.hook_contexts import ModelCall, ToolUse
from holdfast.models.reply_carry import lost_usage
from holdfast.resilience.cache.strategy import replay_reply
from holdfast.resilience.pipeline import (
    CallContext,
    Done,
    ExecutionContext,
    Failed,
    Outcome,
    failed_outcome,
)
from holdfast.runtime.active_turn import ActiveTurn
from holdfast.runtime.finalize import close_turn
from holdfast.runtime.hooks.around_model import (
    begin_iteration,
    call_after_reply,
    call_before_iteration,
    notice_replaced_reply,
    wrap_model_call,
)
from holdfast.runtime.hooks.around_tool import HookedCall, ToolDeniedError
from holdfast.runtime.hooks.before_turn import accept_turn
from holdfast.runtime.hooks.between_effects import is_repeatable, make_stop_event
from holdfast.runtime.streams.live_text import filter_partial
from holdfast.runtime.tool_attempt import AttemptHooks, ToolAttempt, make_event_sink
from holdfast.runtime.toolsets.offered_tools import offer_tools, offered_names
from holdfast.runtime.turn_state.turn_hooks import Iteration
from holdfast.runtime.usage_meter import UsageMeter
from holdfast.tools.checked_call import CheckedCall, Invocation
from holdfast.tools.context import ToolContext, UsageSink
from holdfast.tools.registry import UNKNOWN_TOOL, shorten_name
from holdfast.tools.tool_failures import ToolError, error_text

_log = logging.getLogger("holdfast")
_log.addHandler(logging.NullHandler())  # silent until the application configures logging

SHARED_LIMIT_TEXT = "The limit of tokens of the agent that it works for is reached."
IN_DOUBT_NOTE = " It may have taken effect: check before calling it again."


def perform_effect(run: ActiveTurn, effect: Effect) -> Awaitable[Event]:
    """Perform any effect."""
    return _FUNCTIONS[type(effect)](run, effect)


async def call_model(
    run: ActiveTurn, effect: CallModel
) -> ModelReplied | ModelFailed | TurnStopped:
    """Call the model through the pipeline of strategies, with the hooks around it.

    A hook can stop the turn before the model is called, or give a reply in place of the model's.

    Raises:
        TurnLeftOpen: a recovery drives the turn, and this failure must not end the turn.
    """
    hooks = run.hooks
    run.partial_reply.reply = None
    iteration, call = begin_iteration(run, effect)
    try:
        if run.plan.toolsets:
            await offer_tools(run, effect.iteration)
            call = msgspec.structs.replace(call, tools=run.plan.registry.specs)
        before = hooks.chain.before_iteration
        if before and has_enabled_hooks(before, hooks.facts):
            call = await call_before_iteration(hooks, call)
            if hooks.wants_to_end():
                return make_stop_event(run)
        if call.reply is not None:
            outcome: Outcome[Reply] = Done(call.reply, attempts=0)
        else:
            outcome = await wrap_model_call(run, partial(_ask_model, run, iteration))(call)
            if hooks.chain.wrap_model:
                notice_replaced_reply(hooks, iteration, call, outcome)
    except (MiddlewareError, ConfigurationError) as error:
        outcome = failed_outcome(error)
    asked = outcome.value if isinstance(outcome, Done) and outcome.attempts else None
    outcome = iteration.outcome = await call_after_reply(hooks, iteration, call, outcome)
    if isinstance(outcome, Done) and not outcome.attempts and run.machine.is_over_limit():
        outcome = _make_over_limit(run)  # a reply that a hook gives also counts toward the limit
    if isinstance(outcome, Done):
        if asked is None or iteration.is_replaced:
            # The hooks after the reply have seen it, so it needs no live filter.
            replay_reply(run.env, outcome.value)
        return _record_reply(run, effect, outcome, iteration.called_by)
    return _record_failure(run, effect, outcome)


async def _ask_model(
    run: ActiveTurn, iteration: Iteration, env: ExecutionContext, call: ModelCall
) -> Outcome[Reply]:
    """Ask the model, with all attempts."""
    plan, parent = run.plan, run.context.parent_meter
    if run.machine.is_over_limit():
        return _make_over_limit(run)
    left = parent.remaining_tokens() if parent is not None else None
    if left is not None and left <= 0:
        return _make_limit_failure(SHARED_LIMIT_TEXT, "tokens")
    if run.shutdown is not None:
        await run.shutdown.begin_call(run.run_id, call.key)
    run.effects.note_call(call.key)
    messages = call.messages
    if isinstance(messages, TranscriptSnapshot):
        messages = messages.transcript  # it has the encoded form of the messages
    request = ModelRequest(
        model=plan.models[0].model,
        messages=messages,
        instructions=call.instructions,
        tools=call.tools,
        hosted_tools=plan.hosted_tools,
        output=plan.output.schema if plan.output is not None else None,
        settings=call.settings,
        stream=run.context.channel is not None and run.context.channel.live,
    )
    try:
        outcome = await plan.ask_model(
            CallContext(call.key, request, env, run.deadline, carry=plan.carry)
        )
    except Exception as error:
        outcome = _make_unexpected(error)
    iteration.asked = outcome
    return outcome


def _record_reply(
    run: ActiveTurn, effect: CallModel, outcome: Done[Reply], called_by: str
) -> ModelReplied:
    lost = lost_usage(outcome)
    if run.context.parent_meter is not None:
        _meter_usage(run.context.parent_meter, outcome.value, lost)
    return ModelReplied(
        key=effect.key,
        at=run.plan.clock.now(),
        reply=outcome.value,
        attempts=outcome.attempts,
        tried=outcome.tried,
        lost=lost,
        offered=offered_names(run) if outcome.value.calls else None,
        by=called_by,
    )


def _record_failure(run: ActiveTurn, effect: CallModel, outcome: Failed) -> ModelFailed:
    outcome = _clean_failure(run, outcome)
    run.error = outcome.error
    _log.warning("model call %s of run %s failed: %s", effect.key, run.run_id, _log_detail(outcome))
    if run.recovery is not None:
        run.recovery.check_failure(outcome.error, outcome.info, outcome.tried)
    arrived = filter_partial(run, _partial_of(outcome))
    if isinstance(outcome.error, HoldfastError):
        outcome.error.partial = arrived
    lost = lost_usage(outcome)
    if run.context.parent_meter is not None:
        _meter_usage(run.context.parent_meter, arrived, lost)
    return ModelFailed(
        key=effect.key,
        at=run.plan.clock.now(),
        error=outcome.info.to_public(),
        partial=arrived,
        attempts=outcome.attempts,
        tried=outcome.tried,
        lost=lost,
    )


def _partial_of(outcome: Failed) -> Reply | None:
    return outcome.error.partial if isinstance(outcome.error, HoldfastError) else None


def _meter_usage(parent: UsageSink, reply: Reply | None, lost: Usage | None) -> None:
    """Add the usage of a subagent to its caller immediately."""
    for usage in (reply.usage if reply is not None else None, lost):
        if usage is not None:
            parent.add(usage)


def _make_over_limit(run: ActiveTurn) -> Failed:
    """Build the failure for a limit that was reached and not extended; the model is not called."""
    limit = run.machine.limits.iterations
    return _make_limit_failure(ITERATION_LIMIT_TEXT.format(max_iterations=limit), "iterations")


def _make_limit_failure(text: str, limit: str) -> Failed:
    error = LimitError(text, limit=limit)
    info = ErrorInfo(category=ErrorCategory.LIMIT, safe=text, code=limit, landed=Landed.NO)
    return Failed(error, info, attempts=0, sent=False)


async def run_tool(run: ActiveTurn, effect: RunTool) -> ToolFinished:
    """Run one tool, with the hooks around it. A failure becomes a text for the model."""
    call = HookedCall(run, effect, partial(_use_tool, run))
    if run.effects[effect.key].is_in_doubt and not _may_repeat(run, effect):
        event = _make_in_doubt(run, effect)
        return await call.call_after_tool(event, Done(event.result, attempts=0))
    outcome = await call.run_tool()
    event = _finish_tool(run, effect, outcome)
    event = await call.call_after_tool(event, outcome)
    if run.plan.output is None:
        return event
    from holdfast.runtime.output_check import finish_output_call  # only for typed output

    return finish_output_call(run, event, outcome)


def _may_repeat(run: ActiveTurn, effect: RunTool) -> bool:
    """Whether the tool may run again after a crash: only a `read` or an `idempotent` tool may.

    The effect of a tool that is no longer registered is unknown, so such a tool is not repeated
    and the model is told that its call is in doubt.
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
    run: ActiveTurn, effect: RunTool, checked: CheckedCall | Invocation
) -> Outcome[ToolResult]:
    """Run the tool, with all attempts."""
    call = effect.call
    notes = run.usage_meters.setdefault(
        effect.key, UsageMeter(run.tokens_left, run.context.parent_meter)
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
                    effect, context, notes, checked, _find_attempt_hooks(run, effect, checked)
                ),
                run.env,
                run.deadline,
                tool=call.name,
            )
        )
    except Exception as error:
        return _make_unexpected(error)


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
    name = escape_invisible(redact(shorten_name(call.name))).replace("\n", "\\n")
    _log.warning("tool %s (%s of run %s) does not exist, so it was not run", name, key, run.run_id)


def _finish_tool(run: ActiveTurn, effect: RunTool, outcome: Outcome[ToolResult]) -> ToolFinished:
    call = effect.call
    at = run.plan.clock.now()
    notes = run.usage_meters.get(effect.key)
    usage = notes.usage if notes is not None else Usage()
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
        )
    if isinstance(outcome.error, ToolDeniedError):
        result = ToolResult(call.id, call.name, (Text(str(outcome.error)),), is_error=True)
        return ToolFinished(
            key=effect.key, at=at, result=result, error=outcome.info, attempts=0, usage=usage
        )
    outcome = _clean_failure(run, outcome)
    _log.warning(
        "tool %s (%s of run %s) failed: %s", call.name, effect.key, run.run_id, _log_detail(outcome)
    )
    in_doubt = not outcome.may_repeat and _may_write(run, call)
    text = _failure_text(run, call, outcome)
    if in_doubt:
        text = f"{text if text.endswith(('.', '!', '?')) else text + '.'}{IN_DOUBT_NOTE}"
    content = (Text(text),)
    result = ToolResult(call.id, call.name, content, is_error=True, in_doubt=in_doubt)
    return ToolFinished(
        key=effect.key,
        at=at,
        result=result,
        error=outcome.info.to_public(),
        attempts=outcome.attempts,
        usage=usage,
    )


def _failure_text(run: ActiveTurn, call: ToolCall, outcome: Failed) -> str:
    """Return what the model reads about a failed tool, or about a failed hook of the tool."""
    error: BaseException = outcome.error
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
        failure = _clean_failure(run, _make_unexpected(error))
    run.error = failure.error
    _log.warning("check %s of run %s failed: %s", effect.key, run.run_id, _log_detail(failure))
    if run.recovery is not None:
        run.recovery.check_failure(failure.error, failure.info)
    safe = (
        f"An output validator failed with {type(failure.error).__name__}; the log has the details."
    )
    info = msgspec.structs.replace(failure.info.to_public(), safe=safe, code="output_validator")
    return OutputChecked(effect.key, run.plan.clock.now(), error=info)


def _make_unexpected(error: Exception) -> Failed:
    if isinstance(error, HoldfastError):
        return Failed(error, error.info)
    name = type(error).__name__
    info = ErrorInfo(
        category=ErrorCategory.PROGRAMMING,
        safe=f"An unexpected {name} stopped this call; the log has the details.",
        private=redact(f"{name}: {error}"),
        code=name,
    )
    return Failed(error, info)


def _clean_failure(run: ActiveTurn, failure: Failed) -> Failed:
    """Remove the secrets of the agent's models, which a tool or another provider may also know."""
    secrets = run.plan.secrets
    if isinstance(failure.error, HoldfastError):
        clean_error(failure.error, secrets)
    return msgspec.structs.replace(failure, info=clean_info(failure.info, secrets))


def _log_detail(outcome: Failed) -> str:
    return outcome.info.private or outcome.info.safe


_FUNCTIONS: dict[type[Effect], Callable[..., Awaitable[Event]]] = {
    AcceptTurn: accept_turn,
    CallModel: call_model,
    RunTool: run_tool,
    CheckOutput: check_output,
    CloseTurn: close_turn,
}
