"""A stream in which nothing happens has a comment from time to time, and no proxy is to collect it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import aiohttp
import pytest
from tests.server.serving import serve

from holdfast import Agent
from holdfast.core.messages import Reply
from holdfast.event_log.live.session_follower import VisibleRuns
from holdfast.server import create_app
from holdfast.server.api import event_routes, event_stream, turn_routes
from holdfast.testing import ScriptedModel

TEXT = "Hello."
REQUESTS: Mapping[str, tuple[str, object]] = {
    "turns": ("/api/v1/turns", {"agent": "greeter", "message": TEXT}),
    "events": ("/api/v1/sessions/ada/events?until=turn_end", None),
    "responses": ("/v1/responses", {"model": "greeter", "input": TEXT, "stream": True}),
    "chat": (
        "/v1/chat/completions",
        {"model": "greeter", "messages": [{"role": "user", "content": TEXT}], "stream": True},
    ),
    "vercel": (
        "/vercel/greeter/chat",
        {
            "id": "c",
            "messages": [{"id": "m", "role": "user", "parts": [{"type": "text", "text": TEXT}]}],
        },
    ),
    "agui": (
        "/agui/greeter",
        {"threadId": "t", "runId": "r", "messages": [{"id": "m", "role": "user", "content": TEXT}]},
    ),
}


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (event_routes, turn_routes):
        monkeypatch.setattr(module, "SECONDS_BETWEEN_COMMENTS", 0.05)
    monkeypatch.setattr(event_stream.keep_alive, "__defaults__", (0.05,))


def make_slow_app(may_end: asyncio.Event) -> Any:
    async def answer(_: object) -> Reply | str:
        await may_end.wait()
        return "Hi."

    return create_app(Agent(ScriptedModel(answer, answer), name="greeter"))


def test_comments_come_every_fifteen_seconds() -> None:
    assert event_stream.SECONDS_BETWEEN_COMMENTS == 15


@pytest.mark.slow  # takes half a second or more
@pytest.mark.parametrize("is_polled", [False, True])
@pytest.mark.parametrize("name", REQUESTS)
async def test_a_quiet_stream_has_comments(
    name: str, monkeypatch: pytest.MonkeyPatch, *, is_polled: bool
) -> None:
    if is_polled:  # a shared journal whose processes do not hear of each other
        monkeypatch.setattr(VisibleRuns, "poll", 0.02)
        monkeypatch.setattr(VisibleRuns, "find_live", lambda *_: None)
    may_end = asyncio.Event()
    path, body = REQUESTS[name]
    async with serve(make_slow_app(may_end)) as base, aiohttp.ClientSession() as http:
        if body is None:
            turn = {"agent": "greeter", "message": TEXT, "session": "ada"}
            async with http.post(f"{base}/api/v1/turns", json=turn) as started:
                assert started.status == 202
        method, headers = "GET" if body is None else "POST", {"Accept": "text/event-stream"}
        async with http.request(method, base + path, json=body, headers=headers) as stream:
            assert stream.headers["X-Accel-Buffering"] == "no"
            assert stream.headers["Cache-Control"] == "no-store"
            comments = 0
            async with asyncio.timeout(60):
                async for line in stream.content:
                    comments += line.startswith(b":")
                    if comments == 3:
                        may_end.set()
            assert comments >= 3
