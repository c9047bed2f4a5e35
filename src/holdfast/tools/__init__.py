"""Functions that the model may call: the `@tool` decorator, schemas, the registry, the invocation.

This package must not decide whether a call is repeated, must not turn exceptions of tools into text
for the model, and must never run a call with incomplete or invalid arguments. Importing it loads neither
pydantic nor asyncio: the first tool imports pydantic, and `tools.invoke` imports asyncio.
"""

from __future__ import annotations

from holdfast import lazy_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.client_tools import ClientTool as ClientTool
    from holdfast.core.client_tools import ClientToolQuestion as ClientToolQuestion
    from holdfast.core.client_tools import ClientToolResult as ClientToolResult
    from holdfast.core.context_objects import OuterCall as OuterCall
    from holdfast.core.json_schema import JsonSchema as JsonSchema
    from holdfast.middleware.hook_contexts import ToolsetContext as ToolsetContext
    from holdfast.tools.context import EventSink as EventSink
    from holdfast.tools.context import ToolContext as ToolContext
    from holdfast.tools.context import UsageSink as UsageSink
    from holdfast.tools.context import current_tool_call as current_tool_call
    from holdfast.tools.registry import Registry as Registry
    from holdfast.tools.tool import Tool as Tool
    from holdfast.tools.tool import ToolEffect as ToolEffect
    from holdfast.tools.tool import as_tool as as_tool
    from holdfast.tools.tool_failures import ToolError as ToolError
    from holdfast.tools.tool_search import ToolSearch as ToolSearch
    from holdfast.tools.toolset import Resource as Resource
    from holdfast.tools.toolset import Toolset as Toolset
    from holdfast.tools.write_checks import Check as Check
    from holdfast.tools.write_checks import CheckAnswer as CheckAnswer
    from holdfast.tools.write_checks import DoubtfulCall as DoubtfulCall
    from holdfast.tools.write_checks import Happened as Happened
    from holdfast.tools.write_checks import NotHappened as NotHappened
    from holdfast.tools.write_checks import Unknown as Unknown

_HOME: dict[str, str] = {
    "Check": "holdfast.tools.write_checks",
    "CheckAnswer": "holdfast.tools.write_checks",
    "ClientTool": "holdfast.core.client_tools",
    "ClientToolQuestion": "holdfast.core.client_tools",
    "ClientToolResult": "holdfast.core.client_tools",
    "DoubtfulCall": "holdfast.tools.write_checks",
    "EventSink": "holdfast.tools.context",
    "Happened": "holdfast.tools.write_checks",
    "JsonSchema": "holdfast.core.json_schema",
    "NotHappened": "holdfast.tools.write_checks",
    "OuterCall": "holdfast.core.context_objects",
    "Registry": "holdfast.tools.registry",
    "Resource": "holdfast.tools.toolset",
    "Tool": "holdfast.tools.tool",
    "ToolContext": "holdfast.tools.context",
    "ToolEffect": "holdfast.tools.tool",
    "ToolError": "holdfast.tools.tool_failures",
    "ToolSearch": "holdfast.tools.tool_search",
    "Toolset": "holdfast.tools.toolset",
    "ToolsetContext": "holdfast.middleware.hook_contexts",
    "Unknown": "holdfast.tools.write_checks",
    "UsageSink": "holdfast.tools.context",
    "as_tool": "holdfast.tools.tool",
    "current_tool_call": "holdfast.tools.context",
}
"""Public name -> the module that defines it. Sorted."""

if not TYPE_CHECKING:
    __all__, __getattr__, __dir__ = lazy_names(globals(), _HOME)
