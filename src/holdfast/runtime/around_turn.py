"""Begins and ends a turn, with the hooks before and after it, and returns its result or raises.

A message that a hook denies before the turn is saved in the journal, unless the hook forbids that,
and is not sent to a model. For the result of an earlier turn, the records of its run are replayed up to
its end. The deps live as long as the turn. This module must never inspect an effect.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from functools import partial
from inspect import isawaitable, isroutine
from typing import Any

import msgspec

from holdfast.core.effects import RunTool, accepted_key, closed_key, model_key, turn_key
from holdfast.core.errors import (
    ErrorCategory,
    ErrorInfo,
    HoldfastError,
    StoppedError,
    exception_for,
)
from holdfast.core.events import (
    HistoryCompacted,
    ModelFailed,
    ModelReplied,
    ResultsWithheld,
    SessionRewound,
    Status,
    TurnAccepted,
    TurnInterrupted,
    TurnOpened,
    TurnStopped,
)
from holdfast.core.machine import SessionMachine
from holdfast.core.messages import Message, Reply, ToolResult
from holdfast.core.notices import TurnContinued
from holdfast.core.session_state import Phase
from holdfast.core.turn_options import InterruptedRun, TurnOptions
from holdfast.journal.port import Record
from holdfast.middleware.hook_calls import call_after, has_enabled_hooks
from holdfast.middleware.hook_contexts import AfterTurn, InstructionsContext
from holdfast.resilience.pipeline import Done, Outcome, failed_outcome
from holdfast.runtime.active_turn import ActiveTurn, TurnContext
from holdfast.runtime.hooks.before_turn import begin_acceptance, call_before_turn
from holdfast.runtime.hooks.rule_checks import find_unmatched_rules
from holdfast.runtime.open_runs.suspension import find_suspended_keys
from holdfast.runtime.plan import AgentPlan
from holdfast.runtime.result import Result
from holdfast.runtime.toolsets import restore_offer
from holdfast.runtime.turn_state.turn_hooks import Iteration


async def start_turn(run: ActiveTurn, message: Message) -> None:
    """Call the hooks before a turn, and open the turn.

    Raises:
        StoppedError: a hook denied the message and forbids to save it; nothing was saved.
        MiddlewareError: a hook or a function of the instructions failed; nothing was saved.
    """
    hooks = run.hooks
    hooks.set_turn(run.machine.turn + 1)
    if run.plan.instructions.fixed is None:
        hooks.instructions = await _write_instructions(run, message)
    mine = hooks.chain.before_turn
    if not mine or not has_enabled_hooks(mine, hooks.facts):
        await _open_turn(run, message)
        return
    key, earlier = accepted_key(hooks.facts.turn), run.machine.transcript.snapshot()
    done, asked = begin_acceptance(hooks, key, message, earlier), False
    try:
        await call_before_turn(hooks, done)
    except BaseException as error:
        if find_suspended_keys(error) is None:
            raise
        asked = True
    hooks.instructions = done.context.instructions
    await _open_turn(run, done.context.message, done.hooks_called if asked else None)


async def try_again(run: ActiveTurn) -> None:
    """Open a turn that continues where the last one failed.

    Its `before_turn` hooks accepted the message before, and are not called again.
    """
    run.hooks.set_turn(run.machine.turn + 1)
    run.hooks.instructions = await _read_instructions(run)
    await _open_turn(run, None)


def _open_turn(
    run: ActiveTurn, message: Message | None, hooks_called: int | None = None
) -> Awaitable[None]:
    hooks = run.hooks
    own = hooks.instructions if hooks.instructions != run.plan.instructions.fixed else None
    end = None
    if hooks.stop is not None:
        # Saved together, so that a turn that is stopped here cannot continue after a crash.
        end = hooks.stop_event(hooks.facts.turn, run.plan.clock.now())
    return run.open_turn(message, own, end=end, hooks_called=hooks_called)


async def continue_turn(run: ActiveTurn) -> None:
    """Take over a turn that has already begun. Its `before_turn` hooks are not called again."""
    machine = run.machine
    if machine.has_begun_tools:
        left = [effect.key for effect in machine.pending_effects()]
        run.effects.leave(left)
        run.effects.put_in_doubt(set(left) - machine.questions.rerunnable_askers)
    run.take_over()
    if run.emit is not None and machine.phase is not Phase.IDLE:
        run.emit(TurnContinued(turn_key(machine.turn), machine.opened_at))
    run.hooks.set_turn(machine.turn, machine.iteration)
    if run.plan.toolsets and machine.phase is Phase.TOOLS:
        await restore_offer(run)
    run.hooks.instructions = await _read_instructions(run)
    run.hooks.enter_iteration(await _restore_iteration(run))


async def _write_instructions(run: ActiveTurn, message: Message) -> str:
    """Call the functions of the instructions. Raises MiddlewareError when one of them fails."""
    facts = run.hooks.facts
    context = InstructionsContext(facts, turn_key(facts.turn), message, run.machine.transcript)
    return await run.plan.instructions.write_text(context)


async def _read_instructions(run: ActiveTurn) -> str:
    """Return the instructions of the last turn, as they were when it was opened."""
    fixed = run.plan.instructions.fixed
    if fixed is not None and not run.hooks.chain.before_turn:
        return fixed
    for record in reversed(await run.log.read()):
        event = record.event
        if isinstance(event, TurnAccepted) and event.instructions is not None:
            return event.instructions
        if isinstance(event, TurnOpened):
            return await _restore_instructions(run, event)
    return fixed or ""


async def _restore_instructions(run: ActiveTurn, opened: TurnOpened) -> str:
    """Return the instructions that a turn was opened with; None stands for those of the agent."""
    if opened.instructions is not None:
        return opened.instructions
    if run.plan.instructions.fixed is not None:
        return run.plan.instructions.fixed
    # The turn began when the instructions of the agent were a text, which the journal does not have.
    said = (one for one in reversed(run.machine.transcript) if one.role == "user")
    message = opened.message or next(said, Message("user", ()))
    return await _write_instructions(run, message)


async def _restore_iteration(run: ActiveTurn) -> Iteration | None:
    """Restore the iteration that was interrupted, in its tools, its check or after them.

    The journal does not say whether the hooks after the reply and after the iteration were called,
    so they are called again.
    """
    machine, now = run.machine, run.plan.clock.monotonic()
    if machine.phase is Phase.CLOSING:
        return await _restore_last_iteration(run)
    if machine.phase is Phase.TOOLS:
        number, results = machine.iteration, dict(machine.copy_state().results)
    elif machine.phase is Phase.OUTPUT:
        number, results = machine.iteration, {}
    elif type(machine.last_event) is ResultsWithheld:
        return None  # the hooks after the iteration were called before the request that was refused
    elif machine.phase is Phase.MODEL and machine.iteration:
        number, results = machine.iteration - 1, _collect_results(machine.transcript[-1])
    else:
        return None
    key = model_key(machine.turn, number)
    outcome = Done(machine.reply, 0) if machine.reply is not None else None
    iteration = Iteration(number, key, now, outcome, results)
    for effect in machine.pending_effects():
        if isinstance(effect, RunTool) and not iteration.calls:
            iteration.output_call = effect.call
    return iteration


async def _restore_last_iteration(run: ActiveTurn) -> Iteration | None:
    """Restore the iteration with which the turn ends; None if it was stopped or interrupted."""
    machine = run.machine
    if not run.hooks.chain.after_iteration:
        return None
    for record in reversed(await run.log.read()):
        event = record.event
        if isinstance(event, TurnOpened | TurnStopped | TurnInterrupted):
            return None
        if not isinstance(event, ModelReplied | ModelFailed):
            continue
        outcome: Outcome[Reply]
        if isinstance(event, ModelReplied):
            outcome, results = Done(event.reply, 0), _collect_results(machine.transcript[-1])
        else:
            outcome, results = failed_outcome(exception_for(event.error, event.partial)), {}
        number = machine.model_calls - 1
        return Iteration(number, event.key, run.plan.clock.monotonic(), outcome, results)
    return None


def _collect_results(last: Message) -> dict[int, ToolResult]:
    found = [part for part in last.parts if isinstance(part, ToolResult)]
    return dict(enumerate(found))


async def call_after_turn(run: ActiveTurn) -> None:
    """Call the hooks after a turn that is over. Raises MiddlewareError when one of them fails."""
    hooks, mine = run.hooks, run.hooks.chain.after_turn
    if run.machine.phase is not Phase.IDLE:
        return  # a turn that waits for an answer is not over
    await _notify_unmatched_rules(run)
    hooks.set_turn(hooks.facts.turn, max(run.machine.model_calls - 1, 0))
    if not mine or not has_enabled_hooks(mine, hooks.facts):
        return
    result = run.build_result()
    context = AfterTurn(
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
    _, error = await call_after(mine, context, hooks.apply_stop)
    if error is not None:
        error.result = result
        raise error


def finish_turn(run: ActiveTurn) -> Result[Any]:
    """Return the result of a turn.

    Raises:
        HoldfastError: the turn did not complete; `.result` is its result.
    """
    result = run.build_result()
    if result.status is Status.COMPLETED:
        return result
    end = run.machine.stop_event
    refused = end is not None and end.refused
    stopped = result.status is Status.STOPPED and run.plan.output is None
    if (stopped and not refused) or result.status is Status.WAITING:
        return result
    raise _build_failure(run, result)


def _build_failure(run: ActiveTurn, result: Result[Any]) -> HoldfastError:
    """Build the exception of a turn that did not complete, with its result and its cause."""
    cause = run.error
    if result.status is Status.STOPPED:
        stopped = StoppedError(result.text, reason=result.stop_reason)
        stopped.result = result
        return stopped
    info = result.error or ErrorInfo(category=ErrorCategory.UNKNOWN, safe="The turn failed.")
    if isinstance(cause, HoldfastError) and info.category is cause.info.category:
        error = cause
    else:
        error = exception_for(info, run.machine.partial)
        error.__cause__ = cause
    if run.plan.output is not None:
        from holdfast.runtime.output_check import add_output_details  # only for typed output

        error = add_output_details(run, error)
    error.result = result
    return error


async def _notify_unmatched_rules(run: ActiveTurn) -> None:
    """Send a notice for each permission rule whose tool was never offered in this turn.

    Only for an agent with toolsets: the rules of any other were checked when it was made.
    """
    plan, key, offered = run.plan, turn_key(run.machine.turn), set[str]()
    if not plan.toolsets or not plan.chain.middlewares:
        return
    for record in await run.log.read():
        event = record.event
        if isinstance(event, ModelReplied) and event.key.startswith(f"{key}.i"):
            offered.update(event.offered or ())
    if not offered:
        return  # the model was not called, or was offered nothing that a rule could match
    for notice in find_unmatched_rules(key, plan.chain.middlewares, plan.registry, offered):
        run.hooks.facts.emit(notice)


async def add_default_deps(context: TurnContext, run_id: str, plan: AgentPlan) -> TurnContext:
    """Return the context of a turn with the deps of its agent, if none were passed for it.

    Raises:
        ConfigurationError: a function returned something that the agent does not take.
        Exception: the function raised it.
    """
    if context.deps is not None or plan.default_deps is None:
        return context
    deps = await find_deps(run_id, None, context.options, plan)
    return msgspec.structs.replace(context, deps=deps)


def is_function_of_run(deps: object, deps_type: type[object] | None) -> bool:
    """Whether `deps` is a function that returns the deps of a run, and not the deps themselves."""
    if deps_type is not None and isinstance(deps, deps_type):
        return False
    return isroutine(deps) or isinstance(deps, partial)


async def find_deps(run_id: str, deps: Any, options: TurnOptions, plan: AgentPlan) -> object:
    """Return the deps of a run: those that were passed for it, or those of its agent.

    Raises:
        ConfigurationError: a function returned something that the agent does not take.
        Exception: the function raised it.
    """
    deps = plan.default_deps if deps is None else deps
    if not is_function_of_run(deps, plan.deps_type):
        return deps
    found = deps(InterruptedRun(run_id, options.metadata))
    found = await found if isawaitable(found) else found
    plan.check_deps(found)
    return found


def is_latest_turn(machine: SessionMachine, key: str) -> bool:
    """Whether no other turn and no change of the history came after this turn."""
    return turn_key(machine.turn) == key


def find_last_try(records: Sequence[Record], key: str) -> str:
    """Return the key of the last turn that tried a turn again, or of the turn itself.

    Args:
        records: the records of the run.
        key: the key of the turn.
    """
    for record in records:
        event = record.event
        if isinstance(event, TurnOpened | SessionRewound | HistoryCompacted):
            number = _parse_number(event.key)
            if number == _parse_number(key) + 1:
                if not isinstance(event, TurnOpened) or event.message is not None:
                    break
                key = event.key
    return key


def _parse_number(key: str) -> int:
    return int(key.removeprefix("t"))


def replay_turn(records: Sequence[Record], key: str) -> SessionMachine:
    """Return the machine as it was when a turn ended.

    Args:
        records: the records of the run.
        key: the key of the turn, which has ended.
    """
    machine = SessionMachine()
    end = closed_key(_parse_number(key))
    for record in records:
        machine.apply(record.event)
        if record.event.key == end:
            break
    return machine
