"""Performs a model call, with the hooks around it, and returns the event that ends it.

A refused request whose cause may be the result of a tool ends nothing: its results are withheld, and
the loop performs the same effect again with another history, as after a crash. Exceptions of models
and strategies become values here. This room may use a broad `except`, so that an unexpected exception
becomes an event. Cancellation must never be suppressed.
"""

from __future__ import annotations

import logging
from functools import partial

import msgspec

from holdfast.core.detached_errors import clean_error, clean_info
from holdfast.core.effects import CallModel, withheld_key
from holdfast.core.errors import (
    ConfigurationError,
    ErrorCategory,
    ErrorInfo,
    HoldfastBug,
    HoldfastError,
    Landed,
    LimitError,
    MiddlewareError,
    TruncatedError,
    read_error_info,
)
from holdfast.core.events import ModelFailed, ModelReplied, ResultsWithheld, TurnStopped
from holdfast.core.limits import ITERATION_LIMIT_TEXT
from holdfast.core.messages import NO_USAGE, Reply, ReplyKind, Usage
from holdfast.core.model_request import ModelRequest
from holdfast.core.redaction import redact
from holdfast.core.transcript import TranscriptSnapshot
from holdfast.core.turn_failures import CUT_CALL, refuses_request
from holdfast.middleware.hook_calls import has_enabled_hooks
from holdfast.middleware.hook_contexts import ModelCall
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
from holdfast.runtime.hooks.around_model import (
    begin_iteration,
    call_after_reply,
    call_before_iteration,
    notice_replaced_reply,
    wrap_model_call,
)
from holdfast.runtime.hooks.between_effects import make_stop_event
from holdfast.runtime.spending import CallMeter, end_at_cost
from holdfast.runtime.streams.live_text import filter_partial
from holdfast.runtime.toolsets import offer_tools, offered_names
from holdfast.runtime.turn_state.turn_hooks import Iteration
from holdfast.tools.registry import shorten_name
from holdfast.tools.results import replace_surrogates
from holdfast.tools.tool_failures import error_text

_log = logging.getLogger("holdfast")

SHARED_LIMIT_TEXT = "The limit of tokens of the agent that it works for is reached."


async def call_model(
    run: ActiveTurn, effect: CallModel
) -> ModelReplied | ModelFailed | ResultsWithheld | TurnStopped:
    """Call the model through the pipeline of strategies, with the hooks around it.

    A hook can stop the turn before the model is called, or give a reply in place of the model's. After
    a request that the provider's filter refused, the effect stays pending if results can be withheld.

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
            if isinstance(outcome, Done) and outcome.value.kind is ReplyKind.TRUNCATED:
                outcome = _end_second_cut(run, call, outcome)
            if hooks.chain.wrap_model:
                notice_replaced_reply(hooks, iteration, call, outcome)
    except (MiddlewareError, ConfigurationError) as error:
        outcome = failed_outcome(error)
    if isinstance(outcome, Failed) and _may_withhold(run, outcome):
        return _withhold_results(run, outcome)
    return await _end_call(run, effect, call, outcome)


async def _end_call(
    run: ActiveTurn, effect: CallModel, call: ModelCall, outcome: Outcome[Reply]
) -> ModelReplied | ModelFailed:
    """Call the hooks after the model call, and return the event that ends it."""
    hooks, iteration = run.hooks, run.hooks.iteration
    if iteration is None:
        raise HoldfastBug("a model call ends in no iteration")
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
    carry, ask, meter = plan.carry, plan.ask_model, None
    if run.money is not None:
        meter = run.money.begin_call()
        carry = msgspec.structs.replace(carry, meter=meter)
    if meter is not None or run.scopes is not None:
        ask = plan.ask_wrapped(meter is not None, run.scopes is not None)
    try:
        outcome = await ask(CallContext(call.key, request, env, run.deadline, carry=carry))
    except Exception as error:
        outcome = make_unexpected(error)
    if meter is not None:
        outcome = end_at_cost(outcome, meter)
    iteration.asked = outcome
    return outcome


def _record_reply(
    run: ActiveTurn, effect: CallModel, outcome: Done[Reply], called_by: str
) -> ModelReplied:
    lost, meter, offered = lost_usage(outcome), None, offered_names(run)
    if run.money is not None or run.context.parent is not None:
        meter = _end_metered_call(run, outcome.value, lost)
    return ModelReplied(
        key=effect.key,
        at=run.plan.clock.now(),
        reply=outcome.value,
        attempts=outcome.attempts,
        tried=outcome.tried if meter is None else meter.name_costs(outcome.tried),
        lost=lost,
        cost=None if meter is None else meter.cost,
        offered=offered if offered is None or outcome.value.calls else None,
        by=called_by,
    )


def _record_failure(run: ActiveTurn, effect: CallModel, outcome: Failed) -> ModelFailed:
    outcome = clean_failure(run, outcome)
    run.error = outcome.error
    _log.warning("model call %s of run %s failed: %s", effect.key, run.run_id, log_detail(outcome))
    if run.recovery is not None:
        run.recovery.check_failure(outcome.error, outcome.info, outcome.tried)
    arrived = filter_partial(run, _partial_of(outcome))
    if isinstance(outcome.error, HoldfastError):
        outcome.error.partial = arrived
    lost = lost_usage(outcome)
    meter = _end_metered_call(run, arrived, lost)
    return ModelFailed(
        key=effect.key,
        at=run.plan.clock.now(),
        error=outcome.info.to_public(),
        partial=arrived,
        attempts=outcome.attempts,
        tried=outcome.tried if meter is None else meter.name_costs(outcome.tried),
        lost=lost,
        cost=None if meter is None else meter.cost,
    )


def _may_withhold(run: ActiveTurn, outcome: Failed) -> bool:
    """Whether to ask again without the new results, which the provider's filter may have refused."""
    if run.hooks.wants_to_end() or not refuses_request(outcome.info, _partial_of(outcome)):
        return False
    return bool(run.machine.turn_history.find_new_results(run.machine.transcript))


def _withhold_results(run: ActiveTurn, outcome: Failed) -> ResultsWithheld:
    """Return the event after which the same effect is performed again, with another history."""
    machine, results = (
        run.machine,
        run.machine.turn_history.find_new_results(run.machine.transcript),
    )
    outcome = clean_failure(run, outcome)
    key = withheld_key(machine.turn, machine.iteration)
    _log.warning("results are withheld at %s of run %s: %s", key, run.run_id, log_detail(outcome))
    arrived, lost = _partial_of(outcome), lost_usage(outcome)
    meter = _end_metered_call(run, arrived, lost)
    if arrived is not None:
        lost = arrived.usage + (lost or Usage())
    run.hooks.iteration = None  # it has not ended, so the hooks after it are not called yet
    return ResultsWithheld(
        key=key,
        at=run.plan.clock.now(),
        error=outcome.info.to_public(),
        tools=tuple(result.name for result in results),
        attempts=outcome.attempts,
        tried=outcome.tried if meter is None else meter.name_costs(outcome.tried),
        lost=lost,
        cost=None if meter is None else meter.cost,
    )


def _partial_of(outcome: Failed) -> Reply | None:
    return outcome.error.partial if isinstance(outcome.error, HoldfastError) else None


def _end_metered_call(run: ActiveTurn, reply: Reply | None, lost: Usage | None) -> CallMeter | None:
    """End a model call: add what a subagent used and paid to its caller, and return its meter."""
    meter = run.money.end_call() if run.money is not None else None
    parent = run.context.parent.meter if run.context.parent is not None else None
    if parent is not None:
        used = reply.usage if reply is not None else NO_USAGE
        parent.add(used if lost is None else used + lost, None if meter is None else meter.cost)
    return meter


def _end_second_cut(run: ActiveTurn, call: ModelCall, outcome: Done[Reply]) -> Outcome[Reply]:
    """Return the failure of a reply that was cut within a call of the same tool as an earlier one.

    The model was asked for a shorter call and did not write one, and each further reply would be paid.
    """
    reply = outcome.value
    name = reply.calls[-1].name if reply.calls else ""
    if name not in run.machine.cut_tools:
        return outcome
    most, spent = call.settings.max_tokens, reply.usage.output
    limit = f" of {most:,} tokens" if most else f" after {spent:,} tokens" if spent else ""
    text = (
        f"The call of '{shorten_name(name)}' was cut at the output limit{limit} for the second time. "
        "Raise settings.max_tokens, or let the tool take its work in smaller pieces"
    )
    info = ErrorInfo(
        category=ErrorCategory.TRUNCATED, safe=text, code=CUT_CALL, landed=Landed.UNKNOWN
    )
    error = TruncatedError(text, info=info, partial=reply)
    return Failed(error, info, attempts=outcome.attempts, tried=outcome.tried, carry=outcome.carry)


def _make_over_limit(run: ActiveTurn) -> Failed:
    """Build the failure for a limit that was reached and not extended; the model is not called."""
    limit = run.machine.limits.iterations
    return _make_limit_failure(ITERATION_LIMIT_TEXT.format(max_iterations=limit), "iterations")


def _make_limit_failure(text: str, limit: str) -> Failed:
    error = LimitError(text, limit=limit)
    info = ErrorInfo(category=ErrorCategory.LIMIT, safe=text, code=limit, landed=Landed.NO)
    return Failed(error, info, attempts=0, sent=False)


def make_unexpected(error: Exception) -> Failed:
    """Return the failure of a call that an unexpected exception stopped."""
    if isinstance(error, HoldfastError):
        return Failed(error, read_error_info(error))
    name = type(error).__name__
    info = ErrorInfo(
        category=ErrorCategory.PROGRAMMING,
        safe=f"An unexpected {name} stopped this call; the log has the details.",
        private=redact(f"{name}: {error_text(error)}"),
        code=name,
    )
    return Failed(error, info)


def clean_failure(run: ActiveTurn, failure: Failed) -> Failed:
    """Remove the secrets of the agent's models, which a tool or another provider may also know."""
    secrets = run.plan.secrets
    if isinstance(failure.error, HoldfastError):
        clean_error(failure.error, secrets)
    return msgspec.structs.replace(failure, info=clean_info(failure.info, secrets))


def log_detail(outcome: Failed) -> str:
    """Return the text of a failure for the log, which may be written in UTF-8."""
    return replace_surrogates(outcome.info.private or outcome.info.safe)
