"""A model call with the hooks around it.

The hooks stand outside of retry, cache and fallback: they see one call and how it ended, whatever
that took. This module must never decide what a failure means.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

import msgspec

from holdfast.core.effects import CallModel
from holdfast.core.errors import ErrorCategory, HoldfastError, MiddlewareError
from holdfast.core.events import TurnStopped
from holdfast.core.messages import Reply
from holdfast.core.request import ModelRequest
from holdfast.middleware.chain import Hook, Waiting, begin, call, call_after, onion
from holdfast.middleware.decisions import Decision, Patch, Stop, UseReply
from holdfast.middleware.moments import AfterReply, BeforeIteration, ModelCall, OnError
from holdfast.resilience.pipeline import Done, Failed, Outcome, failed
from holdfast.runtime.hooked import Hooked, Iteration
from holdfast.runtime.hooked_between import end_of
from holdfast.runtime.hooked_live import Ask, watched
from holdfast.runtime.run import Run


async def around_model(
    run: Run, hooks: Hooked, effect: CallModel, request: ModelRequest, ask: Ask
) -> Outcome[Reply] | TurnStopped:
    """Call the hooks, and the model between them unless one decides otherwise."""
    began = hooks.facts.clock()
    this = hooks.iteration = Iteration(effect.iteration, effect.key, began)
    moment = _moment(run, hooks, effect, request)
    replaced = False
    if hooks.chain.live:
        hooks.asked = moment
        ask = watched(ask, moment)
    if hooks.chain.on_context_window:
        ask = _shortening(ask, hooks, moment)
    try:
        moment = await _before(hooks, moment)
        if (end := end_of(run, hooks)) is not None:
            return end
        if moment.reply is not None:
            replaced = True
            outcome: Outcome[Reply] = Done(moment.reply, 0)
        elif hooks.chain.wrap_model:
            outcome = await _through_wraps(hooks, moment, request, partial(ask, run, effect))
        else:
            outcome = await ask(run, effect, _request(request, moment))
    except MiddlewareError as error:
        outcome = failed(error)
    outcome = await _after(hooks, moment, outcome, replaced=replaced)
    if isinstance(outcome, Done):
        this.reply, this.calls = outcome.value, outcome.value.calls
    else:
        this.exception = outcome.error
    return outcome


def _moment(run: Run, hooks: Hooked, effect: CallModel, request: ModelRequest) -> ModelCall:
    return ModelCall(
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


async def _before(hooks: Hooked, moment: ModelCall) -> ModelCall:
    for hook in hooks.chain.before_iteration:
        decision = begin(hook, moment)
        if decision is None:
            continue
        if isinstance(decision, Waiting) and (decision := await decision.end()) is None:
            continue
        if isinstance(decision, Stop):
            hooks.ask_to_stop(hook, decision)
            return moment
        moment = _patched(moment, decision)
    return moment


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
    ask: Callable[[ModelRequest], Awaitable[Outcome[Reply]]],
) -> Outcome[Reply]:
    last: list[Outcome[Reply]] = []

    async def act(inner: BeforeIteration) -> Reply:
        outcome = await ask(_request(request, inner))
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


def _shortening(ask: Ask, hooks: Hooked, moment: ModelCall) -> Ask:
    """Asks once more, with less, when the context window is too small and a hook says what."""

    async def ask_again(run: Run, effect: CallModel, request: ModelRequest) -> Outcome[Reply]:
        outcome = await ask(run, effect, request)
        if not isinstance(outcome, Failed) or not _is_too_much(outcome):
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
                return await ask(run, effect, _request(request, _patched(sent, patch)))
        return outcome

    return ask_again


def _is_too_much(outcome: Failed) -> bool:
    return outcome.info.category is ErrorCategory.CONTEXT_WINDOW


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


async def _after(
    hooks: Hooked, asked: ModelCall, outcome: Outcome[Reply], *, replaced: bool
) -> Outcome[Reply]:
    chain = hooks.chain
    if isinstance(outcome, Failed) and chain.on_error:
        await _tell_error(hooks, asked, outcome)
    if not chain.after_reply:
        return outcome
    moment = AfterReply(
        hooks.facts,
        asked.key,
        asked.iteration,
        asked.messages,
        asked.instructions,
        asked.settings,
        outcome.value if isinstance(outcome, Done) else None,
        outcome.error if isinstance(outcome, Failed) else None,
        hooks.facts.clock() - (hooks.iteration.began if hooks.iteration else 0.0),
        replaced,
    )

    def take(seen: AfterReply, hook: Hook, decision: Decision) -> AfterReply:
        if isinstance(decision, UseReply):
            return msgspec.structs.replace(
                seen, reply=decision.as_reply(), exception=None, replaced=True
            )
        hooks.ask_to_stop(hook, decision)
        return seen

    seen, error = await call_after(chain.after_reply, moment, take)
    if error is not None:
        error.partial = seen.reply
        return failed(error)
    if seen.reply is None or seen.reply is moment.reply:
        return outcome
    return Done(seen.reply, outcome.attempts, outcome.tried, outcome.lost)


async def _tell_error(hooks: Hooked, asked: ModelCall, outcome: Failed) -> None:
    moment = OnError(hooks.facts, asked.key, asked.iteration, outcome.error, outcome.info)

    def take(same: OnError, hook: Hook, decision: Decision) -> OnError:
        hooks.ask_to_stop(hook, decision)
        return same

    _, error = await call_after(hooks.chain.on_error, moment, take)
    hooks.fail(error)
