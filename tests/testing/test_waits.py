"""Waits without real time for code that was made earlier, and real time again afterwards."""

from __future__ import annotations

import asyncio
import time

import pytest

from holdfast import Agent, HoldfastError
from holdfast.calls import execute, resilient
from holdfast.errors import ResponseValidationError
from holdfast.resilience.pipeline import Pipeline
from holdfast.resilience.retry.options import RetryOptions
from holdfast.resilience.retry.strategy import Retry
from holdfast.resilience.system_clock import SystemClock
from holdfast.testing import FakeClock, ScriptedModel, no_waits

calls: list[int] = []


@resilient
async def declared_long_ago() -> str:
    """Fails three times."""
    calls.append(1)
    if len(calls) % 4:
        raise ConnectionResetError
    return "ok"


async def test_functions_that_were_decorated_before_do_not_wait() -> None:
    began = time.monotonic()
    with no_waits() as clock:
        assert await declared_long_ago() == "ok"
    assert len(clock.sleeps) == 3
    assert sum(clock.sleeps) > 6
    assert time.monotonic() - began < sum(clock.sleeps)


async def test_waits_side_by_side_pass_in_the_order_of_their_times() -> None:
    woken: list[str] = []

    async def wait(name: str, seconds: float) -> None:
        await SystemClock().sleep(seconds)
        woken.append(name)

    with no_waits() as clock:
        await asyncio.gather(wait("late", 3600), wait("early", 60))
        assert clock.monotonic() == 3600
    assert woken == ["early", "late"]


async def test_an_agent_without_a_clock_does_not_wait() -> None:
    down = HoldfastError("down", info=ResponseValidationError("a", "b").info)
    with no_waits() as clock:
        agent = Agent(ScriptedModel(down, down, "up"))
        assert (await agent.run("go")).output == "up"
    assert len(clock.sleeps) == 2


async def test_a_given_clock_is_not_replaced() -> None:
    mine = FakeClock()
    agent = Agent(
        ScriptedModel(HoldfastError("down", info=ResponseValidationError("a", "b").info), "up"),
        clock=mine,
    )
    with no_waits() as clock:
        await agent.run("go")
    assert (len(mine.sleeps), clock.sleeps) == (1, [])


async def test_afterwards_time_is_real_again_even_after_a_failure() -> None:
    clock = SystemClock()
    with pytest.raises(KeyError), no_waits():
        raise KeyError
    assert abs(clock.now() - time.time()) < 5
    assert abs(clock.monotonic() - time.monotonic()) < 5
    began = time.monotonic()
    await clock.sleep(0.01)
    assert time.monotonic() - began >= 0.009


def test_synchronous_functions_do_not_wait() -> None:
    tries: list[int] = []

    @resilient(Retry(RetryOptions(max_retries=2, retry_delay=600.0, max_retry_delay=600.0)))
    def connect() -> None:
        tries.append(1)
        raise ConnectionResetError

    with no_waits() as clock:
        for _ in range(2):
            with pytest.raises(ConnectionResetError):
                connect()
    assert (len(tries), len(clock.sleeps)) == (6, 4)


async def test_execute_does_not_wait(no_waits: FakeClock) -> None:
    tries: list[int] = []

    def connect() -> str:
        tries.append(1)
        if len(tries) < 3:
            raise ConnectionResetError
        return "ok"

    assert await execute(Pipeline.of(Retry()), connect) == "ok"
    assert len(no_waits.sleeps) == 2
