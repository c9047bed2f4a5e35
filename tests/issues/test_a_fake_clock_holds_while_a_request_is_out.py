"""Virtual time stands still while a request is on a real socket, and limits belong to a clock."""

import asyncio

import pytest

from holdfast import Agent, Resilience
from holdfast.resilience import PROCESS, LimiterOptions
from holdfast.testing import Emulator, FakeClock
from holdfast.testing.emulator import Delay, EmulatedRequest, ErrorResponse, Fault

AGENTS = 10


def refuse_the_first_ten(request: EmulatedRequest) -> Fault:
    if request.number <= AGENTS:
        return ErrorResponse("rate_limit", {"retry-after": "1"})
    return Delay(0.005)


@pytest.mark.parametrize("own_clocks", [True, False])
async def test_ten_agents_survive_refusals(own_clocks: bool) -> None:
    shared = FakeClock()
    async with Emulator(faults=refuse_the_first_ten) as provider:
        agents = [
            Agent(
                "openai:held",
                base_url=provider.base_url,
                api_key="k",
                clock=FakeClock() if own_clocks else shared,
                resilience=Resilience(limiter=LimiterOptions(concurrency=AGENTS)),
            )
            for _ in range(AGENTS)
        ]
        results = await asyncio.gather(*(agent.run("go") for agent in agents))
    assert [result.status for result in results] == ["completed"] * AGENTS
    assert shared.monotonic() < 10


async def test_a_clock_holds_until_the_response_has_come() -> None:
    clock = FakeClock()
    async with Emulator(faults=[Delay(0.1)]) as provider:
        agent = Agent("openai:m", base_url=provider.base_url, api_key="k")
        run = asyncio.ensure_future(agent.run("go"))
        while not provider.requests:
            await asyncio.sleep(0.001)
        sleeping = asyncio.ensure_future(clock.sleep(60.0))
        await run
        assert not sleeping.done()
        await sleeping


def test_two_clocks_share_no_state() -> None:
    def limiters() -> int:
        return sum(limiter.target == "openai:apart" for limiter in PROCESS.all_limiters())

    for _ in range(2):
        Agent("openai:apart", api_key="k")
    assert limiters() == 1
    clock = FakeClock()
    for _ in range(2):
        Agent("openai:apart", api_key="k", clock=clock)
    assert limiters() == 2
    Agent("openai:apart", api_key="k", clock=FakeClock())
    assert limiters() == 3
