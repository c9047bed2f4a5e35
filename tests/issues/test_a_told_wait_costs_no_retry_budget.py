"""Runs that wait as long as the provider asks all survive, however many there are."""

import asyncio

import pytest

from holdfast import Agent
from holdfast.testing import Emulator, FakeClock
from holdfast.testing.emulator import EmulatedRequest, ErrorResponse, Fault, HttpStatus

RUNS = 200
ASK_TO_WAIT = [
    ErrorResponse("rate_limit", {"retry-after": "1", "retry-after-ms": "1000"}),
    HttpStatus(503, {"retry-after": "1"}),
]


@pytest.mark.parametrize("fault", ASK_TO_WAIT)
async def test_two_hundred_runs_survive_a_refusal_with_a_told_wait(fault: Fault) -> None:
    clock = FakeClock()

    def refuse_for_a_second(_: EmulatedRequest) -> Fault | None:
        return fault if clock.monotonic() < 1.0 else None

    async with Emulator(faults=refuse_for_a_second) as provider:
        agent = Agent("openai:told", base_url=provider.base_url, api_key="k", clock=clock)
        results = await asyncio.gather(*(agent.run(f"run {n}") for n in range(RUNS)))
    assert [result.output for result in results] == [f"You said: run {n}" for n in range(RUNS)]
    served = [entry for entry in provider.requests if entry.status == 200]
    assert len(served) <= 1.2 * RUNS
    assert len(provider.requests) <= 2 * RUNS


async def test_a_told_wait_of_zero_is_no_wait() -> None:
    clock = FakeClock()
    body = {"error": {"message": "Slow down"}}
    refusal = HttpStatus(429, {"retry-after-ms": "0", "retry-after": "1"}, body)
    no_wait = HttpStatus(429, {"retry-after-ms": "0", "retry-after": "0"}, body)
    async with Emulator(["fine"], faults=[refusal, no_wait, no_wait]) as provider:
        agent = Agent("openai:zero", base_url=provider.base_url, api_key="k", clock=clock)
        assert (await agent.run("go")).output == "fine"
    told, second, third = (seconds for seconds in clock.sleeps if seconds)
    assert told == 1.0
    assert second == pytest.approx(2.0, rel=0.11)
    assert third == pytest.approx(4.0, rel=0.11)
