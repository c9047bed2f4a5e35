"""`create_app` lets only those through who may pass, with any journal."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from pathlib import Path

import msgspec
import pytest
from tests.server.live_server import LiveServer, Reply, serve

from holdfast import (
    Agent,
    MemoryJournal,
    PostgresJournal,
    SqliteJournal,
    ToolCall,
    ToolPermission,
    tool,
)
from holdfast.core.events import TurnOpened
from holdfast.core.messages import user
from holdfast.errors import ConfigurationError
from holdfast.hosting.service_tenants import ServiceTenants
from holdfast.journal.encoding import encode_event
from holdfast.journal.retention import Retention
from holdfast.journal.service_store.service_store_opening import open_service_store
from holdfast.server import AccessLimits, AccessOptions, ServiceOptions, create_app
from holdfast.server.access.keys import make_key
from holdfast.sessions.sessions import Sessions
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


@pytest.mark.slow  # takes half a second or more
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
        async with asyncio.timeout(60):  # they are counted once a second
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


@pytest.mark.slow  # takes half a second or more
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
    async with asyncio.timeout(60):
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


def limited(**limits: int) -> AccessOptions:
    return AccessOptions(limits=AccessLimits(**limits))  # type: ignore[arg-type]


async def test_no_act_calls_a_model_more_often_than_turns_are_allowed() -> None:
    """Of a key that may start five turns a minute, 60 requests to resume or compact call no more."""
    model = ScriptedModel(*["Hello."] * 100)
    app = create_app(Agent(model, name="greeter"), access=limited(turns_per_minute=5))
    async with serve(app) as server:
        body = b'{"agent": "greeter", "message": "Hi", "session": "s", "wait": 10}'
        assert (await server.request("POST", "/api/v1/turns", body)).status == 200
        kinds = []
        for n in range(60):
            path, sent = ("resume", b"{}") if n % 2 else ("compact", b'{"keep": 0}')
            reply = await server.request("POST", f"/api/v1/sessions/s/{path}", sent)
            kinds.append("ok" if reply.status < 300 else reply.json()["kind"])
            if reply.status == 429:
                assert int(reply.header("retry-after")) >= 1
            await app.state.service.for_tenant().runner.wait("s")
        assert kinds.count("turn_rate") == 56
        assert len(model.requests) <= 5
        given = b'{"keep": 0, "summary": "We said hello."}'  # needs no model
        assert (await server.request("POST", "/api/v1/sessions/s/compact", given)).status == 200


@pytest.mark.slow  # takes half a second or more
async def test_forks_are_refused_when_a_tenant_has_stored_what_it_may(tmp_path: Path) -> None:
    """40 forks of a session of 400 kB; a restart, a deletion and pruning count."""
    most, at = 1_000_000, "/api/v1/sessions"
    turn = b'{"agent": "greeter", "message": "%s", "session": "s", "wait": 10}' % (b"x" * 400_000)
    statuses: list[int] = []
    for n in range(2):  # the second process knows what the first one has stored
        with SqliteJournal(tmp_path / "talk.db") as journal:
            app = create_app(greeter(), journal=journal, access=limited(stored_bytes=most))
            async with serve(app) as server:
                if not n:
                    assert (await server.request("POST", "/api/v1/turns", turn)).status == 200
                replies = await asyncio.gather(
                    *(server.request("POST", f"{at}/s/fork", b"{}") for _ in range(20))
                )
                statuses += [reply.status for reply in replies]
                refused = next(reply for reply in replies if reply.status == 429)
                assert refused.json()["kind"] == "stored_bytes"
                assert refused.json()["retryable"] is False
                assert refused.header("retry-after") == ""
                assert await app.state.service.count_bytes("") <= most
    assert sorted(statuses) == [201] + [429] * 39
    with SqliteJournal(tmp_path / "talk.db") as journal:
        app = create_app(greeter(), journal=journal, access=limited(stored_bytes=most))
        async with serve(app) as server:
            assert (await server.request("POST", "/api/v1/turns", turn)).status == 429
            listed = (await server.request("GET", at)).json()["sessions"]
            for name in [one["session"] for one in listed if one["session"] != "s"]:  # type: ignore[union-attr, attr-defined]
                assert (await server.request("DELETE", f"{at}/{name}")).status == 204
            async with asyncio.timeout(60):  # what was counted is used for a second
                while (await server.request("POST", f"{at}/s/fork", b"{}")).status == 429:
                    await asyncio.sleep(0.05)
            await Sessions(journal).prune(Retention(sessions=0))
            assert await app.state.service.count_bytes("") == 0


async def test_uploads_and_imports_count_for_the_tenant_that_sends_them() -> None:
    app = create_app(greeter(), access=limited(stored_bytes=100_000))
    keys = []
    for tenant in ("acme", "other"):
        text, key = make_key("ci", scopes=("admin",), now=0.0, tenant=tenant)
        await app.state.access.keys.store.add_key(key)
        keys.append(f"Bearer {text}")
    async with serve(app) as server:
        for n, (body, status) in enumerate(
            [(b"a" * 60_000, 201), (b"b" * 60_000, 429), (b"c" * 30_000, 201)]
        ):
            sent = await server.request(
                "POST", "/api/v1/media", body, authorization=keys[0], content_type="image/png"
            )
            assert sent.status == status, n
        lines = await server.request(
            "POST",
            "/api/v1/sessions/import",
            b"{}\n" * 10_000,
            authorization=keys[0],
            content_type="application/x-ndjson",
        )
        assert (lines.status, lines.json()["kind"]) == (429, "stored_bytes")
        other = await server.request(
            "POST", "/api/v1/media", b"b" * 60_000, authorization=keys[1], content_type="image/png"
        )
        assert other.status == 201


async def test_a_held_request_counts_as_a_stream() -> None:
    gate = asyncio.Event()

    @tool
    async def wait() -> str:
        """Wait."""
        await gate.wait()
        return "waited"

    model = ScriptedModel(ToolCall("c1", "wait", "{}"), "Done.", "Hello.", "Hello.")
    agent = Agent(model, name="greeter", tools=[wait])
    app = create_app(agent, access=limited(streams_per_key=1))
    async with serve(app) as server:
        held_turn = TURN[:-1] + b', "session": "s", "wait": 60}'
        held = asyncio.create_task(server.request("POST", "/api/v1/turns", held_turn))
        async with asyncio.timeout(60):
            while app.state.access.usage.open_streams < 1:
                await asyncio.sleep(0.01)
        chat = b'{"model": "greeter", "messages": [{"role": "user", "content": "Hi"}]}'
        for method, path, body in (
            ("POST", "/api/v1/turns", TURN[:-1] + b', "wait": 1}'),
            ("GET", "/api/v1/sessions/s/turns/1?wait=60", None),
            ("POST", "/v1/chat/completions", chat),
            ("POST", "/v1/responses", b'{"model": "greeter", "input": "Hi"}'),
        ):
            refused = await server.request(method, path, body)
            assert refused.status == 429, (path, refused.body)
        started = await server.request("POST", "/api/v1/turns", TURN)
        assert started.status in (200, 202)  # it does not wait
        gate.set()
        assert (await held).status == 200
        assert app.state.access.usage.open_streams == 0


async def test_schedules_submit_no_more_turns_than_a_key_may_start() -> None:
    app = create_app(greeter(), access=limited(turns_per_minute=30))
    async with serve(app) as server:

        async def put(name: str, **when: object) -> Reply:
            body = {"name": name, "agent": "greeter", "message": "Hi", **when}
            return await server.request("POST", "/api/v1/schedules", msgspec.json.encode(body))

        assert (await put("a", every=3)).status == 201  # 20 a minute
        refused = await put("b", every=5)
        assert (refused.status, refused.json()["kind"]) == (429, "schedule_ticks")
        assert (await put("b", cron="* * * * *")).status == 201
        assert (await put("a", every=60)).status == 201  # it is replaced
        assert (await put("c", every=5)).status == 201


async def test_a_journal_that_does_not_count_its_bytes_is_read() -> None:
    memory = MemoryJournal()

    class PlainJournal:
        """A journal with the methods of the port alone."""

        tenant = ""

        def for_tenant(self, _tenant: str) -> PlainJournal:
            return self

        def __getattr__(self, name: str) -> object:
            if name in ("count_bytes", "find_runs", "recent_runs", "keys", "read_by_keys"):
                raise AttributeError(name)
            return getattr(memory, name)

    tenants = ServiceTenants(greeter(), PlainJournal())  # type: ignore[arg-type]
    opened = TurnOpened("t1", 1.0, user("Hi"))
    for run in ("a", "b"):
        await memory.append(run, opened)
    size = len(encode_event(opened).encode())
    assert await tenants.for_tenant().count_bytes("a") == size == await memory.count_bytes("a")
    assert await tenants.count_bytes("") == 2 * size
