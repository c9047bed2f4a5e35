"""The emulated address book."""

from __future__ import annotations

from html import escape
from typing import Annotated

from msgspec import Meta, Struct
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from registration.emulators.address_table import STREETS, list_addresses, normalize
from registration.emulators.api import answer, check_token, make_app, read_body, show_page
from registration.emulators.faults import Faults, FaultyApp

Short = Annotated[str, Meta(max_length=100)]


class SearchBody(Struct, frozen=True):
    """The body of `POST /v1/addresses/search`."""

    postcode: Short
    house: Short


class AddressEmulator:
    """An address book on loopback.

    Args:
        token: what a client must send.
        faults: what goes wrong at the API.
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
