"""A turn whose clients have left: it goes on, or ends if its agent or its request asks for that."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import aiohttp
import pytest
from starlette.applications import Starlette
from tests.server.protocols.test_no_silent_end import REQUESTS
from tests.server.serving import serve

from holdfast import Agent, Reply, tool
from holdfast.core.messages import ToolCall
from holdfast.errors import ConfigurationError
from holdfast.event_log.positions import Position
from holdfast.hosting.tenant_service import TenantService
from holdfast.server import ServiceOptions, create_app
from holdfast.server.protocols import openai_http
from holdfast.testing import ScriptedModel

pytestmark = pytest.mark.anyio

WISH = "Holdfast-On-Disconnect"
CANCEL = ServiceOptions(on_disconnect={"looker": "cancel"})
WHOLE = {
    "chat whole": ("/v1/chat/completions", {**REQUESTS["chat"][1], "stream": False}),
    "responses whole": ("/v1/responses", {**REQUESTS["responses"][1], "stream": False}),
}
ALL = {**REQUESTS, **WHOLE}


class Looker:
    """An agent that writes, and whose tool and model take until the gate is open."""

    def __init__(self, *, writes: bool = False) -> None:
        self.gate, self.has_begun = asyncio.Event(), asyncio.Event()
        self.written = 0

        @tool(effect="write" if writes else "read")
        async def look() -> str:
            """Look."""
            self.has_begun.set()
            await self.gate.wait()
            self.written += 1
            return "nothing"

        def answer(request: Any) -> Reply | str:
            is_asked = request.messages[-1].role == "user"
            return Reply((ToolCall("c", "look", "{}"),)) if is_asked else "Done."

        self.agent = Agent(ScriptedModel(*[answer] * 9), name="looker", tools=[look])

    async def send_and_leave(self, base: str, name: str, **headers: str) -> None:
        path, body = ALL[name]
        kinds = {"Accept": "text/event-stream", **headers}
        async with aiohttp.ClientSession(headers=kinds) as http:
            sending = asyncio.create_task(_read(http, base + path, body))
            await self.has_begun.wait()
            sending.cancel()
            await asyncio.wait([sending])


async def _read(http: aiohttp.ClientSession, url: str, body: object) -> bytes:
    async with http.post(url, json=body) as response:
        return await response.read()


def tenant_of(app: Starlette) -> TenantService:
    (tenant,) = app.state.service.tenants
    return tenant  # type: ignore[no-any-return]  # REASON: of a state without types


async def until_unread(tenant: TenantService) -> str:
    """Wait until nobody reads the turn; return its session."""
    (turn,) = tenant.runner.driven
    async with asyncio.timeout(10):
        while turn.live is None or turn.live.readers:
            await asyncio.sleep(0.005)
    return turn.session


async def look_after(tenant: TenantService, seconds: float) -> None:
    """Look for turns that nobody reads, now and after some seconds."""
    now = time.monotonic()
    await tenant.unread_turns.look(now)
    await tenant.unread_turns.look(now + seconds)


@pytest.fixture(autouse=True)
def _short_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(openai_http, "_SECONDS_BETWEEN_LOOKS", 0.005)


@pytest.mark.parametrize("name", ALL)
async def test_the_turn_of_an_agent_ends_when_nobody_has_read_it_for_ten_seconds(name: str) -> None:
    looker = Looker()
    app = create_app(looker.agent, grace=0.0, options=CANCEL)
    async with serve(app) as base:
        await looker.send_and_leave(base, name)
        tenant = tenant_of(app)
        session = await until_unread(tenant)
        await look_after(tenant, 9.9)
        assert tenant.runner.is_driven(session)
        await look_after(tenant, 10.0)
        await tenant.runner.wait(session)
        assert (await tenant.last_turn(session)).status == "cancelled"
        records = await tenant.journal.read(session)
    opened = records[0].event
    assert opened.options.metadata["holdfast.on_disconnect"] == "cancel"  # type: ignore[union-attr]
    assert records[-2].event.by == "nobody reads it"  # type: ignore[union-attr]  # REASON: an interruption
    assert looker.written == 0


@pytest.mark.parametrize("name", REQUESTS)
async def test_by_default_a_turn_goes_on(name: str) -> None:
    looker = Looker()
    app = create_app(looker.agent, grace=0.0)
    async with serve(app) as base:
        await looker.send_and_leave(base, name)
        tenant = tenant_of(app)
        session = await until_unread(tenant)
        await look_after(tenant, 3600.0)
        looker.gate.set()
        await tenant.runner.wait(session)
        assert (await tenant.last_turn(session)).status == "completed"


@pytest.mark.parametrize("name", REQUESTS)
async def test_a_request_asks_for_it_or_against_it(name: str) -> None:
    for wish, options in (("cancel", None), ("continue", CANCEL)):
        looker = Looker()
        app = create_app(looker.agent, grace=0.0, options=options)
        async with serve(app) as base:
            await looker.send_and_leave(base, name, **{WISH: wish})
            tenant = tenant_of(app)
            session = await until_unread(tenant)
            await look_after(tenant, 10.0)
            looker.gate.set()
            await tenant.runner.wait(session)
            status = (await tenant.last_turn(session)).status
        assert status == ("cancelled" if wish == "cancel" else "completed")


@pytest.mark.parametrize("name", REQUESTS)
@pytest.mark.parametrize("wish", ["", "stop", "Cancel", "cancel, cancel"])
async def test_a_wrong_wish_is_refused_by_name(name: str, wish: str) -> None:
    looker = Looker()
    path, body = ALL[name]
    app = create_app(looker.agent, grace=0.0)
    async with (
        serve(app) as base,
        aiohttp.ClientSession(headers={WISH: wish}) as http,
        http.post(base + path, json=body) as response,
    ):
        assert response.status == 400
        assert WISH in await response.text()
    assert not looker.has_begun.is_set()


async def test_a_reader_that_comes_back_is_no_departure() -> None:
    looker = Looker()
    app = create_app(looker.agent, grace=0.0, options=CANCEL)
    async with serve(app) as base:
        await looker.send_and_leave(base, "native")
        tenant = tenant_of(app)
        session = await until_unread(tenant)
        now = time.monotonic()
        await tenant.unread_turns.look(now)
        entries = tenant.reader.follow(session, Position())
        await anext(entries)
        await tenant.unread_turns.look(now + 9.0)
        await entries.aclose()
        await until_unread(tenant)
        await tenant.unread_turns.look(now + 11.0)
        await tenant.unread_turns.look(now + 20.0)
        assert tenant.runner.is_driven(session)
        await tenant.unread_turns.look(now + 21.0)
        await tenant.runner.wait(session)
    assert looker.written == 0


async def test_a_tool_that_writes_is_finished_first() -> None:
    looker = Looker(writes=True)
    app = create_app(looker.agent, grace=0.0, options=CANCEL)
    async with serve(app) as base:
        await looker.send_and_leave(base, "chat")
        tenant = tenant_of(app)
        session = await until_unread(tenant)
        await look_after(tenant, 10.0)
        await look_after(tenant, 10.0)  # it is asked once
        await asyncio.sleep(0)
        assert tenant.runner.is_driven(session)
        looker.gate.set()
        await tenant.runner.wait(session)
        records = await tenant.journal.read(session)
    kinds = [type(record.event).__name__ for record in records]
    assert looker.written == 1
    assert kinds.count("ToolFinished") == 1
    assert kinds.count("ModelReplied") == 1  # and no other call of the model


async def test_a_turn_that_was_continued_has_the_wish_of_its_request() -> None:
    """The journal says so, since the turn was not opened here."""
    looker = Looker()
    app = create_app(looker.agent, grace=0.0)
    async with serve(app) as base:
        await looker.send_and_leave(base, "native", **{WISH: "cancel"})
        tenant = tenant_of(app)
        session = await until_unread(tenant)
        (turn,) = tenant.runner.driven
        turn.opened = None
        await look_after(tenant, 10.0)
        await tenant.runner.wait(session)
        assert (await tenant.last_turn(session)).status == "cancelled"


async def test_the_wish_is_no_metadata_of_the_caller() -> None:
    looker = Looker()
    looker.gate.set()
    app = create_app(looker.agent, grace=0.0)
    path, body = WHOLE["responses whole"]
    async with (
        serve(app) as base,
        aiohttp.ClientSession(headers={WISH: "cancel"}) as http,
        http.post(base + path, json={**body, "metadata": {"a": 1}}) as response,
    ):
        assert (await response.json())["metadata"] == {"a": 1}


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"on_disconnect": {"looker": "stop"}}, "on_disconnect"),
        ({"on_disconnect": "cancel"}, "on_disconnect"),
        ({"on_disconnect": {"nobody": "cancel"}}, "on_disconnect"),
        ({"unread_seconds": -1}, "unread_seconds"),
        ({"unread_seconds": "10"}, "unread_seconds"),
        ({"unread_seconds": 86_401}, "unread_seconds"),
    ],
)
def test_a_wrong_option_is_refused_by_name(fields: dict[str, Any], name: str) -> None:
    with pytest.raises(ConfigurationError, match=name):
        create_app(Looker().agent, options=ServiceOptions(**fields))
