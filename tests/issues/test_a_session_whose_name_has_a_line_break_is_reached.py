"""A path with a line break matched no mount: the answer was a plain text, and such a session out of reach."""

from __future__ import annotations

import aiohttp
from tests.server.serving import serve
from yarl import URL

from holdfast import Agent, MemoryJournal
from holdfast.client import Client
from holdfast.server import create_app
from holdfast.testing import ScriptedModel


async def test_a_session_whose_name_has_a_line_break_is_reached() -> None:
    app = create_app(Agent(ScriptedModel("Hello."), name="greeter"), journal=MemoryJournal())
    async with serve(app) as base, Client(base) as client, aiohttp.ClientSession() as http:
        turn = await client.run("greeter", "Hi.", session="two\nlines")
        assert turn.session == "two\nlines"
        place = f"{base}/api/v1/sessions/"
        async with http.get(URL(f"{place}two%0Alines", encoded=True)) as found:
            assert found.status == 200
        async with http.get(URL(f"{place}no%0Asession", encoded=True)) as missing:
            assert missing.status == 404
            assert missing.content_type == "application/problem+json"
