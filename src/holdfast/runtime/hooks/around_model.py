"""The hooks around a model call: before it, around it, and after it.

The hooks run outside of retry, cache and fallback: they see one call and its final outcome, however
many attempts it took. This module must never judge a failure.
"""

from __future__ import annotations

from functools import partial

import msgspec

from holdfast.core.effects import CallModel
from holdfast.core.errors import ErrorCategory, HoldfastError, MiddlewareError
from holdfast.core.messages import Reply, Usage
from holdfast.core.notices import ReplyReplaced
from holdfast.middleware.chain import Hook
from holdfast.middleware.decisions import CallTools, Decision, Patch, Stop, UseReply
from holdfast.middleware.hook_calls import (
    call_after,
    call_each,
    call_hook,
    collect_failures,
    has_enabled_hooks,
)
from holdfast.middleware.hook_contexts import AfterReply, ModelCall, OnError
from holdfast.resilience.pipeline import Done, Failed, Outcome, failed_outcome
from holdfast.runtime.active_turn import ActiveTurn
from holdfast.runtime.hooks.wrapping import wrap_with_hooks
from holdfast.runtime.streams.live_text import AskModel, ModelOperation, with_live_filters
from holdfast.runtime.turn_state.turn_hooks import Iteration, TurnHooks

_NO_USAGE = Usage()


def begin_iteration(run: ActiveTurn, effect: CallModel) -> tuple[Iteration, ModelCall]:
    """Begin an iteration; returns it, and the context of its first hook."""
    plan, machine, hooks = run.plan, run.machine, run.hooks
    this = Iteration(effect.iteration, effect.key, plan.clock.monotonic())
    hooks.enter_iteration(this)
    call = hooks.model_call = ModelCall(
        facts=hooks.facts,
        key=effect.key,
        iteration=effect.iteration,
        messages=machine.transcript.snapshot(),
        instructions=hooks.instructions,
        settings=plan.settings,
        tools=plan.registry.specs,
        usage=machine.usage,
        limits=machine.limits,
    )
    return this, call


async def call_before_iteration(hooks: TurnHooks, call: ModelCall) -> ModelCall:
    """Call the hooks before the model; returns the call as they changed it.

    `reply` is set if a hook gave a reply in place of the model's. A hook may also end the turn.

    Raises:
        MiddlewareError: a hook failed.
    """
    return await call_each(hooks.chain.before_iteration, call, partial(_apply_decision, hooks))


def _apply_decision(
    hooks: TurnHooks, seen: ModelCall, hook: Hook, decision: Decision
) -> ModelCall | None:
    if isinstance(decision, Stop):
        hooks.ask_to_stop(hook, decision)
        return None
    if isinstance(decision, UseReply | CallTools):
        reply = _replace_reply(hooks, hook, decision, seen)
        return msgspec.structs.replace(seen, reply=reply)
    return _patch_call(seen, decision)


def _replace_reply(
    hooks: TurnHooks,
    hook: Hook,
    decision: UseReply | CallTools,
    seen: ModelCall | AfterReply,
    usage: Usage = _NO_USAGE,
) -> Reply:
    """Return the reply of a decision, and note whether code made its calls.

    Args:
        hooks: the hooks of the turn.
        hook: the hook that decided.
        decision: its return value.
        seen: its argument.
        usage: the tokens of a reply that tool calls replace.
    """
    if isinstance(decision, CallTools):
        called_by, reply = hook.owner, decision.as_reply(seen.run_id, seen.key, usage)
    else:
        called_by, reply = "", decision.as_reply()
    if hooks.iteration is not None:
        hooks.iteration.called_by = called_by
    return reply


def _patch_call(call: ModelCall, decision: Decision) -> ModelCall:
    if isinstance(decision, Patch):
        names = ("messages", "instructions", "settings", "tools")
        fields = {name: getattr(decision, name) for name in names}
        given = {name: value for name, value in fields.items() if value is not None}
        return msgspec.structs.replace(call, **given)
    return call


def wrap_model_call(run: ActiveTurn, ask: AskModel) -> ModelOperation:
    """Return the model call with the hooks around it.

    From the outside to the inside: the wrap hooks, another call with a smaller request if the
    context window is too small, and the live filters.

    Args:
        run: the turn.
        ask: asks the model.
    """
    chain = run.hooks.chain
    operation = with_live_filters(run, ask) if chain.live else partial(ask, run.env)
    if chain.on_context_window:
        operation = partial(_ask_with_less, run.hooks, operation)
    return wrap_with_hooks(chain.wrap_model, operation) if chain.wrap_model else operation


def notice_replaced_reply(
    hooks: TurnHooks, this: Iteration, call: ModelCall, outcome: Outcome[Reply]
) -> None:
    """Notify the reader of the stream when the wrap hooks replaced the reply of the model.

    Args:
        hooks: the hooks of the turn.
        this: the iteration, with the outcome of the model.
        call: the call.
        outcome: the outcome of the wrap hooks.
    """
    asked = this.asked
    if asked is None or not isinstance(outcome, Done):
        return
    if not isinstance(asked, Done) or asked.value is not outcome.value:
        _emit_replacement(hooks, call)


def _emit_replacement(hooks: TurnHooks, call: ModelCall) -> None:
    """Notify the reader of the stream that the streamed text is void, unless a live filter edited it."""
    if hooks.chain.live:
        return
    hooks.facts.emit(ReplyReplaced(call.key))
    if hooks.iteration is not None:
        hooks.iteration.is_replaced = True


async def _ask_with_less(hooks: TurnHooks, ask: ModelOperation, call: ModelCall) -> Outcome[Reply]:
    """Ask once more after a context window error, if a hook returns a smaller request."""
    outcome = await ask(call)
    if not isinstance(outcome, Failed) or outcome.info.category is not ErrorCategory.CONTEXT_WINDOW:
        return outcome
    for hook in hooks.chain.on_context_window:
        patch = await call_hook(hook, call)
        if patch is not None:
            return await ask(_patch_call(call, patch))
    return outcome


async def call_after_reply(
    hooks: TurnHooks, this: Iteration, call: ModelCall, outcome: Outcome[Reply]
) -> Outcome[Reply]:
    """Call the hooks after the model call; returns its outcome as they changed it.

    Args:
        hooks: the hooks of the turn.
        this: the iteration.
        call: the call as the hooks before it changed it.
        outcome: its outcome.
    """
    if isinstance(outcome, Failed):
        await _call_on_error(hooks, call, outcome)
    mine = hooks.chain.after_reply
    if not mine or not has_enabled_hooks(mine, hooks.facts):
        return outcome
    context = AfterReply(
        facts=hooks.facts,
        key=call.key,
        iteration=call.iteration,
        messages=call.messages,
        instructions=call.instructions,
        settings=call.settings,
        reply=outcome.value if isinstance(outcome, Done) else None,
        exception=outcome.error if isinstance(outcome, Failed) else None,
        seconds=hooks.facts.clock() - this.started_at,
        replaced=isinstance(outcome, Done) and not outcome.attempts,
    )
    failures: list[MiddlewareError] = []
    seen = await call_each(mine, context, partial(_apply_after_reply, hooks), failures)
    if failures:
        error = collect_failures("after_reply", failures)
        error.partial = seen.reply
        return failed_outcome(error)
    if seen.reply is None or seen.reply is context.reply:
        return outcome
    _emit_replacement(hooks, call)
    return Done(seen.reply, outcome.attempts, outcome.tried, outcome.carry)


def _apply_after_reply(
    hooks: TurnHooks, seen: AfterReply, hook: Hook, decision: Decision
) -> AfterReply:
    if isinstance(decision, UseReply | CallTools):
        reply = _replace_reply(hooks, hook, decision, seen, _usage_of(seen))
        return msgspec.structs.replace(seen, reply=reply, exception=None, replaced=True)
    hooks.ask_to_stop(hook, decision)
    return seen


def _usage_of(seen: AfterReply) -> Usage:
    """Return the tokens of the reply, or of its part that arrived before it failed."""
    reply = seen.reply
    if reply is None and isinstance(seen.exception, HoldfastError):
        reply = seen.exception.partial
    return reply.usage if reply is not None else _NO_USAGE


async def _call_on_error(hooks: TurnHooks, call: ModelCall, outcome: Failed) -> None:
    if not has_enabled_hooks(hooks.chain.on_error, hooks.facts):
        return
    context = OnError(
        facts=hooks.facts,
        key=call.key,
        iteration=call.iteration,
        exception=outcome.error,
        info=outcome.info,
    )
    _, error = await call_after(hooks.chain.on_error, context, hooks.apply_stop)
    hooks.record_failure(error)
