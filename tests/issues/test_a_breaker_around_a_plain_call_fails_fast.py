"""A circuit breaker around a function fails at once while it is open, unless it is told to wait."""

import pytest

from holdfast.calls import Guard, make_execution_context
from holdfast.resilience import (
    BreakerOpenError,
    BreakerOptions,
    BreakerStrategy,
    CircuitBreaker,
    Pipeline,
    Retry,
    RetryOptions,
)
from holdfast.testing import FakeClock

THREE = BreakerOptions(mode="consecutive", failures=3, open_seconds=10)


async def connect() -> None:
    raise ConnectionResetError


async def call_four_times(retry: RetryOptions) -> FakeClock:
    clock = FakeClock()
    guard = Guard(
        Pipeline.of(Retry(retry), BreakerStrategy(CircuitBreaker("x", THREE))),
        env=make_execution_context(clock=clock),
    )
    for _ in range(3):
        with pytest.raises(ConnectionResetError):
            await guard.call(connect)
    with pytest.raises((BreakerOpenError, ConnectionResetError)):
        await guard.call(connect)
    return clock


async def test_the_fourth_call_fails_at_once() -> None:
    assert (await call_four_times(RetryOptions(max_retries=0))).sleeps == []


async def test_a_breaker_that_is_told_to_wait_waits() -> None:
    clock = await call_four_times(RetryOptions(max_retries=0, max_breaker_wait=60))
    assert clock.sleeps == [pytest.approx(10.0, abs=0.01)]
