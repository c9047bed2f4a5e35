"""A loop that is blocked is named: the route, the agent and the functions, and nothing personal."""

from __future__ import annotations

import asyncio
import logging
import threading

import aiohttp
import pytest
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from tests.server.serving import serve

from holdfast import Agent, tool
from holdfast.client import Client
from holdfast.core.messages import ToolCall
from holdfast.server import create_app
from holdfast.server.loop_watch import LoopWatch
from holdfast.testing import ScriptedModel

LOGGER = "holdfast.server.loop"


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Looks:
    """Waits, on the loop and without leaving it, until the thread of a watch has looked often enough."""

    def __init__(self) -> None:
        self.seen = threading.Semaphore(0)

    def block(self, times: int = 8) -> None:
        while self.seen.acquire(blocking=False):
            pass
        for _ in range(times):  # of 50 ms each
            assert self.seen.acquire(timeout=10)


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> Looks:
    counted, look = Looks(), LoopWatch.look

    def look_and_count(watch: LoopWatch) -> None:
        look(watch)
        counted.seen.release()

    monkeypatch.setattr(LoopWatch, "look", look_and_count)
    return counted


async def test_a_route_that_blocks_is_named(looks: Looks, caplog: pytest.LogCaptureFixture) -> None:
    async def block(_request: Request) -> PlainTextResponse:
        looks.block()
        return PlainTextResponse("done")

    app = create_app(Agent(ScriptedModel(), name="greeter"))
    app.router.routes.insert(0, Route("/people/{name}", block))
    with caplog.at_level(logging.WARNING, LOGGER):
        async with serve(app) as base, aiohttp.ClientSession() as http:
            async with http.get(f"{base}/people/ada?key=secret") as answer:
                assert await answer.text() == "done"
            line = await _wait_for_line(caplog, "the route GET /people/{name}, in ")
            async with http.get(f"{base}/metrics") as answer:
                metrics = await answer.text()
    assert "test_loop_watch" in line
    assert "ada" not in line
    assert "secret" not in line
    assert 'holdfast_loop_blocked_total{route="GET /people/{name}",agent=""} 1' in metrics
    assert 'holdfast_loop_blocked_seconds_total{route="GET /people/{name}",agent=""} 0.' in metrics


@pytest.mark.slow  # takes half a second or more
@pytest.mark.parametrize("calls", [1, 2])
async def test_the_agent_of_a_tool_that_blocks_is_named(
    looks: Looks, caplog: pytest.LogCaptureFixture, calls: int
) -> None:
    @tool
    async def compute(person: str) -> str:
        """Compute without a break."""
        if person == "ada0":
            looks.block()
        return person

    asked = [ToolCall(str(at), "compute", f'{{"person": "ada{at}"}}') for at in range(calls)]
    agent = Agent(ScriptedModel(asked, "Done."), tools=[compute], name="solver")
    with caplog.at_level(logging.WARNING, LOGGER):
        async with serve(create_app(agent)) as base, Client(base) as client:
            assert (await client.run("solver", "Go", session="ada")).text == "Done."
            line = await _wait_for_line(caplog, "the agent 'solver', in ")
    assert "ada" not in line


async def _wait_for_line(caplog: pytest.LogCaptureFixture, part: str) -> str:
    async with asyncio.timeout(60):
        while not (found := [line for line in _lines(caplog) if part in line]):
            await asyncio.sleep(0.01)
    return found[0]


def _lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == LOGGER]


def test_a_short_pause_is_not_named(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    watch = LoopWatch(clock)
    with caplog.at_level(logging.WARNING, LOGGER):
        watch.beat()
        for pause in (0.05, 0.1, 0.29):
            clock.now += pause
            watch.look()
            watch.beat()
    assert not _lines(caplog)
    assert watch.blocked.get(("", "")) == 0


def test_lines_are_few_and_count_what_they_leave_out(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    watch = LoopWatch(clock)
    with caplog.at_level(logging.WARNING, LOGGER):
        watch.beat()
        for _ in range(20):
            clock.now += 1.05
            watch.look()
            watch.beat()
    first, second = _lines(caplog)
    assert "blocked for 1.00 s by something that is neither a request nor a turn" in first
    assert second.endswith("; 9 more times since the last line")
    assert watch.blocked.get(("", "")) == 20
    assert watch.seconds.get(("", "")) == pytest.approx(20)


async def test_a_loop_that_is_blocked_for_ever_is_named_while_it_is(
    looks: Looks, caplog: pytest.LogCaptureFixture
) -> None:
    clock = Clock()
    watch = LoopWatch(clock)
    with caplog.at_level(logging.WARNING, LOGGER), watch.watching():
        clock.now += 60
        looks.block(3)
        (line,) = _lines(caplog)
    assert line.startswith("the event loop is blocked by something")
    assert "test_loop_watch" in line


async def test_the_thread_ends_with_the_application() -> None:
    async with serve(create_app(Agent(ScriptedModel(), name="greeter"))):
        assert _count_threads() == 1
    assert _count_threads() == 0


def _count_threads() -> int:
    return [thread.name for thread in threading.enumerate()].count("holdfast-loop-watch")
