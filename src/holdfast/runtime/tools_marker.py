"""The marker event that the tools of a reply begin. After a crash, it means they are in doubt.

The marker must be saved before the first tool begins. It must never be saved for a turn that ends
before its tools.
"""

from __future__ import annotations

from holdfast.core.effects import begun_key
from holdfast.core.events import Event, ModelReplied, ToolsBegun
from holdfast.runtime.active_turn import ActiveTurn
from holdfast.runtime.hooks.between_effects import has_hooks_before_tools


def make_marker(run: ActiveTurn) -> ToolsBegun:
    """Make the marker of the current iteration."""
    key = begun_key(run.machine.turn, run.machine.iteration)
    return ToolsBegun(key, run.plan.clock.now())


def marker_after(run: ActiveTurn, event: Event) -> ToolsBegun | None:
    """Return the marker to save with this event, if it is a reply whose tools begin directly."""
    if type(event) is not ModelReplied or not run.machine.allows_tools(event.reply):
        return None
    return None if has_hooks_before_tools(run) else make_marker(run)
