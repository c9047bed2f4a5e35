"""Tools of MCP servers: the toolset `McpServer`.

This room must never trust a server: its tools are writes unless the program says otherwise, its texts are cut and
redacted, and its death, silence or flood never ends a turn. Only its modules `sdk_client` and `stdio_transport` import
the SDK, and only when a server is connected.
"""

from __future__ import annotations

from holdfast import lazy_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from holdfast.core.questions import ElicitationQuestion as ElicitationQuestion
    from holdfast.core.questions import Elicited as Elicited
    from holdfast.mcp.mcp_file import read_mcp_file as read_mcp_file
    from holdfast.mcp.mcp_options import McpLimits as McpLimits
    from holdfast.mcp.mcp_options import McpTimeouts as McpTimeouts
    from holdfast.mcp.mcp_server import McpProgress as McpProgress
    from holdfast.mcp.mcp_server import McpServer as McpServer
    from holdfast.mcp.mcp_server import McpServerChanged as McpServerChanged

_HOME: dict[str, str] = {
    "ElicitationQuestion": "holdfast.core.questions",
    "Elicited": "holdfast.core.questions",
    "McpLimits": "holdfast.mcp.mcp_options",
    "McpProgress": "holdfast.mcp.mcp_server",
    "McpServer": "holdfast.mcp.mcp_server",
    "McpServerChanged": "holdfast.mcp.mcp_server",
    "McpTimeouts": "holdfast.mcp.mcp_options",
    "read_mcp_file": "holdfast.mcp.mcp_file",
}
"""Public name -> the module that defines it. Sorted."""

if not TYPE_CHECKING:
    __all__, __getattr__, __dir__ = lazy_names(globals(), _HOME)
