"""Toolsets: the tools that they offer before each model call.

A function of a toolset may choose its tools. The names that a model was offered are saved with its
reply. So the calls of the reply are checked against them also after a crash, whatever the functions
return then.

A function that raises may have found a dead resource. So the resources of its toolset are opened anew, and it is
called once more. This module must never run a tool.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from operator import is_

from holdfast.core.effects import model_key
from holdfast.core.errors import ConfigurationError, MiddlewareError
from holdfast.core.events import ModelReplied
from holdfast.core.redaction import redact
from holdfast.middleware.hook_contexts import ToolsetContext
from holdfast.middleware.hooks import HOOK_TIMEOUT
from holdfast.runtime.active_turn import ActiveTurn
from holdfast.runtime.compile import finish_registry
from holdfast.tools.registry import Registry
from holdfast.tools.tool import Tool
from holdfast.tools.tool_search import FoundTools
from holdfast.tools.toolset import Toolset, join_tools

_log = logging.getLogger("holdfast")


async def offer_tools(run: ActiveTurn, iteration: int) -> None:
    """List the tools of an iteration, and set them in the plan of the turn.

    Raises:
        MiddlewareError: a function of a toolset failed.
        ConfigurationError: two tools have the same name, or a tool cannot be offered.
    """
    _set_tools(run, await _list_tools(run, iteration))


async def restore_offer(run: ActiveTurn) -> None:
    """Set the tools of the iteration in progress, of which the model was offered no others.

    A tool that its toolset does not list any more is left out: its call fails as that of an unknown
    tool, or is in doubt if it had begun.

    Raises:
        MiddlewareError: a function of a toolset failed; the turn is not changed.
    """
    machine = run.machine
    key = model_key(machine.turn, machine.iteration)
    for record in reversed(await run.log.read()):
        event = record.event
        if isinstance(event, ModelReplied) and event.key == key:
            listed = await _list_tools(run, machine.iteration)
            offered = event.offered
            kept = [
                one for one in listed if offered is None or not one.offered or one.name in offered
            ]
            _set_tools(run, tuple(kept))
            return


async def _list_tools(run: ActiveTurn, iteration: int) -> tuple[Tool, ...]:
    context: ToolsetContext[object] = ToolsetContext(
        facts=run.hooks.facts,
        key=model_key(run.machine.turn, iteration),
        iteration=iteration,
        messages=run.machine.transcript.snapshot(),
        has_tool_search=all(getattr(one, "has_tool_search", False) for one in run.plan.models),
    )
    groups = [("the tools of the agent", run.fixed_tools.tools)]
    groups += [
        (f"toolset {toolset.name!r}", await _list_toolset(toolset, context, run))
        for toolset in run.plan.toolsets
    ]
    return _put_found_last(run, context, join_tools(groups))


def _put_found_last(
    run: ActiveTurn, context: ToolsetContext[object], tools: tuple[Tool, ...]
) -> tuple[Tool, ...]:
    """Return the tools with those that a search has found at the end.

    What is before them stays the same, and with it what a provider has cached of earlier requests.
    """
    searches = [one for one in run.plan.chain.middlewares if isinstance(one, FoundTools)]
    found = {name for one in searches for name in context.state_of(one)}
    if not found:
        return tools
    return tuple(sorted(tools, key=lambda one: one.name in found))


async def _list_toolset(
    toolset: Toolset, context: ToolsetContext[object], run: ActiveTurn
) -> tuple[Tool, ...]:
    """List the tools of one toolset, or raise MiddlewareError with its name."""
    limit = asyncio.timeout(HOOK_TIMEOUT)
    run.resources.take_recent()
    try:
        async with limit:
            try:
                return await toolset.list_tools(context, run.resources.find)
            except (ConfigurationError, MiddlewareError):
                raise
            except Exception as error:  # REASON: as below
                if not _mark_dead(toolset, run, error):
                    raise
            return await toolset.list_tools(context, run.resources.find)
    except (ConfigurationError, MiddlewareError):
        raise
    except Exception as error:  # REASON: the functions are the user's code
        _mark_dead(toolset, run, error)
        kind = type(error).__name__
        problem = f"raised {kind}"
        if limit.expired():
            problem = f"did not list its tools within {HOOK_TIMEOUT:g} s"
        private = redact(f"{kind}: {error}")
        raise MiddlewareError("toolset", toolset.name, problem, private=private) from error


def _mark_dead(toolset: Toolset, run: ActiveTurn, error: Exception) -> bool:
    """Mark the resources of a list of tools that failed; return whether it had any."""
    resources = run.resources.take_recent()
    for one in resources:
        one.reopen()
    if resources:
        _log.warning(
            "the tools of toolset %s could not be listed, so its lifespan is opened anew: %s",
            toolset.name,
            redact(f"{type(error).__name__}: {error}"),
        )
    return bool(resources)


def _set_tools(run: ActiveTurn, tools: tuple[Tool, ...]) -> None:
    plan = run.plan
    known = plan.registry.tools
    if len(known) == len(tools) and all(map(is_, known, tools)):
        return  # the specifications stay the same objects, which are encoded once
    registry = finish_registry(Registry(tools), plan.output, plan.chain, is_complete=False)
    run.plan = replace(plan, registry=registry)


def offered_names(run: ActiveTurn) -> tuple[str, ...] | None:
    """Return the names that the journal must know; None when no function decides about tools."""
    return run.plan.registry.names if run.plan.toolsets else None
