"""Applies the permission rules of a caller to the tools of its subagents.

Otherwise a model could use a tool that its agent denies, by giving the task to an agent that has the
tool. This module must never weaken the rules of the subagent itself.
"""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.middleware.chain import AnyMiddleware
from holdfast.middleware.tool_permission import ToolPermission


def inherit_rules(
    caller: Sequence[AnyMiddleware], own: Sequence[AnyMiddleware]
) -> list[AnyMiddleware]:
    """Return the rules of a caller that hold for a subagent. They come before its own middlewares.

    Args:
        caller: the middlewares of the calling agent, with the rules that it has from its own caller.
        own: the middlewares of the subagent.
    """
    has_own_rules = any(isinstance(one, ToolPermission) for one in own)
    of_caller = [
        one.for_subagent(has_own_rules=has_own_rules)
        for one in caller
        if isinstance(one, ToolPermission)
    ]
    return [rules for rules in of_caller if rules is not None]
