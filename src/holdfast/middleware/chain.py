"""Middlewares, compiled: for each hook those who wrote it, in the order in which they are called.

Whatever can be known when an agent is made is decided here, once. This module must never call a
hook: that is what `calling` is for.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import partial
from typing import Any

from msgspec import Struct

from holdfast.core.errors import ConfigurationError
from holdfast.core.limits import Limits
from holdfast.core.messages import Reply, ToolResult
from holdfast.middleware.folds import Folds, FoldTable
from holdfast.middleware.hook_contexts import HookContext
from holdfast.middleware.hooks import AFTER, ALLOWED, BEFORE, TOOL_HOOKS, WRAP, Middleware, is_older
from holdfast.middleware.order import check_order

When = Callable[[Any], bool]  # of the moment of its hook
Idle = Callable[[Any], bool]  # of the state of its middleware
AnyMiddleware = Middleware[Any]  # of any state: the fold alone knows its type


_RETURNS: dict[str, tuple[type[object], ...]] = {
    "wrap_model": (Reply,),
    "wrap_tool": (ToolResult,),
}


class Hook(Struct, frozen=True):
    """One hook of one middleware, ready to be called."""

    owner: str
    name: str
    function: Callable[..., Coroutine[Any, Any, object]]
    allowed: tuple[type[object], ...]
    when: Callable[[HookContext], bool] | None
    tools: tuple[str, ...]
    seconds: float | None
    idle: Idle | None = None
    key: int = 0
    """Of the state that `idle` looks at."""

    def is_for(self, tool: str) -> bool:
        """Whether the hook is meant for this tool."""
        return not self.tools or any(fnmatchcase(tool, pattern) for pattern in self.tools)


class ToolHooks(Struct, frozen=True):
    """The hooks that are meant for one tool."""

    before: tuple[Hook, ...]
    wrap: tuple[Hook, ...]
    after: tuple[Hook, ...]
    is_empty: bool
    """Whether nothing of what becomes of a call is told to any hook."""


_MOST_TOOLS = 256


class Chain(Struct, frozen=True, kw_only=True):
    """The hooks of an agent. Before and wrap in the order of registration, after in reverse."""

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
    after_tool: tuple[Hook, ...]
    on_error: tuple[Hook, ...]
    fold_table: FoldTable
    live: tuple[AnyMiddleware, ...]
    _of_tools: dict[str, ToolHooks] = {}

    def hooks_for_tool(self, name: str) -> ToolHooks:
        """The hooks of the tool that the model calls `name`, whether or not there is such a tool."""
        found = self._of_tools.get(name)
        if found is None:
            kinds = (self.before_tool, self.wrap_tool, self.after_tool)
            mine = [tuple(hook for hook in kind if hook.is_for(name)) for kind in kinds]
            found = ToolHooks(mine[0], mine[1], mine[2], not any(mine) and not self.on_error)
            if len(self._of_tools) < _MOST_TOOLS:  # a model may invent any number of names
                self._of_tools[name] = found
        return found

    @property
    def has_session_state(self) -> bool:
        """Whether a fold lasts longer than a turn."""
        return any(one.scope == "session" for one in self.fold_table.middlewares)

    def new_folds(self) -> Folds:
        """The states of these middlewares before the first event."""
        return Folds(self.fold_table)

    def describe(self) -> list[str]:
        """One line for each middleware with its settings, then one for each hook in call order."""
        lines = []
        for one in self.middlewares:
            shown = ", ".join(f"{field}={value}" for field, value in one.describe().items())
            lines.append(f"{one.name}: {shown}" if shown else one.name)
        for name in (*BEFORE, *WRAP, *AFTER):
            hooks: tuple[Hook, ...] = getattr(self, name)
            if hooks:
                lines.append(f"{name}: {' > '.join(hook.owner for hook in hooks)}")
        if self.live:
            lines.append(f"live: {' > '.join(one.name for one in self.live)}")
        return lines


def compile_chain(middlewares: Sequence[AnyMiddleware]) -> Chain | None:
    """Check and index; None when there is nothing to call.

    Raises:
        ConfigurationError: something is no middleware, stands twice, or stands in the wrong place.
    """
    found = tuple(middlewares)
    for index, one in enumerate(found):
        _check_middleware(index, one, found)
    check_order(found)
    if not found:
        return None
    folding = FoldTable(
        [one for one in found if _is_overridden(one, "fold") and _find_activity(one, "fold")]
    )
    hooks: dict[str, Any] = {
        name: tuple(
            hook for one in found if (hook := _compile_hook(one, name, folding)) is not None
        )
        for name in (*BEFORE, *WRAP, *AFTER)
    }
    for name in AFTER:
        hooks[name] = hooks[name][::-1]
    return Chain(
        middlewares=found,
        live=tuple(
            one for one in found if _is_overridden(one, "live") and _find_activity(one, "live")
        ),
        _of_tools={},
        fold_table=folding,
        **hooks,
    )


def tool_settings(
    middlewares: Sequence[AnyMiddleware], given: Mapping[str, object]
) -> dict[str, object]:
    """What the middlewares set in the error handling of tools; a later one wins.

    Args:
        middlewares: those of the agent.
        given: the agent's own settings.
    """
    settings: dict[str, object] = {}
    for one in middlewares:
        settings.update(one.tool_settings({**given, **settings}))
    return settings


def limits_with(middlewares: Sequence[AnyMiddleware], given: Limits | None) -> Limits:
    """The limits of a turn: those that were given, as the middlewares change them."""
    for one in middlewares:
        given = one.limits(given)
    return given or Limits()


def _check_middleware(index: int, one: object, middlewares: tuple[AnyMiddleware, ...]) -> None:
    argument = f"middleware[{index}]"
    if isinstance(one, type):
        raise ConfigurationError(
            argument, f"is the class {one.__name__}", fix=f"Write {one.__name__}()"
        )
    if not isinstance(one, Middleware):
        raise ConfigurationError(argument, f"must be a Middleware, got {type(one).__name__}")
    if any(other is one for other in middlewares[:index]):
        raise ConfigurationError(
            argument,
            f"the same {one.name} is given twice",
            fix="Make a second one, or leave it out",
        )
    for name in (*BEFORE, *WRAP, *AFTER):
        if _is_overridden(one, name) and not inspect.iscoroutinefunction(getattr(one, name)):
            raise ConfigurationError(
                argument, f"{one.name}.{name} is no coroutine function", fix="Write `async def`"
            )
    _check_hook_names(argument, one)


def _check_hook_names(argument: str, one: AnyMiddleware) -> None:
    """Raise ConfigurationError for what looks like a hook and is none: nobody would call it."""
    for name in dir(type(one)):
        if not name.startswith(("before_", "after_", "wrap_")) or hasattr(Middleware, name):
            continue
        if callable(getattr(one, name)):
            from difflib import get_close_matches  # only who is wrong pays for it

            near = get_close_matches(name, (*BEFORE, *WRAP, *AFTER), 1, 0)[0]
            raise ConfigurationError(
                argument,
                f"{one.name}.{name} is no hook",
                fix=f"Did you mean {near}? What is none needs another name",
            )


def _is_overridden(one: AnyMiddleware, name: str) -> bool:
    mine = getattr(one, name)
    return getattr(mine, "__func__", mine) is not getattr(Middleware, name)


def _find_activity(one: AnyMiddleware, name: str) -> bool | When:
    return is_older(type(one), "acts", name) or one.acts(name)


def _compile_hook(one: AnyMiddleware, name: str, fold_table: FoldTable) -> Hook | None:
    acts = _find_activity(one, name) if _is_overridden(one, name) else False
    if acts is False:
        return None
    tools = tuple(one.tools) if name in TOOL_HOOKS else ()
    when = one.when if acts is True else _combine_conditions(one.when, acts)
    key = fold_table.keys.get(id(one))
    idle = _find_idle(one, name) if key is not None else None
    if idle is not None and when is not None:
        # Conditions are asked in one order, whatever they look at: the user's is the first.
        when, idle = _combine_conditions(when, partial(_has_work, one, idle)), None
    return Hook(
        one.name,
        name,
        getattr(one, name),
        _RETURNS.get(name) or ALLOWED[name],
        when,
        tools,
        one.hook_timeout,
        idle,
        key or 0,
    )


def _find_idle(one: AnyMiddleware, name: str) -> Idle | None:
    """Its look at its state; None when there is none, or when a subclass has left it behind."""
    older = any(is_older(type(one), "idle", than) for than in (name, "fold", "acts"))
    return one.idle if _is_overridden(one, "idle") and not older else None


def _has_work(one: AnyMiddleware, idle: Idle, context: HookContext) -> bool:
    return not idle(context.state_of(one))


def _combine_conditions(one: When | None, other: When) -> When:
    if one is None:
        return other
    return lambda moment: one(moment) and other(moment)
