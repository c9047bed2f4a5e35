"""A key that is revoked or expires, and a sign-out, end open streams and held requests; turns go on."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest
from starlette.applications import Starlette
from tests.server.live_server import LiveServer, Reply, read_reply, serve
from tests.server.processes import ServedProcess
from tests.server.test_access_over_http import Service, bearer_line, serve_service, sign_in

from holdfast import Agent, SqliteJournal, ToolCall, tool
from holdfast.client import Client, ServiceError
from holdfast.errors import JournalUnreachableError
from holdfast.journal.service_store.service_store import ApiKey
from holdfast.journal.service_store.service_store_memory import MemoryServiceStore
from holdfast.journal.service_store.service_store_opening import open_service_store
from holdfast.server import create_app
from holdfast.server.access.key_ring import Credential
from holdfast.server.access.keys import make_key
from holdfast.server.access.open_requests import OpenRequests
from holdfast.testing import ScriptedModel

EVENTS = "/api/v1/sessions/s/events"
SOON = 30.0
"""Seconds; five, and many more on a busy machine."""
LOOKS = "holdfast.server.access.open_requests.SECONDS_BETWEEN_LOOKS"


def make_head(method: str, path: str, *lines: str) -> bytes:
    """Return the head of a request."""
    named = "".join(f"{line}\r\n" for line in lines if line)
    return f"{method} {path} HTTP/1.1\r\nHost: localhost\r\n{named}\r\n".encode()


class Held:
    """A request that is held, or whose stream is open.

    Args:
        server: the server.
        key: the key.
        path: where it is sent.
        body: its body; None for a GET.
    """

    def __init__(self, server: LiveServer, key: str, path: str, body: object = None) -> None:
        self._server = server
        self.path = path
        data = b"" if body is None else msgspec.json.encode(body)
        kind = "" if body is None else "Content-Type: application/json"
        length = "" if body is None else f"Content-Length: {len(data)}"
        lines = (bearer_line(key).strip(), kind, length, "Connection: close")
        self._sent = make_head("GET" if body is None else "POST", path, *lines) + data

    async def open(self) -> None:
        """Send it."""
        self._reader, self._writer = await self._server.connect()
        self._writer.write(self._sent)

    async def read_event(self) -> bytes:
        """Read the head, or an event."""
        return await self._reader.readuntil(b"\r\n\r\n")

    async def read_until(self, words: bytes) -> None:
        """Read to some words, and close the connection."""
        await self._reader.readuntil(words)
        self._writer.close()

    async def read_end(self) -> bytes:
        """Read to the end."""
        async with asyncio.timeout(60):
            text = await self._reader.read()
        self._writer.close()
        return text


# -- with a clock that is set


@asynccontextmanager
async def open_stream(service: Service, *lines: str) -> AsyncIterator[asyncio.StreamReader]:
    reader, writer = await service.connect()
    writer.write(make_head("GET", EVENTS, *lines))
    assert (await reader.readuntil(b"still here")).startswith(b"HTTP/1.1 200")
    yield reader
    writer.close()


async def read_to_end(reader: asyncio.StreamReader) -> None:
    async with asyncio.timeout(60):
        while await reader.read(1000):
            pass
    assert reader.at_eof()


async def is_open(service: Service, reader: asyncio.StreamReader) -> bool:
    """Whether a stream goes on after the callers were checked."""
    service.access.open_requests.look()
    for _ in range(3):
        await reader.readuntil(b"still here")
    return service.access.usage.open_streams == 1


@pytest.mark.slow  # takes half a second or more
async def test_a_stream_ends_when_its_key_expires() -> None:
    async with serve_service() as service:
        key = await service.make_key(seconds=60.0)
        async with open_stream(service, bearer_line(key).strip()) as reader:
            service.clock.ahead += 59
            assert await is_open(service, reader)
            service.clock.ahead += 1
            await read_to_end(reader)
        assert service.access.usage.open_streams == 0


@pytest.mark.slow  # takes half a second or more
async def test_a_stream_ends_when_its_key_is_revoked_elsewhere() -> None:
    async with serve_service() as service:
        key = await service.make_key()
        async with open_stream(service, bearer_line(key).strip()) as reader:
            (stored,) = await service.store.list_keys()
            await service.store.revoke_key(stored.id, service.clock())
            service.clock.ahead += 4.4  # and half a second until the next look
            await read_to_end(reader)


async def test_a_sign_out_ends_the_streams_of_the_sign_in_and_no_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(LOOKS, 1000.0)  # it is at once
    async with serve_service() as service:
        key = await service.make_key()
        (first, cookie), (_, other) = [await sign_in(service, key) for _ in range(2)]
        async with (
            open_stream(service, f"Cookie: {cookie}") as one,
            open_stream(service, f"Cookie: {other}") as two,
        ):
            token = str(first.json()["csrf_token"])
            out = await service.post("/console/sign-out", cookie=cookie, x_csrf_token=token)
            assert out.status == 204
            await read_to_end(one)
            assert await is_open(service, two)


async def test_the_sign_ins_of_a_revoked_key_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LOOKS, 1000.0)  # it is at once
    async with serve_service() as service:
        _, cookie = await sign_in(service, await service.make_key())
        async with open_stream(service, f"Cookie: {cookie}") as reader:
            (stored,) = await service.store.list_keys()
            assert await service.access.keys.revoke(stored.id)
            await read_to_end(reader)
        assert not await service.access.keys.revoke(stored.id)
        assert not await service.access.keys.revoke("unknown")


async def test_a_revocation_is_not_undone_by_a_search_that_began_before() -> None:
    class SlowStore(MemoryServiceStore):
        is_slow = False

        async def find_key(self, digest: bytes) -> ApiKey | None:
            found = await super().find_key(digest)
            if self.is_slow:
                await gate.wait()
            return found

    store, gate = SlowStore(), asyncio.Event()
    async with serve_service(store=store) as service:
        key = await service.make_key()
        assert (await service.get(key=key)).status == 200
        service.clock.ahead += 5
        store.is_slow = True
        before = asyncio.create_task(service.get(key=key))
        async with asyncio.timeout(60):
            while not service.access.keys._keys._asking:
                await asyncio.sleep(0.01)
        (stored,) = await service.store.list_keys()
        await service.access.keys.revoke(stored.id)
        gate.set()
        assert (await before).status == 200  # it came before
        assert (await service.get(key=key)).status == 401


@pytest.mark.slow  # takes half a second or more
async def test_streams_stay_while_the_store_cannot_be_read() -> None:
    class LostStore(MemoryServiceStore):
        is_lost = False

        async def find_key(self, digest: bytes) -> ApiKey | None:
            if self.is_lost:
                raise JournalUnreachableError("the store", "is gone")
            return await super().find_key(digest)

    store = LostStore()
    async with serve_service(store=store) as service:
        key = await service.make_key()
        async with open_stream(service, bearer_line(key).strip()) as reader:
            (stored,) = await service.store.list_keys()
            await store.revoke_key(stored.id, 1.0)
            store.is_lost = True
            service.clock.ahead += 5
            assert await is_open(service, reader)
            store.is_lost = False
            await read_to_end(reader)


async def test_a_slow_body_of_a_revoked_key_is_not_waited_for() -> None:
    async with serve_service() as service:
        key = await service.make_key()
        reader, writer = await service.connect()
        kind, length = "Content-Type: application/json", "Content-Length: 9"
        writer.write(make_head("POST", "/api/v1/turns", bearer_line(key).strip(), kind, length))
        writer.write(b"{")
        async with asyncio.timeout(60):
            while not service.access.open_requests._requests:
                await asyncio.sleep(0.01)
        (stored,) = await service.store.list_keys()
        await service.access.keys.revoke(stored.id)
        reply = await read_reply(reader)
        assert (reply.status, reply.json()["kind"]) == (401, "unauthenticated")
        writer.close()


# -- the protocols


class Slow:
    """A service whose turns take until its gate is open."""

    def __init__(self, journal: SqliteJournal | None = None) -> None:
        self.gate = asyncio.Event()

        @tool
        async def wait() -> str:
            """Wait."""
            await self.gate.wait()
            return "waited"

        model = ScriptedModel(
            *[
                lambda request: (
                    ToolCall("c1", "wait", "{}") if request.messages[-1].role == "user" else "Done."
                )
            ]
            * 100
        )
        agent = Agent(model, name="slow", tools=[wait])
        self.app: Starlette = create_app(agent, journal=journal)

    async def make_key(self) -> tuple[str, str]:
        """Return a key and its id."""
        text, key = make_key("ci", scopes=("admin",), now=0.0)
        await self.app.state.access.keys.store.add_key(key)
        return text, key.id

    async def finish(self) -> None:
        """Let the turns end, and check that all did."""
        runner = self.app.state.service.for_tenant().runner
        driven = list(runner.driven)
        assert driven
        self.gate.set()
        for turn in driven:
            await runner.wait(turn.session)
            last = await self.app.state.service.for_tenant().last_turn(turn.session)
            assert last.status == "completed", last


MESSAGE = {"role": "user", "content": "Hi"}
TURN = {"agent": "slow", "message": "Hi"}
UI_MESSAGE = {"id": "m1", "role": "user", "parts": [{"type": "text", "text": "Hi"}]}
AGUI_RUN = {"threadId": "t", "runId": "r", "messages": [{**MESSAGE, "id": "u1"}]}
CHAT = {"model": "slow", "messages": [MESSAGE]}
RESPONSE = {"model": "slow", "input": "Hi"}


def make_streams(server: LiveServer, key: str) -> dict[str, tuple[Held, bytes]]:
    """Return a stream of each protocol, and what its last event contains."""
    return {
        "events": (Held(server, key, EVENTS), b'"reason":"access_ended"'),
        "chat": (
            Held(server, key, "/v1/chat/completions", {**CHAT, "stream": True}),
            b'"code":"invalid_api_key"',
        ),
        "responses": (
            Held(server, key, "/v1/responses", {**RESPONSE, "stream": True}),
            b'event: error\ndata: {"type":"error","code":"invalid_api_key"',
        ),
        "vercel": (
            Held(server, key, "/vercel/slow/chat", {"id": "v", "messages": [UI_MESSAGE]}),
            b'data: {"type":"error","errorText":"The key was revoked',
        ),
        "agui": (Held(server, key, "/agui/slow", AGUI_RUN), b'"type":"RUN_ERROR"'),
    }


def make_held(server: LiveServer, key: str) -> dict[str, Held]:
    """Return a held request of each kind."""
    return {
        "start": Held(server, key, "/api/v1/turns", {**TURN, "wait": 600}),
        "read": Held(server, key, "/api/v1/sessions/s/turns/1?wait=600"),
        "chat": Held(server, key, "/v1/chat/completions", CHAT),
        "responses": Held(server, key, "/v1/responses", RESPONSE),
    }


async def test_every_stream_and_held_request_is_told_that_its_key_was_revoked() -> None:
    slow = Slow()
    async with serve(slow.app) as server:
        key, key_id = await slow.make_key()
        other, _ = await slow.make_key()
        body = msgspec.json.encode({**TURN, "session": "s"})
        assert (
            await server.request("POST", "/api/v1/turns", body, authorization=f"Bearer {key}")
        ).status == 202
        streams, held = make_streams(server, key), make_held(server, key)
        stays = Held(server, other, EVENTS)
        for one in (*(stream for stream, _ in streams.values()), *held.values(), stays):
            await one.open()
        for stream, _ in streams.values():
            assert b" 200 " in await stream.read_event()
        usage = slow.app.state.access.usage
        async with asyncio.timeout(60):
            while usage.open_streams < len(streams) + len(held) + 1:
                await asyncio.sleep(0.01)
        begun = time.monotonic()
        await slow.app.state.access.keys.revoke(key_id)
        for name, (stream, last) in streams.items():
            events = (await stream.read_end()).rstrip()
            assert events.endswith(b"0"), name  # the chunk that ends the response
            assert last in events, (name, events)
        for name, one in held.items():
            text = await one.read_end()
            assert text.startswith(b"HTTP/1.1 401 "), (name, text)
            assert b"revoked" in text, name
        assert time.monotonic() - begun < SOON
        assert usage.open_streams == 1
        await slow.finish()
        async with asyncio.timeout(60):
            await stays.read_until(b"turn_closed")


async def test_a_summary_is_written_though_nobody_may_read_that_any_more() -> None:
    """What a held request does besides waiting goes on; its caller is answered at once."""
    gate, began = asyncio.Event(), asyncio.Event()

    class SlowModel(ScriptedModel):
        async def attempt(self, call: object) -> object:  # type: ignore[override]
            if len(self.requests) == 1:
                began.set()
                await gate.wait()
            return await super().attempt(call)  # type: ignore[arg-type]

    app = create_app(Agent(SlowModel("Hello.", "We said hello."), name="slow"))
    text, key = make_key("ci", scopes=("admin",), now=0.0)
    await app.state.access.keys.store.add_key(key)
    async with serve(app) as server:
        bearer = {"authorization": f"Bearer {text}"}
        body = msgspec.json.encode({**TURN, "session": "s", "wait": 10})
        assert (await server.request("POST", "/api/v1/turns", body, **bearer)).status == 200
        path = "/api/v1/sessions/s/compact"
        held = asyncio.create_task(server.request("POST", path, b'{"keep": 0}', **bearer))
        await began.wait()
        await app.state.access.keys.revoke(key.id)
        reply: Reply = await held
        assert reply.status == 401
        gate.set()
        tenant = app.state.service.for_tenant()
        async with asyncio.timeout(60):
            while app.state.access.usage.open_streams:
                await asyncio.sleep(0.01)
        assert (await tenant.sessions.read("s")).points[-1].kind == "compaction"


async def test_a_client_that_follows_is_refused_and_does_not_come_back_for_ever() -> None:
    slow = Slow()
    async with serve(slow.app) as server:
        key, key_id = await slow.make_key()
        async with Client(f"http://127.0.0.1:{server.port}", api_key=key) as client:
            await client.sessions.create("S", session="s")

            async def follow() -> None:
                async for _ in client.follow("s"):
                    pass

            following = asyncio.create_task(follow())
            async with asyncio.timeout(60):
                while not slow.app.state.access.usage.open_streams:
                    await asyncio.sleep(0.01)
            await slow.app.state.access.keys.revoke(key_id)
            with pytest.raises(ServiceError) as refused:
                await following
            assert refused.value.details.status == 401


@pytest.mark.slow  # starts services as processes
async def test_streams_of_two_processes_end_soon(url: str, tmp_path: Path) -> None:
    """A key that another program revokes, and a person who signs out at one of two processes."""
    store, texts = open_service_store(url), []
    for name in ("ci", "ada"):
        text, key = make_key(name, scopes=("admin",), now=time.time())
        await store.add_key(key)
        texts.append((text, key.id))
    (key_text, key_id), (person, _) = texts
    with (
        ServedProcess(url, "http://127.0.0.1:1", tmp_path) as one,
        ServedProcess(url, "http://127.0.0.1:1", tmp_path) as two,
    ):
        servers = [LiveServer(one.port), LiveServer(two.port)]
        body = b'{"title": "S", "session": "s"}'
        bearer = {"authorization": f"Bearer {key_text}"}
        made = await servers[0].request("POST", "/api/v1/sessions", body, **bearer)
        assert made.status == 201
        sign_in_body = msgspec.json.encode({"key": person})
        signed = await servers[0].request("POST", "/console/sign-in", sign_in_body)
        cookies = [
            value.partition(";")[0] for name, value in signed.headers if name == "set-cookie"
        ]
        cookie = "; ".join(cookies)
        streams: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []
        for server in servers:
            for line in (f"Authorization: Bearer {key_text}", f"Cookie: {cookie}"):
                reader, writer = await server.connect()
                writer.write(make_head("GET", EVENTS, line))
                assert b" 200 " in await reader.readuntil(b"\r\n\r\n")
                streams.append((reader, writer))
        begun = time.monotonic()
        assert await store.revoke_key(key_id, time.time())
        token = str(signed.json()["csrf_token"])
        out = await servers[0].request(
            "POST", "/console/sign-out", b"{}", cookie=cookie, x_csrf_token=token
        )
        assert out.status == 204
        async with asyncio.timeout(60):
            for reader, _ in streams:
                await reader.readuntil(b'"reason":"access_ended"')
        assert time.monotonic() - begun < SOON
        for _, writer in streams:
            writer.close()
    store.close()


def test_callers_are_looked_at_in_each_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LOOKS, 0.05)
    ended = asyncio.Event()

    class Watched:
        def end(self) -> None:
            ended.set()

    async def is_valid(_credential: Credential) -> bool:
        return False

    requests = OpenRequests(is_valid)

    async def watch(*, waits: bool) -> None:
        with requests.watching(Credential("key", "x"), Watched()):  # type: ignore[arg-type]  # REASON: only its end counts
            if waits:
                await asyncio.wait_for(ended.wait(), 60)

    asyncio.run(watch(waits=False))
    asyncio.run(watch(waits=True))
    assert ended.is_set()
