"""The loop, to be read first: ask what is pending, perform it, commit what happened, ask again.

It must never decide: what happens next is the machine's, how it is done is that of `perform`.
"""

from __future__ import annotations

import asyncio
from functools import partial

from holdfast.core.effects import Effect, RunTool, begun_key
from holdfast.core.events import ToolsBegun
from holdfast.resilience.timeout.pausable_timeout import pausable_timeout
from holdfast.runtime import perform
from holdfast.runtime.active_turn import ActiveTurn
from holdfast.runtime.finalize import finalize_turn
from holdfast.runtime.hooks.between_effects import call_between_hooks, hooks_idle
from holdfast.runtime.suspension import has_suspended, mark_suspended, runnable


async def drive_turn(run: ActiveTurn) -> None:
    """Perform what can be performed; a run that is stopped from outside is closed first."""
    limit = asyncio.timeout(run.time_left())
    try:
        async with limit:
            with pausable_timeout(limit) as run.questions.turn_timeout:
                await _run_until_idle(run)
    except TimeoutError:
        if not limit.expired():
            raise
        await finalize_turn(run, "deadline")
    except asyncio.CancelledError:
        await finalize_turn(run, "cancelled")
        raise


async def _run_until_idle(run: ActiveTurn) -> None:
    while effects := run.machine.pending_effects():
        if has_suspended(run) and not (effects := await runnable(run, effects)):
            return
        if not hooks_idle(run) and await call_between_hooks(run, effects):
            continue
        if isinstance(effects[0], RunTool):
            await _run_tools(run, effects)
        else:
            await _run_effect(run, effects[0])


async def _run_effect(run: ActiveTurn, effect: Effect) -> None:
    run.started_effects.add(effect.key)
    try:
        await run.commit(await perform.perform_effect(run, effect), effect)
        run.started_effects.discard(effect.key)
    except BaseException as error:
        if not mark_suspended(run, (effect,), error):
            raise


async def _run_tools(run: ActiveTurn, effects: tuple[Effect, ...]) -> None:
    """Run the tools of one reply together, at most `parallel_tools` at once."""
    if not (machine := run.machine).has_begun_tools:
        key, at = begun_key(machine.turn, machine.iteration), run.plan.clock.now()
        await run.commit(ToolsBegun(key, at))
    if len(effects) == 1:
        await _run_effect(run, effects[0])
        return
    most = run.plan.parallel_tools
    act = _run_effect if len(effects) <= most else partial(_run_in_slot, asyncio.Semaphore(most))
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(act(run, effect)) for effect in effects]
    except BaseExceptionGroup as several:
        raise several.exceptions[0] from None
    if any(task.cancelled() for task in tasks):
        raise asyncio.CancelledError  # by itself: the group says nothing of it


async def _run_in_slot(slots: asyncio.Semaphore, run: ActiveTurn, effect: Effect) -> None:
    async with slots:
        await _run_effect(run, effect)
