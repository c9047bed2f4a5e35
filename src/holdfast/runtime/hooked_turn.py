"""One turn with the hooks around it.

What a hook refuses before the turn is never kept: not in the journal, not in the history. This
module must never look into an effect.
"""

from __future__ import annotations

from functools import partial

import msgspec

from holdfast.core.effects import closed_key, model_key, turn_key
from holdfast.core.errors import MiddlewareError, StoppedError
from holdfast.core.events import TurnOpened
from holdfast.core.messages import Message, ToolResult
from holdfast.core.requests import AnyRequest, Timeout
from holdfast.core.run_state import Phase
from holdfast.middleware.calling import call, call_after
from holdfast.middleware.chain import Chain, Hook
from holdfast.middleware.decisions import Decision, Deny, Patch, Stop
from holdfast.middleware.folds import Folds
from holdfast.middleware.moments import AfterTurn, BeforeTurn, RunFacts
from holdfast.resilience.patience import pausable
from holdfast.resilience.pipeline import Done
from holdfast.runtime.driver import drive
from holdfast.runtime.hooked import Hooked, Iteration
from holdfast.runtime.hooked_between import end_of
from holdfast.runtime.run import Run


async def run_turn(run: Run, message: Message, chain: Chain, folds: Folds) -> None:
    """Run one turn with hooks.

    Raises:
        StoppedError: a hook refused the message; nothing was kept.
        MiddlewareError: a before hook failed, and nothing was kept; or an after hook failed.
    """
    hooks = _hooked(run, chain, folds, run.machine.turn + 1)
    moment = await _before(run, hooks, message)
    hooks.instructions = moment.instructions
    run.hooks = hooks
    own = moment.instructions if moment.instructions != run.plan.instructions else None
    await run.open(moment.message, own)
    if (end := end_of(run, hooks)) is not None:
        await run.commit(end)
    await drive(run)
    await _after(run, hooks)


async def go_on(run: Run, chain: Chain, folds: Folds) -> None:
    """Finish a turn that another process began: its before-turn hooks have had their say.

    Raises:
        MiddlewareError: an after hook failed.
    """
    run.hooks = _hooked(run, chain, folds, run.machine.turn)
    run.hooks.instructions = await _instructions(run)
    run.hooks.iteration = _iteration(run)
    await drive(run)
    await _after(run, run.hooks)


async def _instructions(run: Run) -> str:
    """The instructions of the turn, as its hooks made them when it was opened."""
    key = turn_key(run.machine.turn)
    for record in reversed(await run.journal.read(run.run_id)):
        event = record.event
        if isinstance(event, TurnOpened) and event.key == key:
            return run.plan.instructions if event.instructions is None else event.instructions
    return run.plan.instructions


def _iteration(run: Run) -> Iteration | None:
    """The iteration that another process left: its tools are under way, or the next call is.

    Whether the hooks after its reply had been called, nobody knows: they are called again.
    """
    machine, now = run.machine, run.plan.clock.monotonic()
    if machine.phase is Phase.TOOLS:
        number, results = machine.iteration, dict(machine.state().results)
    elif machine.phase is Phase.MODEL and machine.iteration:
        number, results = machine.iteration - 1, _results(machine.transcript[-1])
    else:
        return None
    key = model_key(machine.turn, number)
    outcome = Done(machine.reply, 0) if machine.reply is not None else None
    return Iteration(number, key, now, outcome, results)


def _results(last: Message) -> dict[int, ToolResult]:
    found = [part for part in last.parts if isinstance(part, ToolResult)]
    return dict(enumerate(found))


def _hooked(run: Run, chain: Chain, folds: Folds, turn: int) -> Hooked:
    plan = run.plan
    facts = RunFacts(
        plan.name,
        run.run_id,
        run.session,
        run.deps,
        turn,
        folds.view,
        plan.clock.monotonic,
        plan.clock.now,
        run.env.tell,
        partial(_ask, run),
        pausable,
    )
    return Hooked(chain, folds, facts, plan.instructions)


async def _ask(run: Run, key: str, request: AnyRequest, timeout: Timeout) -> object:
    return await run.questions.of_hooks(run)(key, 1, request, timeout)


async def _before(run: Run, hooks: Hooked, message: Message) -> BeforeTurn:
    key = turn_key(hooks.facts.turn)
    history = run.machine.transcript
    moment = BeforeTurn(hooks.facts, key, message, history, hooks.instructions)
    for hook in hooks.chain.before_turn:
        decision = await call(hook, moment)
        if isinstance(decision, Deny):
            raise StoppedError(decision.reason, reason="denied")
        if isinstance(decision, Stop):
            hooks.ask_to_stop(hook, decision)
            break
        if isinstance(decision, Patch):
            moment = _patched(hook, moment, decision)
    return moment


def _patched(hook: Hook, moment: BeforeTurn, patch: Patch) -> BeforeTurn:
    said = moment.message
    if patch.messages is not None:
        if len(patch.messages) != 1 or patch.messages[0].role != "user":
            problem = "returned Patch(messages=...) that is not one user message"
            raise MiddlewareError(hook.owner, hook.name, problem)
        said = patch.messages[0]
    if patch.settings is not None or patch.tools is not None:
        problem = "returned Patch with settings or tools; those belong to before_iteration"
        raise MiddlewareError(hook.owner, hook.name, problem)
    instructions = moment.instructions if patch.instructions is None else patch.instructions
    return msgspec.structs.replace(moment, message=said, instructions=instructions)


async def _after(run: Run, hooks: Hooked) -> None:
    if not hooks.chain.after_turn or run.machine.phase is not Phase.IDLE:
        return  # a turn that waits for an answer is not over
    result = run.result()
    moment = AfterTurn(
        hooks.facts,
        closed_key(hooks.facts.turn),
        result.status,
        result.text,
        result.usage,
        result.iterations,
        result.error,
        run.error,
        result.stop_reason,
    )
    _, error = await call_after(hooks.chain.after_turn, moment, _nothing)
    if error is not None:
        error.result = result
        raise error


def _nothing(same: AfterTurn, _hook: Hook, _decision: Decision) -> AfterTurn:
    return same
