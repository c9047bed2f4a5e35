"""The emulated address book: an HTTP API and an MCP server over one table of invented streets.

The streets lie in a postcode area that does not exist. Only this module imports the server of the MCP SDK; it is
made of the low-level server, because `MCPServer` sets up the log of the whole process.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import escape
from typing import Annotated, Any, Final

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
from msgspec import Meta, Struct
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from registration.emulators.api import ApiError, answer, check_token, make_app, read_body, show_page
from registration.emulators.faults import Faults, FaultyApp
from registration.providers import Address

Short = Annotated[str, Meta(max_length=100)]


class SearchBody(Struct, frozen=True):
    """The body of `POST /v1/addresses/search`."""

    postcode: Short
    house: Short


class AddressEmulator:
    """An address book on loopback.

    Args:
        token: the token that a client must send.
        faults: the faults of the API.
    """

    def __init__(self, token: str, *, faults: Faults | None = None) -> None:
        self._token = token
        self._addresses = {normalize(one.postcode, one.house): one for one in list_addresses()}
        self.faults = faults or Faults()
        routes = [
            Route("/", self._show_table),
            Route("/v1/addresses/search", self._search, methods=["POST"]),
        ]
        self.app = FaultyApp(make_app(routes), self.faults)

    async def _search(self, request: Request) -> Response:
        check_token(request, self._token)
        body = await read_body(request, SearchBody)
        found = self._addresses.get(normalize(body.postcode, body.house))
        return answer({"address": found})

    async def _show_table(self, _request: Request) -> Response:
        rows = "".join(
            f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in street)}</tr>"
            for street in STREETS
        )
        return show_page("Addresses to try", f"<table>{rows}</table>")


CITY = "Holdford"

# Postcode, street, town, and the houses: a range "1-39" with its step, or names.
STREETS: tuple[tuple[str, str, str, str], ...] = (
    ("HF1 1AA", "Market Street", "Northgate", "1-40"),
    ("HF1 1AB", "Church Lane", "Northgate", "1-25, The Old Rectory, Bell Cottage"),
    ("HF1 1AD", "Station Road", "Northgate", "2-60 even"),
    ("HF1 1AE", "Station Road", "Northgate", "1-59 odd"),
    ("HF1 2AB", "Mill Lane", "Northgate", "1-30, The Mill House"),
    ("HF1 2AD", "Bridge Street", "Northgate", "1-18, 7a, 7b"),
    ("HF1 2BE", "Quay Side", "Northgate", "1-12, Flat 1, Flat 2, Flat 3"),
    ("HF1 3CD", "Victoria Avenue", "Northgate", "1-80"),
    ("HF1 3CE", "Albert Avenue", "Northgate", "1-64"),
    ("HF1 3DG", "Park View", "Northgate", "1-22, Park Lodge"),
    ("HF2 1AA", "High Street", "Marlow Green", "1-48"),
    ("HF2 1AB", "Green Lane", "Marlow Green", "1-33, Rose Cottage"),
    ("HF2 1BD", "Orchard Close", "Marlow Green", "1-16"),
    ("HF2 1BE", "Apple Tree Road", "Marlow Green", "1-29"),
    ("HF2 2CF", "Meadow Way", "Marlow Green", "1-45"),
    ("HF2 2CG", "Daisy Bank", "Marlow Green", "1-14, 3a"),
    ("HF2 2DH", "School Lane", "Marlow Green", "2-30 even, The School House"),
    ("HF3 1AA", "Canal Street", "Eastmoor", "1-50"),
    ("HF3 1AB", "Lock Keepers Row", "Eastmoor", "1-9, Lock Cottage"),
    ("HF3 1BD", "Foundry Road", "Eastmoor", "1-72"),
    ("HF3 2EF", "Chapel Street", "Eastmoor", "1-39 odd"),
    ("HF3 2EG", "Chapel Street", "Eastmoor", "2-40 even"),
    ("HF3 2FH", "Moor End", "Eastmoor", "1-20, Moor Farm, Hill Top"),
    ("HF4 1AA", "Stadium Way", "Westbrook", "1-36"),
    ("HF4 1AB", "Goal Lane", "Westbrook", "1-11"),
    ("HF4 1BD", "Pavilion Road", "Westbrook", "1-27, The Pavilion"),
    ("HF4 2CE", "Brook Street", "Westbrook", "1-55"),
    ("HF4 2CF", "Willow Walk", "Westbrook", "1-19"),
    ("HF4 2DG", "Heron Close", "Westbrook", "1-8"),
    ("HF5 1AA", "Long Acre", "Hollin Wood", "1-44"),
    ("HF5 1AB", "Beech Drive", "Hollin Wood", "1-31"),
    ("HF5 1BD", "Oak Drive", "Hollin Wood", "1-28"),
    ("HF5 2EF", "Ash Grove", "Hollin Wood", "1-17, Ash House"),
    ("HF5 2EG", "Wood Lane", "Hollin Wood", "1-13, Keepers Cottage"),
    ("HF10 4ZZ", "Lighthouse Road", "Sandhaven", "1-10, The Lighthouse"),
    ("HF10 5QQ", "Harbour View", "Sandhaven", "1-24, Flat 1, Flat 2"),
)

RANGE = re.compile(r"([0-9]+)-([0-9]+)(?: (?:even|odd))?")
BEFORE_NUMBER = re.compile(r"^(?:no\.?|number|house) *(?=[0-9])")


def list_addresses() -> Iterator[Address]:
    """Return every address of the table."""
    for postcode, street, town, houses in STREETS:
        for house in expand_houses(houses):
            line = f"{house} {street}" if house[0].isdigit() else f"{house}, {street}"
            full = f"{line}, {town}, {CITY}, {postcode}"
            yield Address(house, line, town, CITY, postcode.replace(" ", ""), full)


def expand_houses(houses: str) -> Iterator[str]:
    """Return the houses that a text of the table names.

    >>> list(expand_houses("1-3, 3a, Bell Cottage, 6-9 even"))
    ['1', '2', '3', '3a', 'Bell Cottage', '6', '8']
    """
    for part in houses.split(", "):
        found = RANGE.fullmatch(part)
        if found is None:
            yield part
            continue
        first, last = int(found[1]), int(found[2])
        step = 2 if " " in part else 1
        yield from (str(number) for number in range(first, last + 1, step))


def normalize(postcode: str, house: str) -> tuple[str, str]:
    """Return a postcode and a house as the table is searched by them.

    >>> normalize("hf1 2ab", " No. 7A ")
    ('HF12AB', '7a')
    """
    words = " ".join(house.casefold().replace(",", " ").split())
    return "".join(postcode.upper().split()), BEFORE_NUMBER.sub("", words)


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
        token: the token that a client must send.
        faults: the faults of the server.
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
