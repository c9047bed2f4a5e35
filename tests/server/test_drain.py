"""A process that is to stop serves those to the end who cannot come back, and hands over all others at once."""

from __future__ import annotations

import asyncio
import signal
import time
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest
from starlette.applications import Starlette
from tests.server.processes import ServedProcess
from tests.server.protocols.test_no_silent_end import REQUESTS, Reading, read_events
from tests.server.serving import serve

from holdfast import Agent, Reply, tool
from holdfast.core.errors import ConfigurationError
from holdfast.core.messages import Text, ToolCall
from holdfast.event_log.live.session_watch import SessionWatch
from holdfast.hosting.tenant_service import ServiceOptions
from holdfast.server import create_app
from holdfast.testing import Emulator, ScriptedModel
from holdfast.testing.emulator import EmulatedRequest, Pace

pytestmark = pytest.mark.anyio

HELD = ["chat", "responses"]
HANDED_OVER = ["native", "background", "vercel", "agui"]
WHOLE: dict[str, tuple[str, dict[str, object]]] = {
    "chat": REQUESTS["chat"],
    "responses": REQUESTS["responses"],
    "wait": ("/api/v1/turns", {"agent": "looker", "message": "Look.", "wait": 30}),
}
"""The requests that are answered at the end of a turn and not by a stream."""


class Lookers:
    """An agent whose turns look until the gate is open."""

    def __init__(self, turns: int) -> None:
        self.gate = asyncio.Event()
        self.begun = 0

        @tool(effect="read")
        async def look() -> str:
            """Look."""
            self.begun += 1
            await self.gate.wait()
            return "nothing"

        model = ScriptedModel(*[self._answer] * 2 * turns)
        self.agent = Agent(model, name="looker", tools=[look])

    def _answer(self, request: Any) -> Reply | str:
        if request.messages[-1].role == "user":
            return Reply((Text("I look."), ToolCall("c", "look", "{}")))
        return "Done."

    async def wait(self, turns: int) -> None:
        async with asyncio.timeout(20):
            while self.begun < turns:
                await asyncio.sleep(0.005)


async def send_whole(http: aiohttp.ClientSession, base: str, name: str) -> tuple[int, bytes, str]:
    """Return the status, the body and the Retry-After of the answer to a request."""
    path, body = WHOLE[name]
    sent = body if name == "wait" else {**body, "stream": False}
    async with http.post(base + path, json=sent) as answer:
        return answer.status, await answer.read(), answer.headers.get("Retry-After", "")


def make_app(lookers: Lookers, **options: Any) -> Starlette:
    return create_app(lookers.agent, grace=0.0, options=ServiceOptions(**options))


async def test_the_held_are_answered_and_the_others_handed_over_at_once() -> None:
    turns = len(HELD) + len(HANDED_OVER) + 2
    lookers = Lookers(turns)
    app = make_app(lookers)
    async with serve(app) as base, aiohttp.ClientSession() as http:
        held = {name: Reading(base, name) for name in HELD}
        others = [Reading(base, name) for name in HANDED_OVER]
        whole = [
            asyncio.create_task(send_whole(http, base, name)) for name in ("chat", "responses")
        ]
        await lookers.wait(turns)
        closing = asyncio.create_task(app.state.service.close(0.0, drains=True))
        for one in others:
            await one.read_end()
            assert b"Done." not in one.body
        async with http.get(f"{base}/ready") as ready:
            assert ready.status == 503
        assert await send_whole(http, base, "chat") == (503, *_refused(), "2")
        assert not closing.done()
        lookers.gate.set()
        for protocol, one in held.items():
            await one.read_end()
            assert b"Done." in one.body
            last = read_events(one.body)[-1]
            assert last == "[DONE]" if protocol == "chat" else last["type"] == "response.completed"
        for status, body, _ in await asyncio.gather(*whole):
            assert (status, b"Done." in body) == (200, True)
        async with asyncio.timeout(20):
            await closing


def _refused() -> tuple[bytes]:
    error = {
        "message": "The service is shutting down and accepts no more turns.",
        "type": "server_error",
        "param": None,
        "code": "shutting_down",
    }
    return (msgspec.json.encode({"error": error}),)


async def test_a_request_with_wait_is_held() -> None:
    lookers = Lookers(1)
    app = make_app(lookers)
    async with serve(app) as base, aiohttp.ClientSession() as http:
        waiting = asyncio.create_task(send_whole(http, base, "wait"))
        await lookers.wait(1)
        closing = asyncio.create_task(app.state.service.close(0.0, drains=True))
        lookers.gate.set()
        status, body, _ = await waiting
        assert (status, msgspec.json.decode(body)["text"]) == (200, "Done.")
        await closing


@pytest.mark.parametrize("how", ["time", "again"])
async def test_when_the_drain_is_over_the_held_get_an_error_after_which_they_repeat(
    how: str,
) -> None:
    lookers = Lookers(3)
    app = make_app(lookers, drain=0.05 if how == "time" else 3600.0)
    async with serve(app) as base, aiohttp.ClientSession() as http:
        streams = [Reading(base, name) for name in HELD]
        whole = asyncio.create_task(send_whole(http, base, "chat"))
        await lookers.wait(3)
        closing = asyncio.create_task(app.state.service.close(0.0, drains=True))
        if how == "again":
            await asyncio.sleep(0)
            app.state.service.release_requests()
        for one in streams:
            await one.read_end()
            assert b"shutting_down" in one.body
            assert b"Done." not in one.body
        status, body, retry_after = await whole
        assert (status, retry_after) == (503, "2")
        assert msgspec.json.decode(body)["error"]["code"] == "shutting_down"
        async with asyncio.timeout(20):
            await closing
        lookers.gate.set()


async def test_a_client_that_leaves_is_waited_for_no_more() -> None:
    lookers = Lookers(1)
    app = make_app(lookers, drain=3600.0)
    async with serve(app) as base:
        http = aiohttp.ClientSession()
        path, body = REQUESTS["chat"]
        answer = await http.post(base + path, json=body)
        await lookers.wait(1)
        closing = asyncio.create_task(app.state.service.close(0.0, drains=True))
        answer.close()
        await http.close()
        async with asyncio.timeout(20):
            await closing
        lookers.gate.set()


async def test_a_process_that_waits_for_nobody_ends_at_once() -> None:
    lookers = Lookers(1)
    app = make_app(lookers, drain=3600.0)
    async with serve(app) as base:
        reading = Reading(base, "native")
        await lookers.wait(1)
        async with asyncio.timeout(20):
            await app.state.service.close(0.0, drains=True)
        await reading.read_end()
        lookers.gate.set()


@pytest.mark.parametrize("drain", [-1, 86_401, "long", True])
def test_a_wrong_drain_is_refused_by_its_name(drain: object) -> None:
    with pytest.raises(ConfigurationError, match="drain"):
        ServiceOptions(drain=drain)  # type: ignore[arg-type]  # REASON: it is wrong


async def test_a_session_is_held_as_long_as_anybody_holds_it() -> None:
    watch = SessionWatch()
    with watch.holding("s"):
        with watch.holding("s"):
            watch.close()
            assert not watch.has_ended("s")
            assert watch.has_ended("other")
            waiting = asyncio.create_task(watch.wait_until_free("s"))
        await asyncio.sleep(0)
        assert not watch.has_ended("s")
        assert not waiting.done()
    await waiting
    assert watch.has_ended("s")


async def test_nothing_is_held_once_everything_was_released() -> None:
    watch = SessionWatch()
    with watch.holding("s"):
        watch.close()
        changed = watch.prepare("s")
        waiting = asyncio.create_task(watch.wait_until_released())
        await asyncio.sleep(0)
        watch.release_all()
        await asyncio.gather(waiting, changed)
        with watch.holding("t"):
            assert watch.has_ended("t")
        assert watch.has_ended("s")


# -- with processes


def write_slowly(request: EmulatedRequest) -> str:
    return f"{request.text}: " + " ".join(f"word-{number}" for number in range(100))


@pytest.mark.slow  # starts a process
@pytest.mark.parametrize("second", [None, signal.SIGTERM])
async def test_sigterm_drains_and_a_second_one_does_not(
    tmp_path: Path, second: signal.Signals | None
) -> None:
    journal = f"sqlite:///{tmp_path / 'talk.db'}"
    with (
        Emulator(write_slowly, faults=lambda _: Pace(0.02)) as model,
        ServedProcess(journal, model.base_url, tmp_path) as process,
    ):
        base = process.api.removesuffix("/api/v1")
        readings = {name: Reading(base, name, agent="noter") for name in [*HELD, *HANDED_OVER]}
        while not all(b"word-1" in one.body for one in readings.values()):
            await asyncio.sleep(0.02)
        process.send(signal.SIGTERM)
        for name in HANDED_OVER:
            await readings[name].read_end()
            assert b"word-99" not in readings[name].body
        if second is not None:
            process.send(second)
        for name in HELD:
            await readings[name].read_end()
            assert (b"word-99" in readings[name].body) is (second is None)
        before, code = time.monotonic(), await process.wait(40)
        assert code in (0, -signal.SIGTERM)
        assert time.monotonic() - before < 20  # and not the 30 seconds of the drain


@pytest.mark.slow  # starts a process
async def test_ctrl_c_drains_nothing(tmp_path: Path) -> None:
    journal = f"sqlite:///{tmp_path / 'talk.db'}"
    with (
        Emulator(write_slowly, faults=lambda _: Pace(0.05)) as model,
        ServedProcess(journal, model.base_url, tmp_path) as process,
    ):
        reading = Reading(process.api.removesuffix("/api/v1"), "chat", agent="noter")
        while b"word-1" not in reading.body:
            await asyncio.sleep(0.02)
        process.send(signal.SIGINT)
        await reading.read_end()
        assert b"word-99" not in reading.body
        assert b"shutting_down" in reading.body


@pytest.mark.slow  # starts processes and a database
async def test_a_worker_of_the_queue_drains_and_another_one_takes_the_rest(
    tmp_path: Path, url: str
) -> None:
    with (
        Emulator(write_slowly, faults=lambda _: Pace(0.02)) as model,
        ServedProcess(url, model.base_url, tmp_path) as process,
        ServedProcess(url, model.base_url, tmp_path) as other,
    ):
        base = process.api.removesuffix("/api/v1")
        names = [*HELD, "native"]
        readings = {name: Reading(base, name, agent="noter") for name in names}
        while not all(b"word-1" in one.body for one in readings.values()):
            await asyncio.sleep(0.02)
        process.send(signal.SIGTERM)
        await readings["native"].read_end()  # whichever process drives it
        assert b"word-99" not in readings["native"].body
        for name in HELD:
            await readings[name].read_end()
            assert b"word-99" in readings[name].body
        assert await process.wait(40) in (0, -signal.SIGTERM)
        async with aiohttp.ClientSession() as http, asyncio.timeout(60):
            while True:
                async with http.get(f"{other.api}/sessions") as answer:
                    sessions = (await answer.json())["sessions"]
                if [one["turn_status"] for one in sessions] == ["completed"] * len(names):
                    break
                await asyncio.sleep(0.05)
