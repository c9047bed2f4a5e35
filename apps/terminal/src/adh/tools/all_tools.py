"""All tools of the program but the delegation, which the agents add, and those that a provider runs itself.

It must never add a tool without its effects, and must never imitate a tool of a provider that has none.
"""

from __future__ import annotations

from adh.tools.command_tool import CommandTools
from adh.tools.fetch_tool import FetchTools
from adh.tools.file_readers import FileReaders
from adh.tools.file_writers import FileWriters
from adh.tools.tool_registry import TOOL_EFFECTS, ToolRegistry, ToolSpec
from adh.tools.tools_context import ToolsContext
from holdfast.models import HostedTool, WebFetch, WebSearch, find_preset
from holdfast.tools import Tool, as_tool

_TAGS = {"execute_command": ("commands",), "fetch_url": ("web",)}


def make_registry(context: ToolsContext) -> ToolRegistry:
    """Return the registry of the tools.

    Args:
        context: the parts that the tools work with.
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
        context: the parts that the tools work with.
    """
    return tuple(spec.handler for spec in make_registry(context))


_SEARCHING = frozenset({"openai_responses", "anthropic", "gemini"})
_FETCHING = frozenset({"anthropic", "gemini"})


def find_hosted_tools(provider: str) -> tuple[HostedTool, ...]:
    """Return the tools that a provider runs itself.

    Args:
        provider: its name, such as "gemini".

    Raises:
        ConfigurationError: there is no such provider.

    >>> [hosted.name for hosted in find_hosted_tools("gemini")], find_hosted_tools("groq")
    (['web_search', 'web_fetch'], ())
    """
    wire = find_preset(provider).wire
    found: list[HostedTool] = []
    if wire in _SEARCHING:
        found.append(WebSearch())
    if wire in _FETCHING:
        found.append(WebFetch())
    return tuple(found)
