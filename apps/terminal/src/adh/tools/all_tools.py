"""All tools of the program but the delegation, which the agents add.

It must never add a tool without its effects.
"""

from __future__ import annotations

from adh.tools.command_tool import CommandTools
from adh.tools.fetch_tool import FetchTools
from adh.tools.file_readers import FileReaders
from adh.tools.file_writers import FileWriters
from adh.tools.tool_registry import TOOL_EFFECTS, ToolRegistry, ToolSpec
from adh.tools.tools_context import ToolsContext
from holdfast.tools import Tool, as_tool

_TAGS = {"execute_command": ("commands",), "fetch_url": ("web",)}


def make_registry(context: ToolsContext) -> ToolRegistry:
    """Return the registry of the tools.

    Args:
        context: what the tools work with.
    """
    groups = (FileReaders, FileWriters, CommandTools, FetchTools)
    return ToolRegistry(
        ToolSpec(
            handler=handler,
            effects=TOOL_EFFECTS[handler.name],
            tags=_TAGS.get(handler.name, ("files",)),
        )
        for group in groups
        for handler in map(as_tool, group(context).list_tools())
    )


def make_tools(context: ToolsContext) -> tuple[Tool, ...]:
    """Return the tools for an agent.

    Args:
        context: what the tools work with.
    """
    return tuple(spec.handler for spec in make_registry(context))
