"""Checks the permission rules of an agent against its tools, when the agent is made and after a turn.

A rule with a wrong name would match no call, and a rule that denies would let all of them run. This
module must never change a rule.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from fnmatch import fnmatchcase

from holdfast.core.errors import ConfigurationError
from holdfast.core.notices import PermissionRuleUnmatched
from holdfast.middleware.chain import AnyMiddleware
from holdfast.middleware.permission_rules import Rule, RuleTable
from holdfast.middleware.tool_permission import ToolPermission
from holdfast.runtime.subagent import agent_of
from holdfast.tools.registry import Registry
from holdfast.tools.tool import Tool
from holdfast.tools.tool_search import find_searched_tools


def check_rules(
    middlewares: Iterable[AnyMiddleware], registry: Registry, *, is_complete: bool
) -> None:
    """Check the names of tools and arguments in the rules.

    A pattern without a tool is not an error, nor is a rule that allows a tool of which no other name is
    near: a run may add such a tool, and if none does, nothing is allowed.

    Args:
        middlewares: the middlewares of the agent.
        registry: its tools. Rules hold for the tools of subagents too.
        is_complete: whether the agent gets no other tools before a model call.

    Raises:
        ConfigurationError: a rule names an argument that its tools do not have, or a tool that does
            not exist.
    """
    rules = list(_list_rules(middlewares))
    if not rules:
        return
    tools = list(_list_tools(registry))
    names = {tool.name for tool in tools}
    is_complete = is_complete and not any(_gets_tools_later(tool) for tool in tools)
    for permission, rule in rules:
        if is_complete and _is_missing(rule, names):
            near = _find_near_name(rule.tool, names)
            if near or permission != "allow":
                raise _unknown_tool(permission, rule, near or ", ".join(sorted(names)))
        if rule.arguments:
            _check_arguments(permission, rule, tools)


def _find_near_name(name: str, names: Iterable[str]) -> str:
    """Return the name that was probably meant; "" when none is near."""
    from difflib import get_close_matches  # only for a mistake

    return next(iter(get_close_matches(name, list(names), 1)), "")


def find_unmatched_rules(
    key: str, middlewares: Iterable[AnyMiddleware], registry: Registry, offered: Collection[str]
) -> list[PermissionRuleUnmatched]:
    """Return a notice for each rule whose tool does not exist and was never offered in a turn.

    Args:
        key: the key of the turn.
        middlewares: the middlewares of the agent.
        registry: its tools in the last iteration.
        offered: the names of the tools that the model was offered.
    """
    tools = list(_list_tools(registry))
    if any(_gets_tools_later(tool) for tool in tools):
        return []
    names = {*offered, *(tool.name for tool in tools)}
    return [
        PermissionRuleUnmatched(key, by, str(rule), _find_near_name(rule.tool, names))
        for by, rule in _list_rules(middlewares)
        if _is_missing(rule, names)
    ]


def _list_rules(middlewares: Iterable[AnyMiddleware]) -> Iterator[tuple[str, Rule]]:
    """Yield each rule with its permission."""
    for middleware in middlewares:
        if isinstance(middleware, ToolPermission) and isinstance(middleware.source, RuleTable):
            for permission, rules in middleware.source.rules.items():
                for rule in rules:
                    yield permission, rule


def _list_tools(registry: Registry) -> Iterator[Tool]:
    """Yield the tools of an agent, those that a search may offer, and those of its subagents."""
    tools = list(registry)
    names = {tool.name for tool in tools}
    for tool in list(registry):
        tools += [one for one in find_searched_tools(tool) if one.name not in names]
    for tool in tools:
        yield tool
        agent = agent_of(tool)
        if agent is not None:
            yield from _list_tools(agent.plan.registry)


def _gets_tools_later(tool: Tool) -> bool:
    """Whether the tool is an agent with toolsets that are listed before each model call."""
    agent = agent_of(tool)
    return agent is not None and bool(agent.plan.toolsets)


def _is_missing(rule: Rule, names: Collection[str]) -> bool:
    return not set(rule.tool) & set("*?[") and rule.tool not in names


def _check_arguments(permission: str, rule: Rule, tools: Iterable[Tool]) -> None:
    matching = [tool for tool in tools if fnmatchcase(tool.name, rule.tool)]
    for name in rule.arguments:
        without = [tool for tool in matching if name not in _parameters(tool)]
        aliased = [tool for tool in without if name in _written_names(tool)]
        if aliased:
            raise _unknown_argument(permission, rule, name, aliased[0])
        if without and len(without) == len(matching):
            raise _unknown_argument(permission, rule, name, without[0])


def _parameters(tool: Tool) -> tuple[str, ...]:
    """The names by which rules see the arguments of a tool."""
    return tuple(name for name, _ in tool.signature.fields)


def _written_names(tool: Tool) -> Iterable[str]:
    """The names by which a model writes the arguments of a tool: the aliases, where there are any."""
    properties = tool.signature.schema.get("properties")
    return properties if isinstance(properties, dict) else ()


def _unknown_tool(permission: str, rule: Rule, meant: str) -> ConfigurationError:
    return ConfigurationError(
        permission,
        f'"{rule}" would match no call: the agent has no tool {rule.tool!r}',
        fix=f'Did you mean {meant}? For a tool that only a run adds, write a pattern, such as "{rule.tool}*"',
    )


def _unknown_argument(permission: str, rule: Rule, name: str, tool: Tool) -> ConfigurationError:
    names = ", ".join(_parameters(tool)) or "none"
    kind = "an alias" if name in _written_names(tool) else "no parameter"
    return ConfigurationError(
        permission,
        f'"{rule}" would not match a call of {tool.name!r}: {name!r} is {kind} of this tool',
        fix=f"Use the names of its parameters: {names}",
    )
