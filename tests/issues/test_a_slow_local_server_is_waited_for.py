"""A local server may read a prompt for minutes, send pings meanwhile, and load its model first."""

import pytest

from holdfast import Agent
from holdfast.errors import HoldfastError
from holdfast.models import PRESETS, Timeouts
from holdfast.resilience import RetryOptions
from holdfast.testing import Emulator, FakeClock
from holdfast.testing.emulator import Fault, HttpStatus, Stall

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
