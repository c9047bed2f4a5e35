"""A model call with the hooks around it.

The hooks stand outside of retry, cache and fallback: they see one call and how it ended, whatever
that took. This module must never decide what a failure means.
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
from holdfast.core.request import ModelRequest
from holdfast.middleware.calling import (
    Acting,
    acting,
    call,
    call_after,
    call_each,
    collected,
    onion,
)
from holdfast.middleware.chain import Hook
from holdfast.middleware.decisions import Decision, Patch, Stop, UseReply
from holdfast.middleware.moments import AfterReply, BeforeIteration, ModelCall, OnError
from holdfast.resilience.pipeline import Done, Failed, Outcome, failed
from holdfast.runtime.hooked import Hooked, Iteration
from holdfast.runtime.hooked_between import end_of
from holdfast.runtime.hooked_live import Ask, watched
from holdfast.runtime.run import Run

AskAgain: TypeAlias = Callable[[ModelRequest], Awaitable[Outcome[Reply]]]


async def around_model(
    run: Run, hooks: Hooked, effect: CallModel, request: ModelRequest, ask: Ask
) -> Outcome[Reply] | TurnStopped:
    """Call the hooks, and the model between them unless one decides otherwise."""
    chain, clock = hooks.chain, hooks.facts.clock  # a callable field is called fastest by a name
    this = hooks.iteration = Iteration(effect.iteration, effect.key, clock())
    asked = moment = ModelCall(
        hooks.facts,
        effect.key,
        effect.iteration,
        request.messages,
        request.instructions,
        request.settings,
        request.tools,
        run.machine.usage,
        run.machine.limits,
    )
    replaced = False
    if chain.live:
        hooks.asked = moment
        ask = watched(ask, moment)
        await run.until_kept()
    try:
        if (first := acting(chain.before_iteration, moment)) is not None:
            await run.until_kept()
            moment = await call_each(first, moment, partial(_taken, hooks))
            if (end := end_of(run, hooks)) is not None:
                return end
        if moment.reply is not None:
            replaced = True
            outcome: Outcome[Reply] = Done(moment.reply, 0)
        elif chain.wrap_model:
            await run.until_kept()
            outcome = await _through_wraps(hooks, moment, request, partial(ask, run, effect))
        else:
            sent = request if moment is asked else _request(request, moment)
            outcome = await ask(run, effect, sent)
            if isinstance(outcome, Failed):
                await run.until_kept()
                outcome = await _with_less(hooks, moment, sent, partial(ask, run, effect), outcome)
    except MiddlewareError as error:
        outcome = failed(error)
    if isinstance(outcome, Failed):
        await run.until_kept()
        await _tell_error(hooks, moment, outcome)
    if (after := _after_reply(hooks, moment, outcome, this.began, replaced=replaced)) is not None:
        await run.until_kept()
        outcome = await _after(hooks, *after, outcome)
    this.outcome = outcome
    return outcome


def _taken(hooks: Hooked, seen: ModelCall, hook: Hook, decision: Decision) -> ModelCall | None:
    if isinstance(decision, Stop):
        hooks.ask_to_stop(hook, decision)
        return None
    return _patched(seen, decision)


def _patched(moment: ModelCall, decision: Decision) -> ModelCall:
    if isinstance(decision, UseReply):
        return msgspec.structs.replace(moment, reply=decision.as_reply())
    if isinstance(decision, Patch):
        given = {
            name: value
            for name in ("messages", "instructions", "settings", "tools")
            if (value := getattr(decision, name)) is not None
        }
        return msgspec.structs.replace(moment, **given)
    return moment


async def _through_wraps(
    hooks: Hooked,
    moment: ModelCall,
    request: ModelRequest,
    ask: AskAgain,
) -> Outcome[Reply]:
    last: list[Outcome[Reply]] = []

    async def act(inner: BeforeIteration) -> Reply:
        sent = _request(request, inner)
        outcome = await ask(sent)
        if isinstance(outcome, Failed):
            outcome = await _with_less(hooks, moment, sent, ask, outcome)
        last[:] = [outcome]
        if isinstance(outcome, Done):
            return outcome.value
        raise outcome.error

    try:
        reply: Reply = await onion(hooks.chain.wrap_model, act)(moment)
    except Exception as error:
        if last and isinstance(last[0], Failed) and last[0].error is error:
            return last[0]
        if isinstance(error, HoldfastError):
            return failed(error)
        raise
    before = last[0] if last else Done(reply, 0)
    return Done(reply, before.attempts, before.tried, before.lost)


async def _with_less(
    hooks: Hooked, moment: ModelCall, request: ModelRequest, ask: AskAgain, outcome: Failed
) -> Outcome[Reply]:
    """Ask once more, with less, when the context window was too small and a hook says what."""
    if outcome.info.category is not ErrorCategory.CONTEXT_WINDOW:
        return outcome
    sent = msgspec.structs.replace(
        moment,
        messages=request.messages,
        instructions=request.instructions,
        settings=request.settings,
        tools=request.tools,
    )
    for hook in hooks.chain.on_context_window:
        if (patch := await call(hook, sent)) is not None:
            return await ask(_request(request, _patched(sent, patch)))
    return outcome


def _request(request: ModelRequest, moment: BeforeIteration) -> ModelRequest:
    """What the model is asked after all patches."""
    if moment.messages is request.messages and moment.instructions is request.instructions:
        same = moment.settings is request.settings and moment.tools is request.tools
        if same:
            return request
    return msgspec.structs.replace(
        request,
        messages=moment.messages,
        instructions=moment.instructions,
        settings=moment.settings,
        tools=moment.tools,
    )


def _after_reply(
    hooks: Hooked, asked: ModelCall, outcome: Outcome[Reply], began: float, *, replaced: bool
) -> tuple[Acting, AfterReply] | None:
    """The first hook after the reply that may have something to do, and what it sees."""
    mine, clock = hooks.chain.after_reply, hooks.facts.clock
    if not mine:
        return None
    moment = AfterReply(
        hooks.facts,
        asked.key,
        asked.iteration,
        asked.messages,
        asked.instructions,
        asked.settings,
        outcome.value if isinstance(outcome, Done) else None,
        outcome.error if isinstance(outcome, Failed) else None,
        clock() - began,
        replaced,
    )
    first = acting(mine, moment)
    return (first, moment) if first is not None else None


async def _after(
    hooks: Hooked, first: Acting, moment: AfterReply, outcome: Outcome[Reply]
) -> Outcome[Reply]:
    failures: list[MiddlewareError] = []
    seen = await call_each(first, moment, partial(_judged, hooks), failures)
    if failures:
        error = collected("after_reply", failures)
        error.partial = seen.reply
        return failed(error)
    if seen.reply is None or seen.reply is moment.reply:
        return outcome
    return Done(seen.reply, outcome.attempts, outcome.tried, outcome.lost)


def _judged(hooks: Hooked, seen: AfterReply, hook: Hook, decision: Decision) -> AfterReply:
    if isinstance(decision, UseReply):
        return msgspec.structs.replace(
            seen, reply=decision.as_reply(), exception=None, replaced=True
        )
    hooks.ask_to_stop(hook, decision)
    return seen


async def _tell_error(hooks: Hooked, asked: ModelCall, outcome: Failed) -> None:
    if not hooks.chain.on_error:
        return
    moment = OnError(hooks.facts, asked.key, asked.iteration, outcome.error, outcome.info)

    def take(same: OnError, hook: Hook, decision: Decision) -> OnError:
        hooks.ask_to_stop(hook, decision)
        return same

    _, error = await call_after(hooks.chain.on_error, moment, take)
    hooks.fail(error)
