"""Servers that are silent, slow, or leave a stream open."""

from __future__ import annotations

import asyncio

import pytest

from holdfast import Agent, Limits
from holdfast.errors import HoldfastError, LimitError, TransportError
from holdfast.models import PRESETS, Timeouts
from holdfast.resilience import RetryOptions
from holdfast.testing import Emulator, FakeClock
from holdfast.testing.emulator import EmulatedRequest, Fault, HttpStatus, Stall

# `run` notices a silent server as `stream` does, and its error names the server.

SILENT = Stall(after=0)
CANNOT = {"error": {"message": "This model cannot stream.", "param": "stream"}}


def agent_at(provider: Emulator, model: str, **options: object) -> Agent[str]:
    options = {"retry": RetryOptions(max_retries=0), **options}
    return Agent(model, base_url=provider.base_url, api_key="k", **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("stall", [SILENT, Stall(after=2)])
async def test_a_silent_server_is_noticed_long_before_the_total_limit(stall: Stall) -> None:
    quick = Timeouts(first_byte=0.1, between_chunks=0.1)
    async with Emulator(faults=[stall]) as provider:
        with pytest.raises(TransportError, match=r"127\.0\.0\.1:\d+: no .* within 0\.1 s"):
            await agent_at(provider, "openai:m", timeouts=quick).run("go")


async def test_an_endpoint_that_refuses_to_stream_is_asked_for_whole_replies() -> None:
    def refuse_streams(request: EmulatedRequest) -> Fault | None:
        return HttpStatus(400, body=CANNOT) if request.stream else None

    async with Emulator(faults=refuse_streams) as provider:
        for turn in ("one", "two"):
            assert (await agent_at(provider, "openai:m").run(turn)).output == f"You said: {turn}"
        async with agent_at(provider, "openai:m").stream("three") as run:
            assert [text async for text in run.text()] == ["You said: three"]
        statuses = [entry.status for entry in provider.requests]
    assert statuses == [400, 200, 200, 200]


async def test_another_client_error_is_not_taken_for_a_refusal_to_stream() -> None:
    faults = [HttpStatus(400, body={"error": {"message": "No such stream."}})] * 2
    async with Emulator(faults=faults) as provider:
        agent = agent_at(provider, "openai:m")
        with pytest.raises(Exception, match="No such stream"):
            await agent.run("go")
        assert (await agent.run("go")).output == "You said: go"
        async with agent.stream("go") as run:
            assert len([text async for text in run.text(live=True)]) > 1


async def test_the_limit_of_a_turn_names_the_server_that_was_silent() -> None:
    async with Emulator(faults=[SILENT]) as provider:
        agent = agent_at(provider, "vllm:m", limits=Limits(seconds=0.2))
        with pytest.raises(LimitError, match=r"127\.0\.0\.1:\d+ had sent nothing for 0\.\d+ s"):
            await agent.run("go")


async def test_a_whole_reply_that_does_not_come_is_named_as_silence() -> None:
    async with Emulator(faults=[SILENT]) as provider:
        agent = agent_at(provider, "vllm:m", timeouts=Timeouts(total=0.1))
        with pytest.raises(TransportError, match=r"127\.0\.0\.1:\d+: no (response|first byte)"):
            await asyncio.wait_for(agent.run("go"), 60)


# A local server may read a prompt for minutes, send pings meanwhile, and load its model first.

LOCAL = ("llamacpp", "ollama", "lmstudio", "vllm")
LOADING = HttpStatus(
    503, body={"error": {"code": 503, "message": "Loading model", "type": "unavailable_error"}}
)
SHORT = Timeouts(first_byte=20.0, between_chunks=0.1, first_content=20.0)


@pytest.mark.parametrize("row", LOCAL)
def test_the_rows_of_local_servers_have_minutes_of_patience(row: str) -> None:
    limits = PRESETS[row].timeouts
    assert limits.first_byte is not None
    assert limits.first_content is not None
    assert min(limits.first_byte, limits.first_content) >= 180
    assert f"first_byte={limits.first_byte}" in Agent(f"{row}:m").describe()


@pytest.mark.slow  # takes half a second or more
@pytest.mark.parametrize(
    "stall",
    [
        Stall(after=0, seconds=0.3, comments=True, every=0.05),
        Stall(after=1, seconds=0.3, comments=True, every=0.05),
        Stall(after=1, seconds=0.3),
    ],
)
async def test_signs_of_life_count_until_the_first_content(stall: Fault) -> None:
    async with Emulator(faults=[stall]) as provider:
        agent = Agent("llamacpp:m", base_url=provider.base_url, timeouts=SHORT)
        async with agent.stream("go") as run:
            assert "".join([text async for text in run.text()]) == "You said: go"
        assert len(provider.requests) == 1


async def read_stream(agent: Agent[str]) -> str:
    async with agent.stream("go") as run:
        async for _ in run:
            pass
        return run.result.output


async def test_pings_do_not_count_after_the_first_content() -> None:
    stall = Stall(after=3, seconds=20.0, comments=True, every=0.02)
    retry = RetryOptions(max_retries=0)
    async with Emulator(faults=[stall]) as provider:
        agent = Agent("llamacpp:m", base_url=provider.base_url, timeouts=SHORT, retry=retry)
        with pytest.raises(HoldfastError, match=r"no new content within 0\.1 s"):
            await read_stream(agent)


async def test_a_server_that_loads_its_model_is_asked_until_it_is_ready() -> None:
    clock = FakeClock()
    async with Emulator(faults=[LOADING] * 20) as provider:
        agent = Agent("llamacpp:m", base_url=provider.base_url, clock=clock)
        assert (await agent.run("go")).output == "You said: go"
    assert 30 <= clock.monotonic() <= 60


async def test_a_server_that_never_gets_ready_is_given_up_after_a_minute() -> None:
    clock = FakeClock()
    async with Emulator(faults=lambda _: LOADING) as provider:
        agent = Agent("llamacpp:m", base_url=provider.base_url, clock=clock)
        with pytest.raises(HoldfastError, match="Loading model"):
            await agent.run("go")
    assert 55 <= clock.monotonic() <= 61


# The end marker ends a reply, also where the server leaves the stream open.

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


@pytest.mark.slow  # takes half a second or more
@pytest.mark.parametrize("wire", MODELS)
@pytest.mark.parametrize("comments", [False, True])
async def test_the_end_marker_ends_the_reply(wire: str, comments: bool) -> None:
    left_open = Stall(999, 3600.0, comments=comments, every=0.05)
    async with Emulator(["Hello"], faults=[left_open]) as emulator, asyncio.timeout(60):
        await ask(wire, emulator)
        await emulator.wait_idle()
        assert len(emulator.requests) == 1
        assert emulator.requests[0].client_gone


@pytest.mark.parametrize("wire", MODELS)
async def test_a_stream_that_ends_in_order_leaves_its_connection_for_the_next(wire: str) -> None:
    async with Emulator(lambda request: "Hello") as emulator:
        await ask(wire, emulator, times=5)
        assert emulator.connections == 1
