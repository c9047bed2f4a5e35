"""Toolsets: the tools that they offer before each model call, and their lifespans.

A function of a toolset may choose its tools. The names that a model was offered are saved with its
reply. So the calls of the reply are checked against them also after a crash, whatever the functions
return then.

A lifespan is opened with the first turn that needs it, and closed after the last. Each event loop has
its own, because a connection belongs to one loop. A lifespan is entered and left in one task, which
some libraries require. This module must never run a tool.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from operator import is_
from typing import TypeVar

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
from holdfast.tools.toolset import Lifespan, Toolset, join_tools

A = TypeVar("A")
_log = logging.getLogger("holdfast")
_closing: set[asyncio.Task[None]] = set()


class _OpenResource:
    """One lifespan on one event loop: the task that holds it open, and the number of its users."""

    __slots__ = ("_close", "_opened", "_task", "users")

    def __init__(self, lifespan: Lifespan, toolset: str) -> None:
        self.users = 0
        self._close = asyncio.Event()
        self._opened: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._hold_open(lifespan, toolset))

    async def _hold_open(self, lifespan: Lifespan, toolset: str) -> None:
        try:
            async with AsyncExitStack() as stack:
                limit = asyncio.timeout(HOOK_TIMEOUT)
                async with limit:
                    value = await stack.enter_async_context(lifespan())
                if not self._opened.done():
                    self._opened.set_result(value)
                await self._close.wait()
        except asyncio.CancelledError:
            self._opened.cancel()
            raise
        except Exception as error:  # noqa: BLE001  # REASON: the lifespan is the user's code
            self._note_failure(error, toolset)

    def _note_failure(self, error: Exception, toolset: str) -> None:
        kind = type(error).__name__
        private = redact(f"{kind}: {error}")
        if self._opened.done():
            _log.warning("the lifespan of toolset %s failed to close: %s", toolset, private)
            return
        failure = MiddlewareError(
            "toolset", f"{toolset}.lifespan", f"raised {kind}", private=private
        )
        failure.__cause__ = error
        self._opened.set_exception(failure)

    async def wait_until_open(self) -> object:
        """Return the value that the lifespan has yielded. Raises MiddlewareError when it failed."""
        return await asyncio.shield(self._opened)

    async def close(self) -> None:
        """Leave the lifespan, and wait until that is done."""
        self._close.set()
        if not self._opened.done():
            self._task.cancel()  # nobody waits for it any more
        _closing.add(self._task)
        self._task.add_done_callback(_closing.discard)
        await asyncio.wait([self._task])


class ResourcePool:
    """The open lifespans of one agent."""

    __slots__ = ("_kept", "_open")

    def __init__(self) -> None:
        self._open: dict[tuple[asyncio.AbstractEventLoop, Lifespan], _OpenResource] = {}
        self._kept: dict[asyncio.AbstractEventLoop, list[AsyncExitStack]] = {}

    async def enter(self, lifespans: Mapping[Lifespan, str], owner: A) -> A:
        """Keep lifespans open until `leave` is called on the same event loop; return the owner."""
        stack = AsyncExitStack()
        await stack.enter_async_context(self.keep_open(lifespans))
        self._kept.setdefault(asyncio.get_running_loop(), []).append(stack)
        return owner

    async def leave(self) -> None:
        """Release the lifespans of the last `enter` on this event loop."""
        loop = asyncio.get_running_loop()
        stack = self._kept[loop].pop()
        if not self._kept[loop]:
            del self._kept[loop]
        await stack.aclose()

    @asynccontextmanager
    async def keep_open(
        self, lifespans: Mapping[Lifespan, str]
    ) -> AsyncIterator[Mapping[Lifespan, object]]:
        """Keep lifespans open, and yield the value of each.

        Args:
            lifespans: the lifespans, each with the name of its toolset.

        Raises:
            MiddlewareError: a lifespan raised, or did not open in time.
        """
        async with AsyncExitStack() as stack:
            yield {
                lifespan: await stack.enter_async_context(self._use(lifespan, toolset))
                for lifespan, toolset in lifespans.items()
            }

    @asynccontextmanager
    async def _use(self, lifespan: Lifespan, toolset: str) -> AsyncIterator[object]:
        key = (asyncio.get_running_loop(), lifespan)
        resource = self._open.get(key)
        if resource is None:
            resource = self._open[key] = _OpenResource(lifespan, toolset)
        resource.users += 1
        try:
            yield await resource.wait_until_open()
        finally:
            resource.users -= 1
            if not resource.users:
                del self._open[key]
                await resource.close()


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
    try:
        async with limit:
            return await toolset.list_tools(context, run.resources)
    except ConfigurationError:
        raise
    except Exception as error:  # REASON: the functions are the user's code
        kind = type(error).__name__
        problem = f"raised {kind}"
        if limit.expired():
            problem = f"did not list its tools within {HOOK_TIMEOUT:g} s"
        private = redact(f"{kind}: {error}")
        raise MiddlewareError("toolset", toolset.name, problem, private=private) from error


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
