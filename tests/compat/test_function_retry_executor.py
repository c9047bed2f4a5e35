"""`FunctionRetryExecutor`: the behaviours and texts of seed 000, and its flaws as tests."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from tests.resilience.operations import Bench, C, info

from holdfast.compat.error_handling_config import ErrorHandling
from holdfast.compat.function_retry_executor import (
    FunctionInvocationError,
    FunctionRetryExecutor,
    FunctionTimeoutError,
)
from holdfast.core.errors import ConfigurationError, ErrorCategory
from holdfast.core.notices import RetryScheduled


class Fails:
    """Raises for ever, and counts."""

    def __init__(self, error: BaseException | None = None) -> None:
        self.error, self.calls = error or RuntimeError("no luck"), 0

    async def __call__(self, **arguments: Any) -> Any:
        self.calls += 1
        raise self.error


def executor(bench: Bench, category: ErrorCategory = C.SERVER_ERROR, **known: Any) -> Any:
    handling = ErrorHandling(**known)
    return FunctionRetryExecutor(handling, classify=lambda _: info(category), env=bench.env)


async def test_it_gives_the_value_and_passes_the_arguments() -> None:
    async def add(a: int, b: int) -> int:
        return a + b

    assert await executor(Bench()).execute_with_retry(add, {"a": 1, "b": 2}, "add") == 3


async def test_after_all_attempts_the_text_counts_them_and_the_cause_is_chained() -> None:
    fails, bench = Fails(), Bench()
    with pytest.raises(FunctionInvocationError) as caught:
        await executor(bench).execute_with_retry(fails, {}, "pay")
    assert str(caught.value) == "Error invoking function 'pay' after 4 attempts: no luck"
    assert caught.value.__cause__ is fails.error
    assert (fails.calls, caught.value.attempts) == (4, 4)
    assert bench.clock.sleeps == [1.0, 2.0, 4.0]


async def test_what_is_not_worth_another_attempt_says_so() -> None:
    fails = Fails()
    with pytest.raises(FunctionInvocationError) as caught:
        await executor(Bench(), C.CLIENT_ERROR).execute_with_retry(fails, {}, "pay")
    assert str(caught.value) == "Error invoking function 'pay': no luck (non-retryable)"
    assert fails.calls == 1


async def test_its_own_timeout_ends_the_call_at_once() -> None:
    calls = 0

    async def hangs() -> None:
        nonlocal calls
        calls += 1
        await asyncio.Event().wait()

    with pytest.raises(FunctionTimeoutError) as caught:
        await executor(Bench(), function_timeout=0.01).execute_with_retry(hangs, {}, "slow")
    assert str(caught.value) == "Function 'slow' timed out after 0.01 seconds."
    assert isinstance(caught.value, TimeoutError)
    assert calls == 1


async def test_the_timeout_text_of_whole_seconds() -> None:
    assert str(FunctionTimeoutError("f", 30)) == "Function 'f' timed out after 30 seconds."


async def test_a_timeout_error_of_the_function_itself_is_retried_like_any_other() -> None:
    fails = Fails(TimeoutError("upstream"))
    with pytest.raises(FunctionInvocationError, match="after 4 attempts: upstream"):
        await executor(Bench(), function_timeout=30.0).execute_with_retry(fails, {}, "f")


async def test_a_synchronous_function_runs_in_a_thread() -> None:
    thread: list[str] = []

    def work() -> str:
        thread.append(threading.current_thread().name)
        return "done"

    assert await executor(Bench()).execute_with_retry(work) == "done"
    assert thread != [threading.main_thread().name]


async def test_flaw_a_category_missing_from_the_map_was_read_as_no_retries() -> None:
    fails = Fails()
    limits = {C.RATE_LIMIT_RETRYABLE: 1}
    with pytest.raises(FunctionInvocationError, match="after 4 attempts"):
        await executor(Bench(), max_retries_by_category=limits).execute_with_retry(fails, {}, "f")


async def test_a_category_limit_stops_before_the_global_one() -> None:
    fails = Fails()
    limits = {C.SERVER_ERROR: 1}
    with pytest.raises(FunctionInvocationError, match="non-retryable"):
        await executor(Bench(), max_retries_by_category=limits).execute_with_retry(fails, {}, "f")
    assert fails.calls == 2


async def test_flaw_a_cancellation_was_treated_as_a_failure() -> None:
    fails = Fails(asyncio.CancelledError())
    with pytest.raises(asyncio.CancelledError):
        await executor(Bench()).execute_with_retry(fails, {}, "f")
    assert fails.calls == 1


async def test_cancelling_the_caller_ends_the_function_and_makes_no_other_attempt() -> None:
    ended: list[str] = []
    began = asyncio.Event()

    async def hangs() -> None:
        if began.is_set():
            return  # another attempt
        began.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

    bench = Bench()
    caller = asyncio.create_task(executor(bench).execute_with_retry(hangs, {}, "f"))
    await began.wait()
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    assert caller.cancelled()
    assert ended == ["cancelled"]
    assert (bench.seen(RetryScheduled), bench.clock.sleeps) == ([], [])


async def test_cancelling_the_caller_during_a_wait_makes_no_other_attempt() -> None:
    fails, bench = Fails(), Bench()
    waiting = asyncio.Event()

    async def sleep(seconds: float) -> None:
        if not waiting.is_set():
            waiting.set()
            await asyncio.Event().wait()

    bench.clock.sleep = sleep
    caller = asyncio.create_task(executor(bench).execute_with_retry(fails, {}, "f"))
    await waiting.wait()
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    assert (fails.calls, len(bench.seen(RetryScheduled))) == (1, 1)


async def test_flaw_there_was_no_event_before_a_wait() -> None:
    bench = Bench()
    with pytest.raises(FunctionInvocationError):
        await executor(bench).execute_with_retry(Fails(), {}, "pay")
    assert [(n.key, n.attempt, n.delay) for n in bench.seen(RetryScheduled)] == [
        ("pay", 1, 1.0),
        ("pay", 2, 2.0),
        ("pay", 3, 4.0),
    ]


async def test_the_custom_strategy_is_final_and_capped_and_not_asked_once_too_often() -> None:
    asked: list[int] = []

    async def strategy(error: BaseException, attempt: int) -> float:
        asked.append(attempt)
        return 99.0

    bench = Bench()
    with pytest.raises(FunctionInvocationError):
        await executor(bench, C.CLIENT_ERROR, custom_retry=strategy).execute_with_retry(Fails())
    assert asked == [0, 1, 2]
    assert bench.clock.sleeps == [30.0, 30.0, 30.0]


async def test_without_provider_details_the_wait_has_full_jitter() -> None:
    class KnowsNothing:
        def parse_error(self, error: BaseException) -> None:
            return None

        def retry_delay(self, *args: Any) -> None:
            return None

    bench = Bench(0.25)
    with pytest.raises(FunctionInvocationError):
        await executor(
            bench, provider_handler=KnowsNothing(), backoff_multiplier=7.0
        ).execute_with_retry(Fails())
    assert bench.clock.sleeps == [0.25, 0.5, 1.0]


async def test_a_secret_in_the_message_is_redacted() -> None:
    with pytest.raises(FunctionInvocationError) as caught:
        await executor(Bench(), max_retries=0).execute_with_retry(
            Fails(RuntimeError("password=hunter2")), {}, "login"
        )
    assert "hunter2" not in str(caught.value)


async def test_a_function_without_a_name_is_called_unknown() -> None:
    with pytest.raises(FunctionInvocationError, match="function 'Unknown'"):
        await executor(Bench(), max_retries=0).execute_with_retry(Fails())


async def test_a_generator_is_refused() -> None:
    def generates() -> Any:
        yield 1

    with pytest.raises(ConfigurationError, match="returns a generator"):
        await executor(Bench()).execute_with_retry(generates)


async def test_by_default_it_knows_the_exceptions_of_python() -> None:
    bench = Bench()
    by_default = FunctionRetryExecutor(env=bench.env)
    fails = Fails(TypeError("bug"))
    with pytest.raises(FunctionInvocationError, match="non-retryable"):
        await by_default.execute_with_retry(fails)
    fails = Fails(ValueError("who knows"))
    with pytest.raises(FunctionInvocationError, match="after 4 attempts"):
        await by_default.execute_with_retry(fails)
