"""`Toolset`: a named group of tools, which can be renamed, filtered and prepared for each model call.

A toolset is an immutable value: each method returns another one. The tools of a toolset are fixed, or
functions of the user decide about them before each model call. This module must never run a tool, and
must not catch an exception of such a function.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from difflib import get_close_matches
from functools import partial
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import msgspec
from msgspec import Struct

from holdfast.core.argument_checks import check_value
from holdfast.core.errors import ConfigurationError
from holdfast.middleware.hook_contexts import ToolsetContext
from holdfast.tools.tool import Tool, as_tool

if TYPE_CHECKING:
    from holdfast.middleware.hooks import Middleware

# Any: a function may declare the type of the deps in its context, as a tool may.
AnyContext: TypeAlias = ToolsetContext[Any]
_Functions: TypeAlias = Iterable[Callable[..., object]]

ToolFilter: TypeAlias = Callable[[AnyContext, Tool], bool | Awaitable[bool]]
"""Says whether a tool is offered to the model in this iteration."""

PrepareTools: TypeAlias = Callable[[AnyContext, list[Tool]], _Functions | Awaitable[_Functions]]
"""Returns the tools that are offered to the model in this iteration."""

ListTools: TypeAlias = Callable[[AnyContext], _Functions | Awaitable[_Functions]]
"""Lists the tools of a toolset, sync or async."""

Lifespan: TypeAlias = Callable[[], AbstractAsyncContextManager[object]]
"""Opens a resource that the tools of a toolset need, such as a connection, and closes it."""


class LifespanUse(Struct, frozen=True):
    """The toolset that needs a lifespan, and whether a turn fails if it cannot be opened."""

    toolset: str
    is_required: bool = False


class Resource(Struct, frozen=True):
    """The object that an open lifespan has yielded; `reopen` marks it as dead."""

    value: object
    reopen: Callable[[], None]


Resources: TypeAlias = Callable[[Lifespan], Awaitable[Resource | None]]
"""Returns the open resource of a lifespan; None if it cannot be opened now."""


_List: TypeAlias = Callable[[AnyContext, Resources], Awaitable[tuple[Tool, ...]]]
_Change: TypeAlias = Callable[[AnyContext, tuple[Tool, ...]], Awaitable[tuple[Tool, ...]]]
_Parts: TypeAlias = "tuple[Tool | Toolset, ...]"


class Toolset:
    """A named group of tools for `Agent(toolsets=[...])` and `agent.run(..., toolsets=[...])`.

    Args:
        name: names the toolset in errors.
        tools: functions, tools and other toolsets; or a function, sync or async, that lists the tools
            before each model call and takes a `ToolsetContext`.
        lifespan: opens the resource that the tools need; a function without arguments that returns an async
            context manager, such as one made by `@asynccontextmanager`. It is entered when a turn
            begins that has this toolset, and left when the last such turn in progress of the agent
            ends; inside of `async with agent`, it stays open until the end of that block.
            `ToolsetContext.resource` is the object that it yields. If it cannot be opened, the tools are
            left out and the log says so; the next model call tries again, after a growing wait. If it ends
            by itself, or after `ToolsetContext.reopen()`, the next model call opens it anew.
        required: whether a lifespan that cannot be opened is an error instead, of the turn and of
            `async with agent`.

    Raises:
        ConfigurationError: an argument is wrong, or two tools have the same name.

    >>> def read(path: str) -> str:
    ...     'Read a file.'
    ...     return path
    >>> Toolset("files", [read]).prefixed("fs_")
    Toolset('files', fs_read)
    """

    name: str
    """The name of the toolset."""
    fixed_tools: tuple[Tool, ...] | None
    """The tools, or None if functions decide about them before each model call."""
    known_tools: tuple[Tool, ...] | None
    """The tools among which the list of each model call chooses, or None if functions may add others."""
    lifespans: Mapping[Lifespan, LifespanUse]
    """The lifespans that are open while a turn uses the toolset."""
    middlewares: tuple[Middleware[Any], ...]
    """The middlewares that an agent with this toolset has, such as the one of `Skills`."""
    _lifespan: Lifespan | None
    _list: _List

    def __init__(
        self,
        name: str,
        tools: Iterable[Callable[..., object] | Toolset] | ListTools = (),
        *,
        lifespan: Lifespan | None = None,
        required: bool = False,
    ) -> None:
        check_value("name", name, str)
        check_value("required", required, bool)
        if not name.strip():
            raise ConfigurationError(
                "toolset.name", "is empty", fix='Write Toolset("files", [...])'
            )
        parts = _compile_parts(name, tools)
        inner = [one for one in parts or () if isinstance(one, Toolset)]
        lifespans = {key: use for toolset in inner for key, use in toolset.lifespans.items()}
        if lifespan is not None:
            _check_function("lifespan", lifespan)
            lifespans = {lifespan: LifespanUse(name, required), **lifespans}
        elif required:
            fix = "Pass the lifespan, or leave it out"
            raise ConfigurationError("required", "is of the lifespan, and there is none", fix=fix)
        listing: _List = partial(_list_parts, name, parts or ())
        if parts is None:
            listing = partial(_list_source, name, cast("ListTools", tools))
        known = None if parts is None else _find_known_tools(name, parts)
        is_fixed = not lifespans and all(one.fixed_tools is not None for one in inner)
        self.__dict__.update(
            name=name,
            fixed_tools=known if is_fixed else None,
            known_tools=known,
            lifespans=lifespans,
            middlewares=tuple(one for toolset in inner for one in toolset.middlewares),
            _lifespan=lifespan,
            _list=listing,
        )

    def filtered(self, keep: ToolFilter) -> Toolset:
        """Return the toolset with only those tools for which `keep(context, tool)` is true.

        Args:
            keep: called for each tool before each model call; sync or async.

        >>> Toolset("files", []).filtered(lambda context, tool: tool.effect == "read")
        Toolset('files', prepared for each model call)
        """
        return self._derive(None, partial(_filter_tools, _check_function("keep", keep)))

    def prepared(self, prepare: PrepareTools) -> Toolset:
        """Return the toolset with the tools that `prepare(context, tools)` returns.

        Args:
            prepare: called before each model call with the list of tools; sync or async. It returns
                the tools to offer: some of them, others, or copies made by `Tool.replace`.
        """
        return self._derive(None, partial(_prepare_tools, _check_function("prepare", prepare)))

    def prefixed(self, prefix: str) -> Toolset:
        """Return the toolset with a prefix before the name of each tool.

        Args:
            prefix: such as "fs_".

        Raises:
            ConfigurationError: providers do not accept a name that results.
        """
        check_value("prefix", prefix, str)
        return self._rename(lambda tools: {one.name: prefix + one.name for one in tools})

    def renamed(self, names: Mapping[str, str]) -> Toolset:
        """Return the toolset with other names for some tools.

        Args:
            names: the new name by the present name, such as {"read": "read_file"}.

        Raises:
            ConfigurationError: there is no tool of a present name, or a new name cannot be used.
        """
        check_value("names", names, Mapping[str, str])
        chosen = dict(names)
        if self.fixed_tools is not None:
            _check_present(chosen, self.fixed_tools)
        return self._rename(lambda _tools: chosen)

    def _rename(self, choose: Callable[[Sequence[Tool]], Mapping[str, str]]) -> Toolset:
        """Return the toolset with the names that `choose` returns for its tools."""
        if self.middlewares:
            by = ", ".join(one.name for one in self.middlewares)
            raise ConfigurationError(
                f"toolset {self.name!r}", f"cannot be renamed: {by} reads the names of its tools"
            )

        def rename(tools: tuple[Tool, ...]) -> tuple[Tool, ...]:
            names = choose(tools)
            return tuple(
                one.replace(name=names[one.name]) if one.name in names else one for one in tools
            )

        async def rename_listed(_context: AnyContext, tools: tuple[Tool, ...]) -> tuple[Tool, ...]:
            return rename(tools)

        fixed = self.fixed_tools
        return self._derive(None if fixed is None else rename(fixed), rename_listed)

    def _derive(self, fixed: tuple[Tool, ...] | None, change: _Change) -> Toolset:
        """Return the toolset with a change of its tools."""
        other = Toolset.__new__(type(self))
        known = None if fixed is None else join_tools([(_owner(self.name), fixed)])
        other.__dict__.update(
            self.__dict__,
            fixed_tools=known,
            known_tools=known,
            _list=partial(_list_changed, self, change),
        )
        return other

    async def list_tools(self, context: AnyContext, resources: Resources) -> tuple[Tool, ...]:
        """Return the tools for one model call.

        Args:
            context: the facts for the functions of the toolset; its `resource` is set here.
            resources: returns the resources of open lifespans.

        Raises:
            ConfigurationError: two tools have the same name, or a function returned something else
                than tools.
            Exception: a function of the user raised it.
        """
        if self.fixed_tools is not None:
            return self.fixed_tools
        if self._lifespan is not None:
            found = await resources(self._lifespan)
            if found is None:
                return ()
            context = msgspec.structs.replace(
                context, resource=found.value, reopen_resource=found.reopen
            )
        return join_tools([(_owner(self.name), await self._list(context, resources))])

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("a Toolset is immutable: its methods return another one")

    def __repr__(self) -> str:
        shown = ", ".join(tool.name for tool in self.fixed_tools or ())
        if self.fixed_tools is None:
            shown = "prepared for each model call"
        return f"{type(self).__name__}({self.name!r}, {shown or 'no tools'})"


def _owner(name: str) -> str:
    return f"toolset {name!r}"


def _find_known_tools(name: str, parts: _Parts) -> tuple[Tool, ...] | None:
    groups: list[tuple[str, Sequence[Tool]]] = []
    for one in parts:
        if isinstance(one, Tool):
            groups.append((_owner(name), (one,)))
        elif one.known_tools is None:
            return None
        else:
            groups.append((_owner(one.name), one.known_tools))
    return join_tools(groups)


async def _list_parts(
    name: str, parts: _Parts, context: AnyContext, resources: Resources
) -> tuple[Tool, ...]:
    """List the tools of a toolset that contains others."""
    groups: list[tuple[str, Sequence[Tool]]] = []
    for one in parts:
        if isinstance(one, Tool):
            groups.append((_owner(name), (one,)))
        else:
            groups.append((_owner(one.name), await one.list_tools(context, resources)))
    return join_tools(groups)


async def _list_source(
    name: str, source: ListTools, context: AnyContext, _resources: Resources
) -> tuple[Tool, ...]:
    """List the tools that a function of the user returns."""
    return _check_tools(_owner(name), await _wait_for(source(context)))


async def _list_changed(
    toolset: Toolset, change: _Change, context: AnyContext, resources: Resources
) -> tuple[Tool, ...]:
    """List the tools of another toolset, with a change."""
    return await change(context, await toolset.list_tools(context, resources))


async def _filter_tools(
    keep: ToolFilter, context: AnyContext, tools: tuple[Tool, ...]
) -> tuple[Tool, ...]:
    kept = []
    for tool in tools:
        is_kept = await _wait_for(keep(context, tool))
        check_value("the result of `filtered`", is_kept, bool)
        if is_kept:
            kept.append(tool)
    return tuple(kept)


async def _prepare_tools(
    prepare: PrepareTools, context: AnyContext, tools: tuple[Tool, ...]
) -> tuple[Tool, ...]:
    given = await _wait_for(prepare(context, list(tools)))
    return _check_tools("the result of `prepared`", given)


def _check_present(names: Mapping[str, str], tools: Sequence[Tool]) -> None:
    known = [tool.name for tool in tools]
    for name in names:
        if name not in known:
            near = get_close_matches(name, known, 1)
            fix = f"Did you mean {near[0]!r}?" if near else "Write {present name: new name}"
            raise ConfigurationError("names", f"there is no tool {name!r} to rename", fix=fix)


def join_tools(groups: Iterable[tuple[str, Iterable[Tool]]]) -> tuple[Tool, ...]:
    """Return the tools of all groups.

    Args:
        groups: the tools, with the words that say where they come from.

    Raises:
        ConfigurationError: two tools have the same name; the error names both groups.
    """
    owners: dict[str, str] = {}
    tools: list[Tool] = []
    for owner, group in groups:
        for tool in group:
            other = owners.get(tool.name)
            if other is not None:
                both = f"both in {owner}" if other == owner else f"in {other} and in {owner}"
                raise ConfigurationError(
                    "toolsets",
                    f"two tools are named {tool.name!r}, {both}",
                    fix='Use prefixed("...") or renamed({...}) of one toolset',
                )
            owners[tool.name] = owner
            tools.append(tool)
    return tuple(tools)


def _compile_parts(
    name: object, tools: Iterable[Callable[..., object] | Toolset] | ListTools
) -> _Parts | None:
    """Return the tools and toolsets; None if a function lists them. Raises ConfigurationError."""
    check_value("name", name, str)
    if not str(name).strip():
        raise ConfigurationError("name", "is empty", fix='Write Toolset("files", [...])')
    if callable(tools) and not isinstance(tools, Iterable):
        return None
    check_value("tools", tools, Iterable[object])
    return tuple(one if isinstance(one, Toolset) else as_tool(one) for one in tools)


def _check_tools(argument: str, given: object) -> tuple[Tool, ...]:
    check_value(argument, given, Iterable[object])
    return tuple(as_tool(one) for one in cast("Iterable[Callable[..., object]]", given))


def _check_function(argument: str, function: Any) -> Any:
    check_value(argument, function, Callable)
    return function


async def _wait_for(value: Any) -> Any:
    return await value if isawaitable(value) else value
