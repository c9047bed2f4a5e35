"""Virtual time advances in the order of wake-up times, whatever the order of calls."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.errors import ConfigurationError
from holdfast.testing import FakeClock, FixedRng


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
