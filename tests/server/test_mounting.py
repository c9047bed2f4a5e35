"""The service works under any path of another application."""

from __future__ import annotations

from typing import Any

import aiohttp
import pytest
from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.routing import Mount
from tests.server.serving import Api, serve
from yarl import URL

from holdfast import Agent, MemoryJournal
from holdfast.client import Client
from holdfast.server import create_app
from holdfast.testing import ScriptedModel


def mount_in_fastapi(agents: Any) -> Any:
    site = FastAPI(lifespan=lambda _: agents.router.lifespan_context(agents))
    site.mount("/site/agents", agents)
    return site


def mount_in_starlette(agents: Any) -> Any:
    inner = [Mount("/agents", agents)]
    return Starlette(
        routes=[Mount("/site", routes=inner)],
        lifespan=lambda _: agents.router.lifespan_context(agents),
    )


def divide(agents: Any) -> Any:
    """Divide requests as a Django project does, whose own application is not asked here."""

    async def application(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await agents(scope, receive, send)
        else:
            assert scope["path"].startswith("/site/agents/")
            await agents({**scope, "root_path": "/site/agents"}, receive, send)

    return application


def cut_path(agents: Any) -> Any:
    """Change the path only, and neither `root_path` nor `raw_path`, as some dispatchers do."""

    async def application(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "lifespan":
            scope = {**scope, "path": scope["path"].removeprefix("/site/agents")}
        await agents(scope, receive, send)

    return application


@pytest.mark.parametrize("mount", [mount_in_fastapi, mount_in_starlette, divide, cut_path])
async def test_a_client_finds_the_service_under_a_path(mount: Any) -> None:
    agents = create_app(Agent(ScriptedModel("One.", "Two."), name="greeter"))
    async with serve(mount(agents)) as base, Client(f"{base}/site/agents") as client:
        turn = await client.run("greeter", "Hi.", session="a/b")
        assert turn.text == "One."
        assert (await client.sessions.info("a/b")).turns == 1
        items = [item async for item in client.turns.stream("greeter", "Hi.", session="a/b")]
        assert len(items) > 3
        async with Api(f"{base}/site/agents") as api:
            document = (await api.get("/openapi.json")).json
            if mount is not cut_path:
                assert document["servers"] == [{"url": "/site/agents/api/v1"}]


async def test_a_server_may_have_a_root_path() -> None:
    agents = create_app(Agent(ScriptedModel("One."), name="greeter"))
    async with serve(agents, root_path="/site") as base, Client(base) as client:
        assert (await client.run("greeter", "Hi.", session="a/b")).text == "One."
        assert (await client.sessions.info("a/b")).turns == 1


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
