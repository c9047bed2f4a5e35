"""Virtual time advances in the order of wake-up times, whatever the order of calls."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast import Agent, Resilience
from holdfast.core.errors import ConfigurationError
from holdfast.resilience import PROCESS, LimiterOptions
from holdfast.testing import Emulator, FakeClock, FixedRng
from holdfast.testing.emulator import Delay, EmulatedRequest, ErrorResponse, Fault


async def test_sleepers_wake_in_the_order_of_their_times() -> None:
    clock = FakeClock(now=1000.0)
    woken: list[tuple[str, float]] = []

    async def sleeper(name: str, seconds: float) -> None:
        await clock.sleep(seconds)
        woken.append((name, clock.monotonic()))

    await asyncio.gather(sleeper("late", 5), sleeper("early", 1), sleeper("middle", 3))
    assert woken == [("early", 1), ("middle", 3), ("late", 5)]
    assert clock.now() == 1005
    assert clock.sleeps == [5, 1, 3]


async def test_a_timeout_beats_the_longer_work() -> None:
    clock = FakeClock()
    work = asyncio.create_task(clock.sleep(60))
    limit = asyncio.create_task(clock.sleep(10))
    done, _ = await asyncio.wait({work, limit}, return_when=asyncio.FIRST_COMPLETED)
    assert done == {limit}
    work.cancel()
    assert clock.monotonic() == 10


async def test_a_cancelled_sleeper_does_not_move_the_time() -> None:
    clock = FakeClock()
    task = asyncio.create_task(clock.sleep(3600))
    await asyncio.sleep(0)
    task.cancel()
    await clock.sleep(1)
    assert clock.monotonic() == 1
    for _ in range(100):
        await asyncio.sleep(0)
    assert clock.monotonic() == 1


async def test_a_manual_clock_moves_only_by_advance() -> None:
    clock = FakeClock(auto=False)
    task = asyncio.create_task(clock.sleep(5))
    for _ in range(100):
        await asyncio.sleep(0)
    clock.advance(4.9)
    await asyncio.sleep(0)
    assert not task.done()
    clock.advance(0.2)
    await task
    assert clock.monotonic() == pytest.approx(5.1)


async def test_a_sleep_of_zero_lets_other_tasks_run() -> None:
    clock = FakeClock()
    ran: list[int] = []
    asyncio.get_running_loop().call_soon(ran.append, 1)
    await clock.sleep(0)
    assert ran == [1]
    assert clock.monotonic() == 0


def test_a_clock_survives_the_loop_that_it_slept_on() -> None:
    clock = FakeClock()

    async def left_sleeping() -> None:
        task = asyncio.create_task(clock.sleep(100))
        await asyncio.sleep(0)
        assert not task.done()

    asyncio.run(left_sleeping())
    asyncio.run(clock.sleep(1))
    assert clock.monotonic() == 1


@given(st.lists(st.floats(0.001, 1000), min_size=1, max_size=20))
def test_every_sleeper_wakes_at_its_time(naps: list[float]) -> None:
    clock = FakeClock()

    async def sleeper(seconds: float) -> float:
        await clock.sleep(seconds)
        return clock.monotonic()

    async def main() -> list[float]:
        return await asyncio.gather(*(sleeper(nap) for nap in naps))

    assert asyncio.run(main()) == naps
    assert clock.monotonic() == max(naps)


def test_invalid_times_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="seconds"):
        FakeClock().advance(-1)
    with pytest.raises(ConfigurationError, match="values"):
        FixedRng(1.0)


def test_an_rng_without_values_returns_the_middle() -> None:
    assert FixedRng()() == 0.5


# Virtual time stands still while a request is on a real socket, and limits belong to a clock.

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
