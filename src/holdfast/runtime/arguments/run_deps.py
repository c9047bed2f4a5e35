"""The deps of a run: those that were passed for it, or those of its agent.

This module must never keep deps: they live as long as the turn.
"""

from __future__ import annotations

from functools import partial
from inspect import isawaitable, isroutine
from typing import Any

import msgspec

from holdfast.core.turn_options import InterruptedRun, TurnOptions
from holdfast.runtime.active_turn import TurnContext
from holdfast.runtime.plan import AgentPlan


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
