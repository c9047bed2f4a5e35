"""Every stream of every protocol ends with an event that says so, or with a broken connection."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest
from starlette.applications import Starlette
from tests.server.processes import ServedProcess
from tests.server.serving import serve

from holdfast import Agent, Reply, ToolPermission, tool
from holdfast.core.messages import Text, ToolCall
from holdfast.event_log.item_encoding import encode_item
from holdfast.event_log.live.live_run import Entry
from holdfast.event_log.stream_items import EndItem, TextItem
from holdfast.hosting.tenant_service import TenantService
from holdfast.journal.journal_errors import JournalStorageError
from holdfast.server import create_app
from holdfast.server.access.keys import make_key
from holdfast.testing import Emulator, ScriptedModel
from holdfast.testing.emulator import EmulatedRequest, Pace

pytestmark = pytest.mark.anyio

MESSAGE = {"role": "user", "content": "Look."}
UI_MESSAGE = {"id": "m", "role": "user", "parts": [{"type": "text", "text": "Look."}]}
REQUESTS: dict[str, tuple[str, dict[str, object]]] = {
    "native": ("/api/v1/turns", {"agent": "looker", "message": "Look."}),
    "chat": ("/v1/chat/completions", {"model": "looker", "messages": [MESSAGE], "stream": True}),
    "responses": ("/v1/responses", {"model": "looker", "input": "Look.", "stream": True}),
    "background": (
        "/v1/responses",
        {"model": "looker", "input": "Look.", "stream": True, "background": True},
    ),
    "vercel": (
        "/vercel/looker/chat",
        {"id": "v", "trigger": "submit-message", "messages": [UI_MESSAGE]},
    ),
    "agui": (
        "/agui/looker",
        {
            "threadId": "a",
            "runId": "r",
            "messages": [{"id": "m", **MESSAGE}],
            "state": {},
            "tools": [],
            "context": [],
            "forwardedProps": {},
        },
    ),
}
"""The request of each protocol that begins a turn and streams it."""

WAYS = ["completed", "failed", "cancelled", "waiting", "stopping", "revoked"]
CUTS = ["shutting_down", "too_slow", "deleted", "sick journal"]


class Looker:
    """An agent that writes a part of its text, and then looks until the gate is open."""

    def __init__(self, end: str = "completed") -> None:
        self.gate, self.has_begun = asyncio.Event(), asyncio.Event()
        self.end = end

        @tool(effect="read")
        async def look() -> str:
            """Look."""
            self.has_begun.set()
            await self.gate.wait()
            return "nothing"

        @tool(effect="write")
        async def pay() -> str:
            """Pay."""
            return "paid"

        self.agent = Agent(
            ScriptedModel(*[self._answer] * 3),
            name="looker",
            tools=[look, pay],
            middleware=[ToolPermission(allow=["look"], ask=["pay"])],
        )

    def _answer(self, request: Any) -> Reply | str:
        if request.messages[-1].role == "user":
            return Reply((Text("I look."), ToolCall("c", "look", "{}")))
        if self.end == "failed":
            raise ValueError
        return Reply((ToolCall("d", "pay", "{}"),)) if self.end == "waiting" else "Done."


def read_events(body: bytes) -> list[Any]:
    """Return the data of the events; [DONE] as a text."""
    lines = [line[6:] for line in body.decode().split("\n") if line.startswith("data: ")]
    return [one if one == "[DONE]" else msgspec.json.decode(one) for one in lines]


def has_end(protocol: str, body: bytes) -> bool:
    """Whether the last event of a stream says that it ends."""
    events = read_events(body)
    last, before = events[-1], events[-2]
    if protocol == "native":
        return bool(last["type"] == "end")
    if protocol == "chat":
        return (last == "[DONE]" and bool(before["choices"][0]["finish_reason"])) or "error" in last
    if protocol == "vercel":
        return last == "[DONE]" and before["type"] in ("finish", "abort", "error")
    if protocol == "agui":
        return last["type"] in ("RUN_FINISHED", "RUN_ERROR")
    kinds = ("completed", "failed", "incomplete")
    return last["type"] == "error" or last["type"] in {f"response.{kind}" for kind in kinds}


class Reading:
    """One stream, which is read in the background to its end."""

    def __init__(
        self,
        base: str,
        protocol: str,
        headers: dict[str, str] | None = None,
        agent: str = "looker",
    ) -> None:
        self.protocol = protocol
        self.body = b""
        self.is_broken = False
        path, body = REQUESTS[protocol]
        self._url = base + path.replace("looker", agent)
        self._sent = msgspec.json.encode(body).replace(b"looker", agent.encode())
        kinds = {"Accept": "text/event-stream", "Content-Type": "application/json"}
        self._headers = {**kinds, **(headers or {})}
        self._task = asyncio.create_task(self._read())

    async def _read(self) -> None:
        async with (
            aiohttp.ClientSession(headers=self._headers) as http,
            http.post(self._url, data=self._sent) as response,
        ):
            assert response.status == 200, await response.read()
            try:
                async for piece in response.content.iter_any():
                    self.body += piece
            except aiohttp.ClientPayloadError:
                self.is_broken = True

    async def read_end(self) -> None:
        """Wait for the end, and check that it is none that looks like the end of an answer and is not."""
        async with asyncio.timeout(60):
            await self._task
        assert self.is_broken or has_end(self.protocol, self.body), self.body[-1000:]


async def end_turn(way: str, app: Starlette, looker: Looker) -> None:
    """Let a turn, or only its stream, end in one way."""
    service = app.state.service
    if way == "stopping":
        looker.gate.set()  # so that nobody waits for the tool
        await service.close(0.0)
    elif way == "cancelled":
        (tenant,) = service.tenants
        (turn,) = tenant.runner.driven
        await tenant.cancel(turn.session)
    elif way == "revoked":
        (key,) = await service.store.list_keys()
        await app.state.access.keys.revoke(key.id)
    looker.gate.set()


@pytest.mark.parametrize("protocol", REQUESTS)
@pytest.mark.parametrize("way", WAYS)
async def test_a_stream_ends_with_an_event_that_says_so(protocol: str, way: str) -> None:
    if (protocol, way) == ("native", "waiting"):
        pytest.skip("the native stream goes on after a wait")
    looker = Looker(way)
    app, headers = create_app(looker.agent, grace=0.0), {}
    if way == "revoked":
        text, key = make_key("ann", tenant="", scopes=("run", "read"), now=0.0)
        await app.state.service.store.add_key(key)
        headers = {"Authorization": f"Bearer {text}"}
    async with serve(app) as base:
        reading = Reading(base, protocol, headers)
        await looker.has_begun.wait()
        await end_turn(way, app, looker)
        await reading.read_end()
        looker.gate.set()
    assert not reading.is_broken


def cut_readers(tenant: TenantService, looker: Looker, cut: str) -> None:
    """End each stream of a tenant after its first text, in one way."""
    follow = tenant.reader.follow_batches

    async def follow_to_cut(*given: Any, **options: Any) -> AsyncGenerator[list[Entry]]:
        async with aclosing(follow(*given, **options)) as batches:
            async for batch in batches:
                yield batch
                if any(isinstance(one.item, TextItem) for one in batch):
                    break
        await looker.has_begun.wait()
        if cut == "sick journal":
            raise JournalStorageError("talk.db", "no space")
        position = batch[-1].position
        item = EndItem(str(position), cut)  # type: ignore[arg-type]  # REASON: one of the words
        yield [Entry(item, position, encode_item(item))]

    tenant.reader.follow_batches = follow_to_cut  # type: ignore[method-assign]  # REASON: a fault


@pytest.mark.parametrize("protocol", REQUESTS)
@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
async def test_a_stream_that_is_cut_says_so_or_breaks(protocol: str, cut: str) -> None:
    looker = Looker()
    app = create_app(looker.agent, grace=0.0)
    cut_readers(app.state.service.for_tenant(), looker, cut)
    async with serve(app) as base:
        reading = Reading(base, protocol)
        await reading.read_end()
        looker.gate.set()
    assert reading.is_broken is (cut == "sick journal")
    assert b"I look." in reading.body


async def test_the_reader_of_a_response_that_is_cut_goes_on_after_the_last_number() -> None:
    looker = Looker()
    app = create_app(looker.agent, grace=0.0)
    tenant = app.state.service.for_tenant()
    follow = tenant.reader.follow_batches
    cut_readers(tenant, looker, "too_slow")
    async with serve(app) as base:
        reading = Reading(base, "background")
        await reading.read_end()
        *_, before, error = read_events(reading.body)
        assert error["type"] == "error"
        assert error["error"]["code"] == error["code"] == "too_slow"
        assert error["sequence_number"] == before["sequence_number"]
        tenant.reader.follow_batches = follow
        looker.gate.set()
        name = read_events(reading.body)[0]["response"]["id"]
        url = f"{base}/v1/responses/{name}?stream=true&starting_after={error['sequence_number']}"
        async with aiohttp.ClientSession() as http, http.get(url) as response:
            rest = read_events(await response.read())
    assert rest[-1]["type"] == "response.completed"
    deltas = [one["delta"] for one in rest if one["type"] == "response.output_text.delta"]
    assert deltas == ["Done."]


@pytest.mark.parametrize("protocol", ["chat", "responses"])
async def test_a_whole_answer_that_is_cut_is_an_error_after_which_the_request_is_sent_again(
    protocol: str,
) -> None:
    looker = Looker()
    app = create_app(looker.agent, grace=0.0)
    path, body = REQUESTS[protocol]
    async with serve(app) as base, aiohttp.ClientSession() as http:
        sending = asyncio.create_task(http.post(base + path, json={**body, "stream": False}))
        await looker.has_begun.wait()
        looker.gate.set()
        await app.state.service.close(0.0)
        async with await sending as response:
            assert response.status == 503
            assert response.headers["Retry-After"] == "2"
            assert response.headers.get("x-should-retry") != "false"
            assert (await response.json())["error"]["code"] == "shutting_down"


# -- with processes


def write_slowly(request: EmulatedRequest) -> str:
    return f"{request.text}: " + " ".join(f"word-{number}" for number in range(200))


@pytest.mark.slow  # starts a process
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
async def test_streams_of_a_process_that_is_told_to_stop_or_killed(
    tmp_path: Path, number: signal.Signals
) -> None:
    journal = f"sqlite:///{tmp_path / 'talk.db'}"
    with (
        Emulator(write_slowly, faults=lambda _: Pace(0.02)) as model,
        ServedProcess(journal, model.base_url, tmp_path) as process,
    ):
        base = process.api.removesuffix("/api/v1")
        readings = [Reading(base, protocol, agent="noter") for protocol in REQUESTS]
        while not all(b"word-1" in one.body for one in readings):
            await asyncio.sleep(0.02)
        process.send(number)
        for one in readings:
            await one.read_end()
            is_served = number is signal.SIGTERM and one.protocol in ("chat", "responses")
            assert (b"word-199" in one.body) is is_served
