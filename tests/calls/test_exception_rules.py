"""What an exception of a call means, and that no hook of a user can hide it."""

from __future__ import annotations

import logging
import math
from typing import Any

import pytest
from tests.resilience.operations import Bench, info

from holdfast.calls.exception_rules import retry_on
from holdfast.calls.guard import Guard
from holdfast.calls.guarded_functions import resilient
from holdfast.compat.function_retry_executor import FunctionInvocationError, FunctionRetryExecutor
from holdfast.core.errors import ConfigurationError, ErrorCategory, ErrorInfo
from holdfast.resilience.breaker.strategy import BreakerStrategy, CircuitBreaker
from holdfast.resilience.pipeline import Pipeline
from holdfast.resilience.retry.options import RetryOptions
from holdfast.resilience.retry.strategy import Retry

C = ErrorCategory


class Busy(Exception):
    """Passes by itself."""


class NoKey(Exception):
    """Says 401."""

    status_code = 401


def raises_itself(error: Exception) -> ErrorInfo:
    raise KeyError("in the hook")


def says_nonsense(error: Exception) -> Any:
    return "retry"


def says_no_number(error: Exception) -> ErrorInfo:
    return ErrorInfo(category=C.TRANSIENT, safe="x", retry_after=math.nan)


async def attempts(error: Exception, **more: Any) -> int:
    calls: list[int] = []

    async def call() -> None:
        calls.append(1)
        raise error

    with pytest.raises(type(error)) as caught:
        await Guard(Pipeline.of(Retry()), env=Bench().env, **more).call(call)
    assert caught.value is error
    return len(calls)


@pytest.mark.parametrize("hook", [raises_itself, says_nonsense, says_no_number])
async def test_a_hook_that_fails_does_not_hide_the_exception(
    hook: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR, "holdfast"):
        assert await attempts(ConnectionResetError("gone"), classify=hook) == 4
        assert await attempts(KeyError("fault"), classify=hook) == 1
    assert "classify" in caplog.text


async def test_the_executor_survives_such_a_hook_too() -> None:
    def fails() -> None:
        raise ConnectionResetError("gone")

    executor = FunctionRetryExecutor(classify=raises_itself, env=Bench().env)
    with pytest.raises(FunctionInvocationError, match="after 4 attempts: gone"):
        await executor.execute_with_retry(fails)


@pytest.mark.parametrize(
    ("error", "made"),
    [
        (Busy(), 4),
        (type("Busier", (Busy,), {})(), 4),
        (ConnectionResetError(), 4),
        (RuntimeError("Error code: 503 - down"), 4),
        (ValueError("nobody knows"), 1),
        (TypeError("fault"), 1),
        (NoKey(), 1),
    ],
)
async def test_only_what_was_named_and_what_is_known_to_pass_is_retried(
    error: Exception, made: int
) -> None:
    assert await attempts(error, classify=retry_on(Busy, NoKey)) == made


async def test_what_was_named_counts_for_a_breaker() -> None:
    circuit = CircuitBreaker("mine")
    guard = Guard(
        Pipeline.of(Retry(RetryOptions(max_retries=0)), BreakerStrategy(circuit)),
        classify=retry_on(Busy),
        env=Bench().env,
    )

    async def call() -> None:
        raise Busy

    with pytest.raises(Busy):
        await guard.call(call)
    assert circuit.snapshot().failures == 1


@pytest.mark.parametrize("wrong", [Busy(), "Busy", KeyboardInterrupt, int])
def test_what_is_no_class_of_exceptions_is_refused(wrong: Any) -> None:
    with pytest.raises(
        ConfigurationError, match=r"kinds\[0\]: must be a subclass of Exception, got"
    ):
        retry_on(wrong)


async def test_a_judge_that_raises_makes_the_attempt_a_failure() -> None:
    bench, answers = Bench(), ["bad", "good"]

    def judge(value: object) -> ErrorInfo | None:
        if value == "bad":
            raise Busy
        return None

    guard = Guard(Pipeline.of(Retry()), judge=judge, env=bench.env)
    assert await guard.call(lambda: answers.pop(0)) == "good"
    assert bench.clock.sleeps == [1.0]


async def test_a_judge_may_name_a_wait() -> None:
    bench, answers = Bench(), ["bad", "good"]
    guard = Guard(
        Pipeline.of(Retry()),
        judge=lambda value: (
            info(C.RATE_LIMIT_RETRYABLE, retry_after=7.0) if value == "bad" else None
        ),
        env=bench.env,
    )
    assert await guard.call(lambda: answers.pop(0)) == "good"
    assert bench.clock.sleeps == [7.0]


def test_the_decorator_needs_no_brackets() -> None:
    @resilient
    def double(number: int) -> int:
        """Twice."""
        return number * 2

    @resilient()
    def half(number: int) -> int:
        return number // 2

    assert (double(21), half(42), double.__doc__) == (42, 21, "Twice.")


async def test_the_decorator_without_brackets_keeps_an_async_function_async() -> None:
    @resilient
    async def double(number: int) -> int:
        return number * 2

    assert await double(21) == 42


def test_the_decorator_without_brackets_takes_a_generator() -> None:
    def numbers() -> Any:
        yield 1

    assert list(resilient(numbers)()) == [1]


async def test_each_retry_is_a_line_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "holdfast"):
        await attempts(RuntimeError("Error code: 503 - key sk-1234567890abcdefghij"))
    lines = [record.message for record in caplog.records]
    assert len(lines) == 3
    assert lines[0].endswith("; again in 1 s")
    assert "attempt 1" in lines[0]
    assert "sk-1234" not in caplog.text
