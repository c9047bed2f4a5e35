"""The loop, to be read first: ask what is pending, perform it, commit what happened, ask again.

It must never decide: what happens next is the machine's, how it is done is that of `perform`.
"""

from __future__ import annotations

import asyncio
from functools import partial

from holdfast.core.effects import Effect, RunTool, begun_key
from holdfast.core.events import ToolsBegun
from holdfast.resilience.patience import pausable
from holdfast.runtime import perform
from holdfast.runtime.hooked_between import ended_between, passed_by
from holdfast.runtime.run import Run
from holdfast.runtime.settle import settle
from holdfast.runtime.waiting import awake, left_to_wait, somebody_waits


async def drive(run: Run) -> None:
    """Perform what can be performed; a run that is stopped from outside is closed first."""
    limit = asyncio.timeout(run.time_left())
    try:
        async with limit:
            with pausable(limit) as run.questions.patience:
                await _until_idle(run)
    except TimeoutError:
        if not limit.expired():
            raise
        await settle(run, "deadline")
    except asyncio.CancelledError:
        await settle(run, "cancelled")
        raise


async def _until_idle(run: Run) -> None:
    while effects := run.machine.pending():
        if somebody_waits(run) and not (effects := await awake(run, effects)):
            return
        if not passed_by(run) and await ended_between(run, effects):
            continue
        if isinstance(effects[0], RunTool):
            await _batch(run, effects)
        else:
            await _one(run, effects[0])


async def _one(run: Run, effect: Effect) -> None:
    run.started.add(effect.key)
    try:
        await run.commit(await perform.perform(run, effect), effect)
        run.started.discard(effect.key)
    except BaseException as error:
        if not left_to_wait(run, (effect,), error):
            raise


async def _batch(run: Run, effects: tuple[Effect, ...]) -> None:
    """Run the tools of one reply together, at most `parallel_tools` at once."""
    if not (machine := run.machine).begun:
        key, at = begun_key(machine.turn, machine.iteration), run.plan.clock.now()
        await run.commit(ToolsBegun(key, at))
    if len(effects) == 1:
        await _one(run, effects[0])
        return
    most = run.plan.parallel_tools
    act = _one if len(effects) <= most else partial(_in_place, asyncio.Semaphore(most))
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(act(run, effect)) for effect in effects]
    except BaseExceptionGroup as several:
        raise several.exceptions[0] from None
    if any(task.cancelled() for task in tasks):
        raise asyncio.CancelledError  # by itself: the group says nothing of it


async def _in_place(places: asyncio.Semaphore, run: Run, effect: Effect) -> None:
    async with places:
        await _one(run, effect)
