"""The arguments of the methods that continue a turn, checked before it continues.

This module must not start a run.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from inspect import isawaitable, isroutine
from typing import Any

from msgspec import Struct

from holdfast.core.turn_options import InterruptedRun, TurnOptions
from holdfast.runtime.plan import AgentPlan
from holdfast.runtime.turn_state.plan_changes import NO_CHANGES, PlanChanges, read_changes


class ContinuedTurn(Struct, frozen=True, kw_only=True):
    """What a caller passes to continue a turn; see `Agent.resume`."""

    run_id: str = ""
    deps: Any = None
    changes: PlanChanges = NO_CHANGES


def read_continued_turn(run_id: str, output: object, keywords: Mapping[str, Any]) -> ContinuedTurn:
    """Return the arguments of a method that continues a turn. Raises ConfigurationError."""
    if output is None and not keywords:
        return ContinuedTurn(run_id=run_id)
    changes = read_changes({"output": output, **keywords})
    return ContinuedTurn(run_id=run_id, deps=keywords.get("deps"), changes=changes)


def is_function_of_run(deps: object, deps_type: type[object] | None) -> bool:
    """Whether `deps` is a function that returns the deps of a run, and not the deps themselves."""
    if deps_type is not None and isinstance(deps, deps_type):
        return False
    return isroutine(deps) or isinstance(deps, partial)


async def find_deps(run_id: str, deps: Any, options: TurnOptions, plan: AgentPlan) -> object:
    """Return the deps of a run that continues.

    Raises:
        ConfigurationError: a function returned something that the agent does not take.
        Exception: the function raised it.
    """
    if not is_function_of_run(deps, plan.deps_type):
        return deps
    found = deps(InterruptedRun(run_id, options.metadata))
    found = await found if isawaitable(found) else found
    plan.check_deps(found)
    return found
