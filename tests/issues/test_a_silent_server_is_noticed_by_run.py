"""`run` notices a silent server as `stream` does, and its error names the server."""

import asyncio

import pytest

from holdfast import Agent, Limits
from holdfast.errors import LimitError, TransportError
from holdfast.models import Timeouts
from holdfast.resilience import RetryOptions
from holdfast.testing import Emulator
from holdfast.testing.emulator import EmulatedRequest, Fault, HttpStatus, Stall

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
            await asyncio.wait_for(agent.run("go"), 10)
