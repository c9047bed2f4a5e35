"""Calls the model with the hooks around it.

The hooks run outside of retry, cache and fallback: they see one call and its final outcome, however
many attempts it took. This module must never decide what a failure means.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeAlias

import msgspec

from holdfast.core.effects import CallModel
from holdfast.core.errors import ErrorCategory, HoldfastError, MiddlewareError
from holdfast.core.events import TurnStopped
from holdfast.core.messages import Reply
from holdfast.core.model_request import ModelRequest
from holdfast.middleware.chain import Hook
from holdfast.middleware.decisions import Decision, Patch, Stop, UseReply
from holdfast.middleware.hook_calls import (
    PendingHooks,
    call_after,
    call_each,
    call_hook,
    collect_failures,
    find_pending_hooks,
    wrap_with_hooks,
)
from holdfast.middleware.hook_contexts import AfterReply, BeforeIteration, ModelCall, OnError
from holdfast.resilience.pipeline import Done, Failed, Outcome, failed_outcome
from holdfast.runtime.active_turn import ActiveTurn
from holdfast.runtime.hooks.between_effects import get_stop_event
from holdfast.runtime.live_text import AskModel, with_live_filters
from holdfast.runtime.turn_state.turn_hooks import Iteration, TurnHooks

AskAgain: TypeAlias = Callable[[ModelRequest], Awaitable[Outcome[Reply]]]


async def around_model(
    run: ActiveTurn, hooks: TurnHooks, effect: CallModel, request: ModelRequest, ask: AskModel
) -> Outcome[Reply] | TurnStopped:
    """Call the hooks before the model, the model, and the hooks after it.

    A hook can stop the turn before the model is called, or give a reply in place of the model's.
    """
    chain, clock = hooks.chain, hooks.facts.clock  # local names: calling a callable field is slower
    this = hooks.iteration = Iteration(effect.iteration, effect.key, clock())
    asked = moment = ModelCall(
        facts=hooks.facts,
        key=effect.key,
        iteration=effect.iteration,
        messages=request.messages,
        instructions=request.instructions,
        settings=request.settings,
        tools=request.tools,
        usage=run.machine.usage,
        limits=run.machine.limits,
    )
    replaced = False
    if chain.live:
        hooks.model_call = moment
        ask = with_live_filters(ask, moment)
    try:
        if (first := find_pending_hooks(chain.before_iteration, moment)) is not None:
            moment = await call_each(first, moment, partial(_apply_decision, hooks))
            if (end := get_stop_event(run, hooks)) is not None:
                return end
        if moment.reply is not None:
            replaced = True
            outcome: Outcome[Reply] = Done(moment.reply, 0)
        elif chain.wrap_model:
            outcome = await _call_through_wraps(hooks, moment, request, partial(ask, run, effect))
        else:
            sent = request if moment is asked else _patch_request(request, moment)
            outcome = await ask(run, effect, sent)
            if isinstance(outcome, Failed):
                outcome = await _retry_with_less(
                    hooks, moment, sent, partial(ask, run, effect), outcome
                )
    except MiddlewareError as error:
        outcome = failed_outcome(error)
    if isinstance(outcome, Failed):
        await _call_on_error(hooks, moment, outcome)
    if (
        after := _prepare_after_reply(hooks, moment, outcome, this.started_at, replaced=replaced)
    ) is not None:
        outcome = await _call_after_reply(hooks, *after, outcome)
    this.outcome = outcome
    return outcome


def _apply_decision(
    hooks: TurnHooks, seen: ModelCall, hook: Hook, decision: Decision
) -> ModelCall | None:
    if isinstance(decision, Stop):
        hooks.ask_to_stop(hook, decision)
        return None
    return _patch_call(seen, decision)


def _patch_call(context: ModelCall, decision: Decision) -> ModelCall:
    if isinstance(decision, UseReply):
        return msgspec.structs.replace(context, reply=decision.as_reply())
    if isinstance(decision, Patch):
        given = {
            name: value
            for name in ("messages", "instructions", "settings", "tools")
            if (value := getattr(decision, name)) is not None
        }
        return msgspec.structs.replace(context, **given)
    return context


async def _call_through_wraps(
    hooks: TurnHooks,
    context: ModelCall,
    request: ModelRequest,
    ask: AskAgain,
) -> Outcome[Reply]:
    last: list[Outcome[Reply]] = []

    async def act(inner: BeforeIteration) -> Reply:
        sent = _patch_request(request, inner)
        outcome = await ask(sent)
        if isinstance(outcome, Failed):
            outcome = await _retry_with_less(hooks, context, sent, ask, outcome)
        last[:] = [outcome]
        if isinstance(outcome, Done):
            return outcome.value
        raise outcome.error

    try:
        reply: Reply = await wrap_with_hooks(hooks.chain.wrap_model, act)(context)
    except Exception as error:
        if last and isinstance(last[0], Failed) and last[0].error is error:
            return last[0]
        if isinstance(error, HoldfastError):
            return failed_outcome(error)
        raise
    before = last[0] if last else Done(reply, 0)
    return Done(reply, before.attempts, before.tried, before.carry)


async def _retry_with_less(
    hooks: TurnHooks, context: ModelCall, request: ModelRequest, ask: AskAgain, outcome: Failed
) -> Outcome[Reply]:
    """Ask once more after a context window error, if a hook returns a smaller request."""
    if outcome.info.category is not ErrorCategory.CONTEXT_WINDOW:
        return outcome
    sent = msgspec.structs.replace(
        context,
        messages=request.messages,
        instructions=request.instructions,
        settings=request.settings,
        tools=request.tools,
    )
    for hook in hooks.chain.on_context_window:
        if (patch := await call_hook(hook, sent)) is not None:
            return await ask(_patch_request(request, _patch_call(sent, patch)))
    return outcome


def _patch_request(request: ModelRequest, context: BeforeIteration) -> ModelRequest:
    """Return the request with the patches of all hooks."""
    if context.messages is request.messages and context.instructions is request.instructions:
        same = context.settings is request.settings and context.tools is request.tools
        if same:
            return request
    return msgspec.structs.replace(
        request,
        messages=context.messages,
        instructions=context.instructions,
        settings=context.settings,
        tools=context.tools,
    )


def _prepare_after_reply(
    hooks: TurnHooks, asked: ModelCall, outcome: Outcome[Reply], began: float, *, replaced: bool
) -> tuple[PendingHooks, AfterReply] | None:
    """Return the pending `after_reply` hooks and their context; None when there are none."""
    mine, clock = hooks.chain.after_reply, hooks.facts.clock
    if not mine:
        return None
    moment = AfterReply(
        facts=hooks.facts,
        key=asked.key,
        iteration=asked.iteration,
        messages=asked.messages,
        instructions=asked.instructions,
        settings=asked.settings,
        reply=outcome.value if isinstance(outcome, Done) else None,
        exception=outcome.error if isinstance(outcome, Failed) else None,
        seconds=clock() - began,
        replaced=replaced,
    )
    first = find_pending_hooks(mine, moment)
    return (first, moment) if first is not None else None


async def _call_after_reply(
    hooks: TurnHooks, first: PendingHooks, context: AfterReply, outcome: Outcome[Reply]
) -> Outcome[Reply]:
    failures: list[MiddlewareError] = []
    seen = await call_each(first, context, partial(_apply_after_reply, hooks), failures)
    if failures:
        error = collect_failures("after_reply", failures)
        error.partial = seen.reply
        return failed_outcome(error)
    if seen.reply is None or seen.reply is context.reply:
        return outcome
    return Done(seen.reply, outcome.attempts, outcome.tried, outcome.carry)


def _apply_after_reply(
    hooks: TurnHooks, seen: AfterReply, hook: Hook, decision: Decision
) -> AfterReply:
    if isinstance(decision, UseReply):
        return msgspec.structs.replace(
            seen, reply=decision.as_reply(), exception=None, replaced=True
        )
    hooks.ask_to_stop(hook, decision)
    return seen


async def _call_on_error(hooks: TurnHooks, asked: ModelCall, outcome: Failed) -> None:
    if not hooks.chain.on_error:
        return
    moment = OnError(hooks.facts, asked.key, asked.iteration, outcome.error, outcome.info)

    def take(same: OnError, hook: Hook, decision: Decision) -> OnError:
        hooks.ask_to_stop(hook, decision)
        return same

    _, error = await call_after(hooks.chain.on_error, moment, take)
    hooks.record_failure(error)
