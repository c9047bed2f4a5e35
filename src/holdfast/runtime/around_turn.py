"""Runs one turn with the hooks before and after it.

A message that a hook denies before the turn is saved neither in the journal nor in the history.
This module must never inspect an effect.
"""

from __future__ import annotations

from functools import partial

import msgspec

from holdfast.core.effects import closed_key, model_key, turn_key
from holdfast.core.errors import MiddlewareError, StoppedError
from holdfast.core.events import TurnOpened
from holdfast.core.messages import Message, ToolResult
from holdfast.core.questions import AnyQuestion, Timeout
from holdfast.core.session_state import Phase
from holdfast.middleware.chain import Hook
from holdfast.middleware.decisions import Decision, Deny, Patch, Stop
from holdfast.middleware.hook_calls import call_after, call_hook
from holdfast.middleware.hook_contexts import AfterTurn, BeforeTurn, RunFacts
from holdfast.resilience.pipeline import Done
from holdfast.resilience.timeout.pausable_timeout import pausable_timeout
from holdfast.runtime.active_turn import ActiveTurn
from holdfast.runtime.driver import drive_turn
from holdfast.runtime.hooks.between_effects import get_stop_event
from holdfast.runtime.turn_state.turn_hooks import Iteration, TurnHooks


async def start_turn(run: ActiveTurn, message: Message) -> None:
    """Open a turn and drive it, with the hooks before and after it.

    Raises:
        StoppedError: a hook denied the message; nothing was saved.
        MiddlewareError: a `before_turn` hook failed and nothing was saved, or an `after_turn` hook
            failed.
    """
    hooks = _build_hooks(run, run.machine.turn + 1)
    if hooks is None:
        await run.open_turn(message)
        await drive_turn(run)
        return
    moment = await _call_before_turn(run, hooks, message)
    hooks.instructions = moment.instructions
    run.hooks = hooks
    own = moment.instructions if moment.instructions != run.plan.instructions else None
    await run.open_turn(moment.message, own)
    if (end := get_stop_event(run, hooks)) is not None:
        await run.log.commit(end)
    await drive_turn(run)
    await _call_after_turn(run, hooks)


async def continue_turn(run: ActiveTurn) -> None:
    """Continue a turn that has already begun. Its `before_turn` hooks are not called again.

    Raises:
        MiddlewareError: an `after_turn` hook failed.
    """
    hooks = _build_hooks(run, run.machine.turn)
    if hooks is None:
        await drive_turn(run)
        return
    run.hooks = hooks
    hooks.instructions = await _read_instructions(run)
    hooks.iteration = _restore_iteration(run)
    await drive_turn(run)
    await _call_after_turn(run, hooks)


async def _read_instructions(run: ActiveTurn) -> str:
    """Return the instructions of the turn, as its hooks set them when it was opened."""
    key = turn_key(run.machine.turn)
    for record in reversed(await run.log.read()):
        event = record.event
        if isinstance(event, TurnOpened) and event.key == key:
            return run.plan.instructions if event.instructions is None else event.instructions
    return run.plan.instructions


def _restore_iteration(run: ActiveTurn) -> Iteration | None:
    """Restore the iteration that was interrupted, in its tools or before the next model call.

    The journal does not tell whether the hooks after the reply were called, so they are called
    again.
    """
    machine, now = run.machine, run.plan.clock.monotonic()
    if machine.phase is Phase.TOOLS:
        number, results = machine.iteration, dict(machine.copy_state().results)
    elif machine.phase is Phase.MODEL and machine.iteration:
        number, results = machine.iteration - 1, _collect_results(machine.transcript[-1])
    else:
        return None
    key = model_key(machine.turn, number)
    outcome = Done(machine.reply, 0) if machine.reply is not None else None
    return Iteration(number, key, now, outcome, results)


def _collect_results(last: Message) -> dict[int, ToolResult]:
    found = [part for part in last.parts if isinstance(part, ToolResult)]
    return dict(enumerate(found))


def _build_hooks(run: ActiveTurn, turn: int) -> TurnHooks | None:
    """Build the hooks of the turn; None for an agent without middleware."""
    plan, folds = run.plan, run.log.folds
    if plan.chain is None or folds is None:
        return None
    facts = RunFacts(
        agent=plan.name,
        run_id=run.run_id,
        session=run.context.session,
        deps=run.context.deps,
        turn=turn,
        states=folds.view,
        clock=plan.clock.monotonic,
        now=plan.clock.now,
        emit=run.env.emit,
        ask=partial(_ask_question, run),
        pausable_timeout=pausable_timeout,
    )
    return TurnHooks(plan.chain, folds, facts, plan.instructions)


async def _ask_question(
    run: ActiveTurn, key: str, request: AnyQuestion, timeout: Timeout
) -> object:
    return await run.questions.make_hook_asker(run)(key, 1, request, timeout)


async def _call_before_turn(run: ActiveTurn, hooks: TurnHooks, message: Message) -> BeforeTurn:
    key = turn_key(hooks.facts.turn)
    history = run.machine.transcript
    moment = BeforeTurn(hooks.facts, key, message, history, hooks.instructions)
    for hook in hooks.chain.before_turn:
        decision = await call_hook(hook, moment)
        if isinstance(decision, Deny):
            raise StoppedError(decision.reason, reason="denied")
        if isinstance(decision, Stop):
            hooks.ask_to_stop(hook, decision)
            break
        if isinstance(decision, Patch):
            moment = _patch_turn(hook, moment, decision)
    return moment


def _patch_turn(hook: Hook, context: BeforeTurn, patch: Patch) -> BeforeTurn:
    said = context.message
    if patch.messages is not None:
        if len(patch.messages) != 1 or patch.messages[0].role != "user":
            problem = "returned Patch(messages=...) that is not one user message"
            raise MiddlewareError(hook.owner, hook.name, problem)
        said = patch.messages[0]
    if patch.settings is not None or patch.tools is not None:
        problem = "returned Patch with settings or tools; those belong to before_iteration"
        raise MiddlewareError(hook.owner, hook.name, problem)
    instructions = context.instructions if patch.instructions is None else patch.instructions
    return msgspec.structs.replace(context, message=said, instructions=instructions)


async def _call_after_turn(run: ActiveTurn, hooks: TurnHooks) -> None:
    if not hooks.chain.after_turn or run.machine.phase is not Phase.IDLE:
        return  # a turn that waits for an answer is not over
    result = run.build_result()
    moment = AfterTurn(
        facts=hooks.facts,
        key=closed_key(hooks.facts.turn),
        status=result.status,
        text=result.text,
        usage=result.usage,
        iterations=result.iterations,
        error=result.error,
        exception=run.error,
        stop_reason=result.stop_reason,
    )
    _, error = await call_after(hooks.chain.after_turn, moment, _ignore_decision)
    if error is not None:
        error.result = result
        raise error


def _ignore_decision(same: AfterTurn, _hook: Hook, _decision: Decision) -> AfterTurn:
    return same
