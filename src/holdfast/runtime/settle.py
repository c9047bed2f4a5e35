"""Closes a turn that was stopped from outside, so that its history tells what was attempted.

It must never run a tool or ask a model: all that is left is to write down how it ended.
"""

from __future__ import annotations

from typing import Literal

from holdfast.core.effects import interrupted_key
from holdfast.core.events import TurnInterrupted
from holdfast.core.run_state import Phase
from holdfast.runtime.hooked_live import as_shown
from holdfast.runtime.perform import perform
from holdfast.runtime.run import Run


async def settle(run: Run, reason: Literal["cancelled", "deadline"]) -> None:
    """Close the turn.

    Args:
        run: whose turn; `started` says which tools had begun, so that their outcome is unknown.
        reason: who stopped it.
    """
    if run.machine.phase not in (Phase.IDLE, Phase.CLOSING):
        key, begun = interrupted_key(run.machine.turn), tuple(sorted(run.started))
        at = run.plan.clock.now()
        await run.commit(
            TurnInterrupted(
                key, at, reason, begun, as_shown(run, run.cut.partial), run.spent_in_tools()
            )
        )
    for effect in run.machine.pending():
        await run.commit(await perform(run, effect), effect)


async def settle_left(run: Run) -> None:
    """Close a turn that another process, or a failing journal, left: what had begun is in doubt."""
    machine = run.machine
    if machine.begun:
        unbegun = machine.questions.unbegun
        run.started.update(effect.key for effect in machine.pending() if effect.key not in unbegun)
    await settle(run, "cancelled")
