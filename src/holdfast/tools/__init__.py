"""What the model may call: the `@tool` decorator, its schema, the registry, and the invocation.

This room must never decide whether a call is repeated, must never turn what a tool raised into text
for the model, and must never run a call whose arguments are not whole and valid. Importing it loads
neither pydantic nor asyncio: the first comes with the first tool, the second with `tools.invoke`.
"""

from __future__ import annotations

from holdfast.tools.context import ToolContext
from holdfast.tools.registry import Registry
from holdfast.tools.tool import Tool, as_tool, tool
from holdfast.tools.tool_failures import ToolError

__all__ = ["Registry", "Tool", "ToolContext", "ToolError", "as_tool", "tool"]
