"""An emulated MCP server that offers the address book. Only this module imports the server of the MCP SDK.

It is made of the low-level server, because `MCPServer` sets up the log of the whole process.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
from mcp.server import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.types import (
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
    Tool,
)
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from registration.emulators.address_emulator import SearchBody
from registration.emulators.address_table import list_addresses, normalize
from registration.emulators.api import ApiError, answer, check_token
from registration.emulators.faults import Faults, FaultyApp

PATH: Final = "/v1/mcp"
TOOL: Final = "address_lookup"

_TEXT = {"type": "string", "maxLength": 100}
_INPUT = {
    "type": "object",
    "properties": {"postcode": _TEXT, "house": _TEXT},
    "required": ["postcode", "house"],
}


class McpEmulator:
    """An MCP server on loopback, over Streamable HTTP, with the tool `address_lookup`.

    Args:
        token: what a client must send.
        faults: what goes wrong.
    """

    def __init__(self, token: str, *, faults: Faults | None = None) -> None:
        self._token = token
        self._addresses = {normalize(one.postcode, one.house): one for one in list_addresses()}
        self.faults = faults or Faults()
        self.calls = 0
        """How often the tool was called."""
        server = Server("addresses", on_list_tools=self._list, on_call_tool=self._call)
        self._server = server.streamable_http_app(
            streamable_http_path=PATH, json_response=True, stateless_http=True
        )
        self.app: ASGIApp = FaultyApp(self._admit, self.faults)

    async def _list(
        self, _context: ServerRequestContext[Any], _params: PaginatedRequestParams | None
    ) -> ListToolsResult:
        about = "The address of a house in the United Kingdom, by its postcode and number or name."
        return ListToolsResult(tools=[Tool(name=TOOL, description=about, input_schema=_INPUT)])

    async def _call(
        self, _context: ServerRequestContext[Any], params: CallToolRequestParams
    ) -> CallToolResult:
        self.calls += 1
        try:
            asked = msgspec.convert(params.arguments, SearchBody)
        except msgspec.ValidationError:
            return _say("The arguments are not a postcode and a house.", None, is_error=True)
        if params.name != TOOL:
            return _say("There is no such tool.", None, is_error=True)
        found = self._addresses.get(normalize(asked.postcode, asked.house))
        address = msgspec.to_builtins(found)
        return _say(found.full if found else "No address is known.", {"address": address})

    async def _admit(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let through who has the token."""
        if scope["type"] == "http":
            try:
                check_token(Request(scope), self._token)
            except ApiError as error:
                await answer({"error": {"kind": error.kind}}, error.status)(scope, receive, send)
                return
        await self._server(scope, receive, send)


def _say(text: str, structured: object, *, is_error: bool = False) -> CallToolResult:
    return CallToolResult(
        content=[TextContent(type="text", text=text)],
        structured_content=structured,
        is_error=is_error,
    )
