"""Checks the permission rules of an agent against its tools, when the agent is made.

A rule that names an argument wrongly would match no call, and a rule that denies would let all of
them run. This module must never change a rule.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase

from holdfast.core.errors import ConfigurationError
from holdfast.middleware.chain import AnyMiddleware
from holdfast.middleware.permission_rules import Rule, RuleTable
from holdfast.middleware.tool_permission import ToolPermission
from holdfast.runtime.subagent import agent_of
from holdfast.tools.registry import Registry
from holdfast.tools.tool import Tool


def check_rules(middlewares: Iterable[AnyMiddleware], registry: Registry) -> None:
    """Raise ConfigurationError if a rule names an argument that its tools do not have.

    A rule without a tool, such as one for a tool that another agent has, is not an error.

    Args:
        middlewares: the middlewares of the agent.
        registry: its tools. Rules hold for the tools of subagents too.
    """
    for middleware in middlewares:
        if not isinstance(middleware, ToolPermission):
            continue
        if not isinstance(middleware.source, RuleTable):
            continue
        for permission, rules in middleware.source.rules.items():
            for rule in rules:
                if rule.arguments:
                    _check_rule(permission, rule, list(_list_tools(registry)))


def _list_tools(registry: Registry) -> Iterator[Tool]:
    """Yield the tools of an agent and of its subagents."""
    for tool in registry:
        yield tool
        agent = agent_of(tool)
        if agent is not None:
            yield from _list_tools(agent.plan.registry)


def _check_rule(permission: str, rule: Rule, tools: Iterable[Tool]) -> None:
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


def _unknown_argument(permission: str, rule: Rule, name: str, tool: Tool) -> ConfigurationError:
    names = ", ".join(_parameters(tool)) or "none"
    kind = "an alias" if name in _written_names(tool) else "no parameter"
    return ConfigurationError(
        permission,
        f'"{rule}" would not match a call of {tool.name!r}: {name!r} is {kind} of this tool',
        fix=f"Use the names of its parameters: {names}",
    )
