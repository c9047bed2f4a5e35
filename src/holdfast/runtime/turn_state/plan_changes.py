"""What one turn has in place of what its agent has, or besides it, as the caller passed it.

This module must never compile anything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, cast

from msgspec import Struct

from holdfast.core.argument_checks import check_value
from holdfast.core.client_tools import ClientTool
from holdfast.core.hosted_tools import HostedTool
from holdfast.models.http_model import Model
from holdfast.models.resolve import ModelAt
from holdfast.tools.tool import Tool
from holdfast.tools.toolset import Toolset


class PlanChanges(Struct, frozen=True, kw_only=True):
    """What one turn has in place of what its agent has, or besides it; None or empty is nothing."""

    model: str | ModelAt | Model | None = None
    output: Any = None
    tools: tuple[Callable[..., object] | Tool | HostedTool | ClientTool, ...] = ()
    toolsets: tuple[Toolset, ...] = ()


NO_CHANGES = PlanChanges()
CHANGED_NAMES = PlanChanges.__struct_fields__


def read_changes(keywords: Mapping[str, Any]) -> PlanChanges:
    """Return the changes among the keywords of a method. Raises ConfigurationError."""
    given = {name: keywords[name] for name in CHANGED_NAMES if keywords.get(name) is not None}
    if not given:
        return NO_CHANGES
    if "tools" in given:
        check_value("tools", given["tools"], Iterable[object])
        given["tools"] = tuple(given["tools"])
    if "toolsets" in given:
        given["toolsets"] = check_toolsets(given["toolsets"])
    return PlanChanges(**given)


def check_toolsets(given: object) -> tuple[Toolset, ...]:
    """Return the toolsets. Raises ConfigurationError."""
    if given == ():
        return ()
    check_value("toolsets", given, Sequence[Toolset])
    return tuple(cast("Sequence[Toolset]", given))
