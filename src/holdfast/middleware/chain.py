"""Compiles middlewares: for each hook, the middlewares that define it, in the order of the calls.

Everything that is known when an agent is made is decided here, once. The user chooses the order, by the
registration and by priorities. An order that cannot work is an error that names both middlewares. This module must
never call a hook (`hook_calls` does that), and must never reorder anything.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from msgspec import Struct

from holdfast.core.argument_checks import check_value
from holdfast.core.errors import ConfigurationError
from holdfast.core.events import ModelReplied
from holdfast.core.limits import Limits
from holdfast.core.messages import Reply, ToolResult
from holdfast.middleware.folds import Folds, FoldTable, find_event_kinds
from holdfast.middleware.hooks import (
    AFTER,
    ALLOWED,
    BEFORE,
    TOOL_HOOKS,
    WRAP,
    Enabled,
    Middleware,
    Neighbour,
    is_older,
)

AnyMiddleware = Middleware[Any]
"""A middleware of any state; only its fold knows the type."""


_RETURNS: dict[str, tuple[type[object], ...]] = {
    "wrap_model": (Reply,),
    "wrap_tool": (ToolResult,),
    "wrap_attempt": (ToolResult,),
}


class Hook(Struct, frozen=True):
    """One hook of one middleware, ready to be called."""

    owner: str
    name: str
    function: Callable[..., Any]
    allowed: tuple[type[object], ...]
    tools: tuple[str, ...]
    seconds: float | None
    enabled: Enabled | None
    """Whether the hook has anything to do; None means always."""

    def is_for(self, tool: str) -> bool:
        """Whether the hook applies to this tool."""
        return not self.tools or any(fnmatchcase(tool, pattern) for pattern in self.tools)


class ToolHooks(Struct, frozen=True):
    """The hooks that apply to one tool."""

    before: tuple[Hook, ...]
    wrap: tuple[Hook, ...]
    after: tuple[Hook, ...]
    attempt: tuple[Hook, ...]
    before_and_wrap: tuple[Hook, ...]


_MOST_TOOLS = 256


class Chain(Struct, frozen=True, kw_only=True):
    """The hooks of an agent: before and wrap hooks in the order of the middlewares, after hooks reversed."""

    middlewares: tuple[AnyMiddleware, ...]
    before_turn: tuple[Hook, ...]
    after_turn: tuple[Hook, ...]
    before_iteration: tuple[Hook, ...]
    on_context_window: tuple[Hook, ...]
    wrap_model: tuple[Hook, ...]
    after_reply: tuple[Hook, ...]
    after_iteration: tuple[Hook, ...]
    before_tools: tuple[Hook, ...]
    before_tool: tuple[Hook, ...]
    wrap_tool: tuple[Hook, ...]
    wrap_attempt: tuple[Hook, ...]
    after_tool: tuple[Hook, ...]
    on_error: tuple[Hook, ...]
    fold_table: FoldTable
    live: tuple[Hook, ...]
    watches_replies: bool
    """Whether a hook or a fold may end the turn after a reply, before the tools of the reply."""
    has_hooks: bool
    """Whether there is any hook; folds are not counted."""
    _of_tools: dict[str, ToolHooks] = {}

    def hooks_for_tool(self, name: str) -> ToolHooks:
        """Return the hooks for the tool that the model calls `name`, whether or not the tool exists."""
        found = self._of_tools.get(name)
        if found is None:
            kinds = (self.before_tool, self.wrap_tool, self.after_tool, self.wrap_attempt)
            before, wrap, after, attempt = (
                tuple(hook for hook in kind if hook.is_for(name)) for kind in kinds
            )
            found = ToolHooks(before, wrap, after, attempt, before + wrap)
            if len(self._of_tools) < _MOST_TOOLS:  # a model may invent any number of names
                self._of_tools[name] = found
        return found

    @property
    def has_state(self) -> bool:
        """Whether a middleware has a fold."""
        return bool(self.fold_table.middlewares)

    @property
    def has_session_state(self) -> bool:
        """Whether a fold lasts longer than a turn."""
        return any(middleware.scope == "session" for middleware in self.fold_table.middlewares)

    def new_folds(self) -> Folds:
        """Return the states of the middlewares before the first event."""
        return Folds(self.fold_table)

    def describe(self) -> list[str]:
        """Return a line for each middleware with its settings, then one for each hook in call order."""
        lines = []
        for middleware in self.middlewares:
            settings = ", ".join(f"{name}={value}" for name, value in middleware.describe().items())
            lines.append(f"{middleware.name}: {settings}" if settings else middleware.name)
        for name in (*BEFORE, *WRAP, *AFTER, "live"):
            hooks: tuple[Hook, ...] = getattr(self, name)
            if hooks:
                lines.append(f"{name}: {' > '.join(hook.owner for hook in hooks)}")
        return lines


def compile_chain(middlewares: Sequence[AnyMiddleware]) -> Chain:
    """Check the middlewares, sort them by priority and index their hooks.

    Raises:
        ConfigurationError: an object is not a middleware, is given twice, or is in the wrong order.
    """
    found = tuple(middlewares)
    for index, middleware in enumerate(found):
        _check_middleware(index, middleware, found)
    found = tuple(sorted(found, key=lambda one: one.priority))
    check_order(found)
    folding = [one for one in found if _is_overridden(one, "fold") and find_event_kinds(one)]
    hooks: dict[str, Any] = {
        name: tuple([_compile_hook(one, name) for one in found if _is_overridden(one, name)])
        for name in (*BEFORE, *WRAP, *AFTER, "live")
    }
    for name in AFTER:
        hooks[name] = hooks[name][::-1]
    fold_table = FoldTable(folding)
    # A fold that fails ends the turn.
    watches_replies = bool(hooks["before_tools"]) or ModelReplied in fold_table.by_kind
    return Chain(
        middlewares=found,
        fold_table=fold_table,
        watches_replies=watches_replies,
        has_hooks=any(hooks.values()),
        _of_tools={},
        **hooks,
    )


def tool_settings(
    middlewares: Sequence[AnyMiddleware], given: Mapping[str, object]
) -> dict[str, object]:
    """Return the settings of tools that the middlewares change; a later one wins.

    Args:
        middlewares: the middlewares of the agent.
        given: the agent's own settings.
    """
    settings: dict[str, object] = {}
    for middleware in middlewares:
        settings.update(middleware.tool_settings({**given, **settings}))
    return settings


def limits_with(middlewares: Sequence[AnyMiddleware], given: Limits | None) -> Limits:
    """Return the limits of a turn: the given ones, as the middlewares change them."""
    for middleware in middlewares:
        given = middleware.limits(given)
    return given or Limits()


def _check_middleware(
    index: int, middleware: AnyMiddleware, middlewares: tuple[AnyMiddleware, ...]
) -> None:
    argument = f"middleware[{index}]"
    check_value(argument, middleware, Middleware)
    check_value(f"{argument}.priority", middleware.priority, int)
    if any(other is middleware for other in middlewares[:index]):
        raise ConfigurationError(
            argument,
            f"the same {middleware.name} is given twice",
            fix="Make a second one, or leave it out",
        )
    for name in (*BEFORE, *WRAP, *AFTER):
        if _is_overridden(middleware, name) and not inspect.iscoroutinefunction(
            getattr(middleware, name)
        ):
            raise ConfigurationError(
                argument,
                f"{middleware.name}.{name} is not a coroutine function",
                fix="Write `async def`",
            )
    enabled: object = middleware.enabled
    if not callable(enabled) or inspect.iscoroutinefunction(enabled):
        raise ConfigurationError(
            argument,
            f"{middleware.name}.enabled is not a function that returns at once",
            fix="Write `def enabled(self, hook, facts)`",
        )
    _check_hook_names(argument, middleware)


def _check_hook_names(argument: str, middleware: AnyMiddleware) -> None:
    """Raise ConfigurationError for a method that is named like a hook but would never be called."""
    for name in dir(type(middleware)):
        if not name.startswith(("before_", "after_", "wrap_")) or hasattr(Middleware, name):
            continue
        if callable(getattr(middleware, name)):
            from difflib import get_close_matches  # imported only for the error

            near = get_close_matches(name, (*BEFORE, *WRAP, *AFTER), 1, 0)[0]
            raise ConfigurationError(
                argument,
                f"{middleware.name}.{name} is not a hook",
                fix=f"Did you mean {near}? A method that is not a hook needs another name",
            )


def _is_overridden(middleware: AnyMiddleware, name: str) -> bool:
    method = getattr(middleware, name)
    return getattr(method, "__func__", method) is not getattr(Middleware, name)


def _compile_hook(middleware: AnyMiddleware, name: str) -> Hook:
    return Hook(
        owner=middleware.name,
        name=name,
        function=getattr(middleware, name),
        allowed=_RETURNS.get(name) or ALLOWED.get(name, ()),
        tools=tuple(middleware.tools) if name in TOOL_HOOKS else (),
        seconds=middleware.hook_timeout,
        enabled=_find_condition(middleware, name),
    )


def _find_condition(middleware: AnyMiddleware, name: str) -> Enabled | None:
    """Return the condition of a hook: that of the user, and that of the middleware.

    If a subclass overrode the hook or the fold and not `enabled`, the method is about another hook.
    """
    older = any(is_older(type(middleware), "enabled", than) for than in (name, "fold"))
    own = None if older or not _is_overridden(middleware, "enabled") else middleware.enabled
    given = middleware.enabled_if
    if given is None or own is None:
        return given or own
    return lambda hook, facts: given(hook, facts) and own(hook, facts)


def check_order(middlewares: Sequence[Middleware[Any]]) -> None:
    """Raise ConfigurationError when a middleware is on the wrong side of another."""
    for index, middleware in enumerate(middlewares):
        for neighbour in middleware.before:
            for other in middlewares[:index]:
                if _matches_neighbour(other, neighbour):
                    raise _order_error(middleware, "before", other)
        for neighbour in middleware.after:
            for other in middlewares[index + 1 :]:
                if _matches_neighbour(other, neighbour):
                    raise _order_error(middleware, "after", other)


def _matches_neighbour(other: Middleware[Any], neighbour: Neighbour) -> bool:
    if isinstance(neighbour, str):
        return any(kind.__name__ == neighbour for kind in type(other).__mro__)
    return isinstance(other, neighbour)


def _order_error(
    middleware: Middleware[Any], side: str, other: Middleware[Any]
) -> ConfigurationError:
    if any(
        _matches_neighbour(middleware, neighbour)
        for neighbour in (other.before if side == "before" else other.after)
    ):
        return ConfigurationError(
            "middleware",
            f"{middleware.name} and {other.name} contradict each other: each must stand {side} the other",
            fix=f"Give one of them another `{side}`, as in {middleware.name}(...).only({side}=[])",
        )
    return ConfigurationError(
        "middleware",
        f"{middleware.name} must stand {side} {other.name}",
        fix=f"Register {middleware.name} {side} {other.name}",
    )


NO_HOOKS = compile_chain(())
"""The chain of an agent without middleware."""
