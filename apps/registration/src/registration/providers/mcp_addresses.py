"""The address book behind an MCP server. Only this module imports the client of the MCP SDK."""

from __future__ import annotations

import asyncio
import logging

import httpx2
import msgspec
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from registration.providers.address_book import Address, FoundAddress
from registration.providers.connection import Refused, Unanswered
from registration.settings import Endpoint

TOOL = "address_lookup"

_log = logging.getLogger(__name__)


class McpAddressBook:
    """Looks up addresses with the tool `address_lookup` of an MCP server.

    Args:
        endpoint: the address of the server, with its path, and the token and time limits.
    """

    PROVIDER = "mcp"

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint

    def __repr__(self) -> str:
        return f"McpAddressBook({self._endpoint.address!r})"

    async def look_up(self, postcode: str, house: str) -> Address | None:
        """Return the address of a house, or None if the book does not have it.

        Args:
            postcode: such as `HF12AB`; spaces and case do not matter.
            house: a number or a name.

        Raises:
            Refused: the tool reported an error.
            Unanswered: there was no answer, or none that can be read.
        """
        arguments = {"postcode": postcode, "house": house}
        try:
            async with asyncio.timeout(self._endpoint.total_seconds):
                is_error, content = await self._call(arguments)
        except TimeoutError:
            raise Unanswered(self.PROVIDER, "timeout") from None
        except Exception as error:  # noqa: BLE001 -- the SDK raises groups of any exceptions
            # Its message may quote the request.
            _log.warning("the MCP server did not answer: %s", type(error).__name__)
            raise Unanswered(self.PROVIDER, "no_answer") from None
        if is_error:
            raise Refused(self.PROVIDER, "tool_failed")
        try:
            return msgspec.convert(content, FoundAddress).address
        except msgspec.ValidationError:
            raise Unanswered(self.PROVIDER, "unreadable") from None

    async def _call(self, arguments: dict[str, str]) -> tuple[bool, object]:
        """Call the tool in a session of its own; return whether it failed, and its answer."""
        token = self._endpoint.token.reveal()
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        limits = httpx2.Timeout(
            self._endpoint.total_seconds, connect=self._endpoint.connect_seconds
        )
        async with httpx2.AsyncClient(headers=headers, timeout=limits) as http:
            transport = streamable_http_client(self._endpoint.address, http_client=http)
            async with Client(transport) as client:
                result = await client.call_tool(TOOL, arguments)
                return bool(result.is_error), result.structured_content
