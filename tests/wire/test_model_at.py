"""Models with an address, a key and headers of their own, over real HTTP."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager

import pytest

from holdfast import Agent, ModelAt, ModelSettings, Timeouts
from holdfast.testing import Emulator, FakeClock
from holdfast.testing.emulator import ErrorResponse
from holdfast.transport.http import HttpTransport
from holdfast.transport.port import HttpRequest, Response

PATHS = {
    "openai_chat": "openai:a",
    "anthropic": "anthropic:claude-sonnet-4-5",
    "gemini": "gemini:a",
}


class Seen(HttpTransport):
    """Sends, and keeps what it sent: an emulator shows no keys."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[HttpRequest] = []

    def send(
        self, request: HttpRequest, timeouts: Timeouts
    ) -> AbstractAsyncContextManager[Response]:
        self.sent.append(request)
        return super().send(request, timeouts)


async def test_each_place_has_its_own_key_and_its_own_breaker() -> None:
    seen = Seen()
    down, up = [ErrorResponse("overloaded")] * 9, ["Hello."]
    async with Emulator(faults=down) as eu, Emulator(up) as us:
        agent = Agent(
            ModelAt("openai:a", base_url=eu.base_url, api_key="of the eu", name="eu"),
            fallback=[ModelAt("openai:a", base_url=us.base_url, api_key="of the us", name="us")],
            transport=seen,
            clock=FakeClock(),
        )
        result = await agent.run("Hello?")
    assert result.text == "Hello."
    assert [(left.target, left.attempts) for left in result.tried] == [("eu", 4)]
    keys = [dict(request.headers)["authorization"] for request in seen.sent]
    assert keys == ["Bearer of the eu"] * 4 + ["Bearer of the us"]
    assert (len(eu.requests), len(us.requests)) == (4, 1)


@pytest.mark.parametrize("wire", PATHS)
async def test_headers_are_sent_once_and_the_users_take_precedence(wire: str) -> None:
    given = {"X-Team": "search", "Authorization": "of a gateway", "anthropic-version": "2099-01-01"}
    async with Emulator(["One."]) as provider:
        place = ModelAt(
            PATHS[wire], base_url=provider.base_url_for(wire), api_key="k", headers=given
        )
        seen = Seen()
        agent = Agent(place, transport=seen, settings=ModelSettings(max_tokens=50))
        assert (await agent.run("Hello?")).text == "One."
    ((sent, arrived),) = zip(seen.sent, provider.requests, strict=True)
    names = [name for name, _ in sent.headers]
    assert len(set(names)) == len(names)
    assert {name: dict(sent.headers)[name.lower()] for name in given} == given
    assert (arrived.headers["x-team"], arrived.headers["content-type"]) == (
        "search",
        "application/json",
    )
