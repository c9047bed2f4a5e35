"""The loop that performs pending effects until none is left. Read this file first.

The machine decides which effects come next. The module `perform` performs each of them.
"""

from __future__ import annotations

import asyncio
from functools import partial

from holdfast.core.effects import Effect, RunTool
from holdfast.resilience.timeout.pausable_timeout import PausableTimeout
from holdfast.runtime import perform
from holdfast.runtime.active_turn import ActiveTurn
from holdfast.runtime.finalize import finalize_turn
from holdfast.runtime.hooks.between_effects import (
    call_between_hooks,
    hooks_idle,
    make_marker,
    marker_after,
)
from holdfast.runtime.open_runs.suspension import find_runnable, has_suspended, mark_suspended
from holdfast.runtime.parallel import run_parallel
from holdfast.transport.port import read_silence_notes


async def drive_turn(run: ActiveTurn) -> None:
    """Perform the pending effects of a turn. Close the turn if it is cancelled or out of time."""
    limit = asyncio.timeout(run.time_left())
    try:
        async with limit:
            with PausableTimeout(limit) as run.questions.turn_timeout:
                while True:
                    effects = await _find_next_effects(run)
                    if not effects:
                        return
                    if isinstance(effects[0], RunTool):
                        await _run_tools(run, effects)
                    else:
                        await _run_effect(run, effects[0])
    except TimeoutError as error:
        if not limit.expired():
            raise
        await finalize_turn(run, "deadline", read_silence_notes(error.__cause__))
    except asyncio.CancelledError:
        await finalize_turn(run, "cancelled")
        raise


async def _find_next_effects(run: ActiveTurn) -> tuple[Effect, ...]:
    """Call the hooks between effects. No effects are left when the turn is over or waits."""
    while True:
        effects = run.machine.pending_effects()
        if effects and has_suspended(run):
            effects = await find_runnable(run, effects)
        if not effects or hooks_idle(run):
            return effects
        ended = await call_between_hooks(run, effects)
        if not ended:
            return effects


async def _run_effect(run: ActiveTurn, effect: Effect) -> None:
    """Perform one effect, then save and apply its event."""
    run.effects.start(effect.key)
    try:
        event = await perform.perform_effect(run, effect)
        await run.log.commit(event, effect, marker=marker_after(run, event))
        run.effects.finish(effect.key)
    except BaseException as error:
        if not mark_suspended(run, (effect,), error):
            raise


async def _run_tools(run: ActiveTurn, effects: tuple[Effect, ...]) -> None:
    """Run the tools of one reply concurrently, at most `parallel_tools` at once."""
    if not run.machine.has_begun_tools:
        await run.log.commit(make_marker(run, effects))
    await run_parallel(partial(_run_effect, run), effects, run.plan.parallel_tools)
