"""The marker that the tools of a reply begin: with it, a crash leaves their outcome in doubt.

It must be saved before the first of the tools begins, and never for a turn that ends before them.
"""

from __future__ import annotations

from holdfast.core.effects import begun_key
from holdfast.core.events import Event, ModelReplied, ToolsBegun
from holdfast.runtime.active_turn import ActiveTurn
from holdfast.runtime.hooks.between_effects import may_act_before_tools


def make_marker(run: ActiveTurn) -> ToolsBegun:
    """The marker of the iteration that is under way."""
    key = begun_key(run.machine.turn, run.machine.iteration)
    return ToolsBegun(key, run.plan.clock.now())


def marker_after(run: ActiveTurn, event: Event) -> ToolsBegun | None:
    """The marker that is saved together with this event: with a reply whose tools begin directly."""
    if type(event) is not ModelReplied or not run.machine.allows_tools(event.reply):
        return None
    return None if may_act_before_tools(run) else make_marker(run)
