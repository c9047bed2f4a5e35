"""`create_app` lets only those through who may pass, with any journal."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from pathlib import Path

import pytest
from tests.server.live_server import LiveServer, serve

from holdfast import Agent, PostgresJournal, SqliteJournal, ToolCall, ToolPermission, tool
from holdfast.errors import ConfigurationError
from holdfast.journal.service_store_opening import open_service_store
from holdfast.server import AccessLimits, AccessOptions, ServiceOptions, create_app
from holdfast.server.access.keys import make_key
from holdfast.testing import ScriptedModel

TURN = b'{"agent": "greeter", "message": "Hi"}'


def greeter(**settings: object) -> Agent[str]:
    return Agent(ScriptedModel("Hello."), name="greeter", **settings)  # type: ignore[arg-type]


async def test_a_turn_needs_a_key_as_soon_as_there_is_one(tmp_path: Path) -> None:
    with SqliteJournal(tmp_path / "talk.db") as journal:
        app = create_app(greeter(), journal=journal, access=AccessOptions(auth="keys"))
        async with serve(app) as server:
            refused = await server.request("POST", "/api/v1/turns", TURN)
            assert (refused.status, refused.json()["kind"]) == (401, "unauthenticated")
            store = open_service_store(journal)  # as another process would
            text, key = make_key("ci", scopes=("admin",), now=0.0)
            await store.add_key(key)
            started = await server.request(
                "POST", "/api/v1/turns", TURN, authorization=f"Bearer {text}"
            )
            assert started.status in (200, 202)
            assert (await server.request("GET", "/ready")).json() == {"status": "ready"}
            store.close()


async def test_a_service_in_memory_answers_this_machine() -> None:
    app = create_app(greeter())
    async with serve(app) as server:
        assert (await server.request("POST", "/api/v1/turns", TURN)).status in (200, 202)
        hostile = await server.request("POST", "/api/v1/turns", TURN, origin="https://evil.example")
        assert hostile.status == 403
    await app.state.access.check_bind("127.0.0.1")
    with pytest.raises(ConfigurationError, match="no keys"):
        await app.state.access.check_bind("0.0.0.0")


async def test_a_journal_that_was_closed_is_not_ready(tmp_path: Path) -> None:
    journal = SqliteJournal(tmp_path / "talk.db")
    async with serve(create_app(greeter(), journal=journal)) as server:
        journal.close()
        reply = await server.request("GET", "/ready")
        assert reply.status == 503
        assert reply.json()["problems"] == {"journal": "does not work: JournalClosedError"}
        assert (await server.request("GET", "/health")).status == 200


async def test_the_turns_of_a_tenant_are_limited() -> None:
    @tool
    def pay(euros: int) -> str:
        """Pay."""
        return "paid"

    model = ScriptedModel(*[ToolCall(f"c{n}", "pay", '{"euros": 1}') for n in range(9)])
    agent = Agent(model, name="greeter", tools=[pay], middleware=[ToolPermission(ask=["pay"])])
    app = create_app(agent, access=AccessOptions(limits=AccessLimits(waiting_turns=2)))
    async with serve(app) as server:
        for _ in range(2):
            waiting = TURN[:-1] + b', "wait": 10}'
            started = await server.request("POST", "/api/v1/turns", waiting)
            assert started.json()["status"] == "waiting", started.body
        text = ""
        async with asyncio.timeout(10):  # they are counted once a second
            while "\nholdfast_turns_waiting 2\n" not in text:
                text = (await server.request("GET", "/metrics")).body.decode()
                await asyncio.sleep(0.05)
        assert "\nholdfast_turns_running 0\n" in text
        await server.request("POST", "/api/v1/turns", b"{}")  # counts again beside it
        refused = await server.request("POST", "/api/v1/turns", TURN)
        assert (refused.status, refused.json()["kind"]) == (429, "waiting_turns")


async def test_a_key_reaches_its_own_tenant_with_its_own_scopes() -> None:
    app = create_app(greeter())
    keys = {}
    for tenant, scope in (("acme", "run"), ("acme", "read"), ("other", "admin")):
        text, key = make_key("ci", scopes=(scope,), now=0.0, tenant=tenant)
        await app.state.access.keys.store.add_key(key)
        keys[tenant, scope] = f"Bearer {text}"
    async with serve(app) as server:
        body = b'{"agent": "greeter", "message": "Hi", "session": "s", "wait": 10}'
        turn = ("POST", "/api/v1/turns", body)
        assert (await server.request(*turn)).status == 401
        assert (await server.request(*turn, authorization=keys["acme", "read"])).status == 403
        assert (await server.request(*turn, authorization=keys["acme", "run"])).status == 200
        read = ("GET", "/api/v1/sessions/s/history")
        assert (await server.request(*read, authorization=keys["acme", "read"])).status == 200
        assert (await server.request(*read, authorization=keys["other", "admin"])).status == 404


async def test_open_streams_of_the_api_are_limited() -> None:
    app = create_app(greeter(), access=AccessOptions(limits=AccessLimits(streams_per_key=1)))
    async with serve(app) as server:
        body = b'{"agent": "greeter", "message": "Hi", "session": "s", "wait": 10}'
        assert (await server.request("POST", "/api/v1/turns", body)).status == 200
        reader, writer = await server.connect()
        writer.write(b"GET /api/v1/sessions/s/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        await reader.readuntil(b"event:")
        refused = await server.request("GET", "/api/v1/sessions/s/events")
        assert (refused.status, refused.json()["kind"]) == (429, "open_streams")
        refused = await server.request("POST", "/api/v1/turns", body, accept="text/event-stream")
        assert refused.status == 429
        writer.close()


async def test_metrics_count_the_turns_of_agents() -> None:
    app = create_app(greeter())
    async with serve(app) as server:
        body = b'{"agent": "greeter", "message": "Hi", "session": "s", "wait": 10}'
        assert (await server.request("POST", "/api/v1/turns", body)).status == 200
        text = (await server.request("GET", "/metrics")).body.decode()
        assert 'holdfast_turns_started_total{agent="greeter"} 1\n' in text
        assert 'holdfast_turns_ended_total{agent="greeter",status="completed"} 1\n' in text
        route = 'method="POST",route="/api/v1/turns"'
        assert f'holdfast_http_requests_total{{{route},status="200"}} 1\n' in text
        await server.request("GET", "/api/v1/sessions/s/history")
        text = (await server.request("GET", "/metrics")).body.decode()
        assert 'route="/api/v1/sessions/{session}/history",status="200"} 1\n' in text


async def test_services_on_one_database_know_the_same_keys(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.server.access.key_ring.CACHE_SECONDS", 0.2)
    with PostgresJournal(url) as one, PostgresJournal(url) as other:
        apps = [create_app(greeter(), journal=journal) for journal in (one, other)]
        async with serve(apps[0]) as first, serve(apps[1]) as second:
            assert (await second.request("GET", "/api/v1/agents")).status == 200
            text, key = make_key("ci", scopes=("read",), now=0.0)
            store = open_service_store(url)  # as `holdfast keys` would
            await store.add_key(key)
            for server in (first, second):
                await wait_for_status(server, 401, "")
                await wait_for_status(server, 200, text)
            await store.revoke_key(key.id, 1.0)
            for server in (first, second):
                await wait_for_status(server, 401, text)
            store.close()


async def wait_for_status(server: LiveServer, status: int, key: str) -> None:
    async with asyncio.timeout(5):
        while True:
            bearer = f"Bearer {key}" if key else ""
            reply = await server.request("GET", "/api/v1/agents", authorization=bearer)
            if reply.status == status:
                return
            await asyncio.sleep(0.05)


@pytest.mark.parametrize(
    ("names", "problem"), [("greeter", "must be a list"), (["nobody"], "Use: greeter")]
)
def test_text_is_held_for_a_list_of_known_agents(names: Collection[str], problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem) as raised:
        create_app(greeter(), options=ServiceOptions(hold_text=names))
    assert raised.value.argument == "hold_text"
