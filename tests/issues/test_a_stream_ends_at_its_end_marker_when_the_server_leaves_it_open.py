"""A reply was withheld until the server closed the stream, long after the end marker."""

from __future__ import annotations

import asyncio

import pytest

from holdfast import Agent
from holdfast.testing.emulator import Emulator, Stall

MODELS = {
    "openai_chat": "openai:gpt-5.2",
    "openai_responses": "openai-responses:gpt-5.2",
    "anthropic": "anthropic:claude-sonnet-4-5",
}


async def ask(wire: str, emulator: Emulator, times: int = 1) -> None:
    agent = Agent(MODELS[wire], base_url=emulator.base_url_for(wire), api_key="k")
    for _ in range(times):
        async with agent.stream("Hi") as run:
            assert (await run.wait()).output == "Hello"


@pytest.mark.parametrize("wire", MODELS)
@pytest.mark.parametrize("comments", [False, True])
async def test_the_end_marker_ends_the_reply(wire: str, comments: bool) -> None:
    left_open = Stall(999, 3600.0, comments=comments, every=0.05)
    async with Emulator(["Hello"], faults=[left_open]) as emulator, asyncio.timeout(20):
        await ask(wire, emulator)
        await emulator.wait_idle()
        assert len(emulator.requests) == 1
        assert emulator.requests[0].client_gone


@pytest.mark.parametrize("wire", MODELS)
async def test_a_stream_that_ends_in_order_leaves_its_connection_for_the_next(wire: str) -> None:
    async with Emulator(lambda request: "Hello") as emulator:
        await ask(wire, emulator, times=5)
        assert emulator.connections == 1
