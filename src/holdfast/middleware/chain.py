"""Compiles middlewares: for each hook, the middlewares that define it, in the order of the calls.

Everything that is known when an agent is made is decided here, once. This module must never call a
hook: `hook_calls` does that.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import partial
from typing import Any

from msgspec import Struct

from holdfast.core.argument_checks import check_value
from holdfast.core.errors import ConfigurationError
from holdfast.core.limits import Limits
from holdfast.core.messages import Reply, ToolResult
from holdfast.middleware.folds import Folds, FoldTable
from holdfast.middleware.hook_contexts import HookContext
from holdfast.middleware.hooks import AFTER, ALLOWED, BEFORE, TOOL_HOOKS, WRAP, Middleware, is_older
from holdfast.middleware.order import check_order

When = Callable[[Any], bool]  # takes the context of its hook
Idle = Callable[[Any], bool]  # takes the state of its middleware
AnyMiddleware = Middleware[Any]  # of any state: only the fold knows its type


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
    """The key of the state that `idle` takes."""

    def is_for(self, tool: str) -> bool:
        """Whether the hook applies to this tool."""
        return not self.tools or any(fnmatchcase(tool, pattern) for pattern in self.tools)


class ToolHooks(Struct, frozen=True):
    """The hooks that apply to one tool."""

    before: tuple[Hook, ...]
    wrap: tuple[Hook, ...]
    after: tuple[Hook, ...]
    is_empty: bool
    """Whether no hook sees a call of this tool or its result."""


_MOST_TOOLS = 256


class Chain(Struct, frozen=True, kw_only=True):
    """The hooks of an agent: before and wrap hooks in the order of registration, after hooks reversed."""

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
        """Return the hooks for the tool that the model calls `name`, whether or not the tool exists."""
        hooks = self._of_tools.get(name)
        if hooks is None:
            kinds = (self.before_tool, self.wrap_tool, self.after_tool)
            before, wrap, after = (
                tuple(hook for hook in kind if hook.is_for(name)) for kind in kinds
            )
            is_empty = not (before or wrap or after or self.on_error)
            hooks = ToolHooks(before, wrap, after, is_empty)
            if len(self._of_tools) < _MOST_TOOLS:  # a model may invent any number of names
                self._of_tools[name] = hooks
        return hooks

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
        for name in (*BEFORE, *WRAP, *AFTER):
            hooks: tuple[Hook, ...] = getattr(self, name)
            if hooks:
                lines.append(f"{name}: {' > '.join(hook.owner for hook in hooks)}")
        if self.live:
            lines.append(f"live: {' > '.join(middleware.name for middleware in self.live)}")
        return lines


def compile_chain(middlewares: Sequence[AnyMiddleware]) -> Chain | None:
    """Check the middlewares and index their hooks; None when there are none.

    Raises:
        ConfigurationError: an object is not a middleware, is given twice, or is in the wrong order.
    """
    found = tuple(middlewares)
    for index, middleware in enumerate(found):
        _check_middleware(index, middleware, found)
    check_order(found)
    if not found:
        return None
    fold_table = FoldTable(
        [
            middleware
            for middleware in found
            if _is_overridden(middleware, "fold") and _find_activity(middleware, "fold")
        ]
    )
    hooks: dict[str, Any] = {
        name: tuple(
            hook
            for middleware in found
            if (hook := _compile_hook(middleware, name, fold_table)) is not None
        )
        for name in (*BEFORE, *WRAP, *AFTER)
    }
    for name in AFTER:
        hooks[name] = hooks[name][::-1]
    return Chain(
        middlewares=found,
        live=tuple(
            middleware
            for middleware in found
            if _is_overridden(middleware, "live") and _find_activity(middleware, "live")
        ),
        _of_tools={},
        fold_table=fold_table,
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


def _find_activity(middleware: AnyMiddleware, name: str) -> bool | When:
    return is_older(type(middleware), "acts", name) or middleware.acts(name)


def _compile_hook(middleware: AnyMiddleware, name: str, fold_table: FoldTable) -> Hook | None:
    acts = _find_activity(middleware, name) if _is_overridden(middleware, name) else False
    if acts is False:
        return None
    tools = tuple(middleware.tools) if name in TOOL_HOOKS else ()
    when = middleware.when if acts is True else _combine_conditions(middleware.when, acts)
    key = fold_table.keys.get(id(middleware))
    idle = _find_idle(middleware, name) if key is not None else None
    if idle is not None and when is not None:
        # The user's condition is checked first, whatever the other one looks at.
        when, idle = _combine_conditions(when, partial(_has_work, middleware, idle)), None
    return Hook(
        owner=middleware.name,
        name=name,
        function=getattr(middleware, name),
        allowed=_RETURNS.get(name) or ALLOWED[name],
        when=when,
        tools=tools,
        seconds=middleware.hook_timeout,
        idle=idle,
        key=key or 0,
    )


def _find_idle(middleware: AnyMiddleware, name: str) -> Idle | None:
    """Return the `idle` of a middleware; None when it has none, or a subclass overrode the hook."""
    older = any(is_older(type(middleware), "idle", than) for than in (name, "fold", "acts"))
    return middleware.idle if _is_overridden(middleware, "idle") and not older else None


def _has_work(middleware: AnyMiddleware, idle: Idle, context: HookContext) -> bool:
    return not idle(context.state_of(middleware))


def _combine_conditions(first: When | None, second: When) -> When:
    if first is None:
        return second
    return lambda context: first(context) and second(context)
