"""The strategies around plain functions: what is raised, what is refused, what runs where."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import threading
from collections.abc import Callable
from typing import Any

import pytest
from tests.resilience.operations import Bench, C, info

from holdfast.calls import ResponseReader, make_execution_context, send_message_streaming
from holdfast.calls.guard import Guard
from holdfast.calls.guarded_functions import arguments_key, execute, resilient
from holdfast.core.errors import ConfigurationError, Landed
from holdfast.core.notices import RetryScheduled
from holdfast.resilience.breaker.options import BreakerOptions
from holdfast.resilience.breaker.strategy import BreakerOpenError, BreakerStrategy, CircuitBreaker
from holdfast.resilience.cache.options import CacheOptions
from holdfast.resilience.cache.strategy import Cache, Store
from holdfast.resilience.fallback.strategy import Fallback
from holdfast.resilience.pipeline import Pipeline
from holdfast.resilience.retry.options import RetryOptions
from holdfast.resilience.retry.strategy import Retry
from holdfast.resilience.timeout.strategy import AttemptTimeout, Deadline
from holdfast.testing import FakeClock

RETRY = Pipeline.of(Retry())


class Flaky:
    """Raises what it is given, in turn, and then answers; callable in both ways."""

    def __init__(self, *errors: BaseException) -> None:
        self.errors, self.calls = list(errors), 0

    def sync(self, value: Any = "ok") -> Any:
        self.calls += 1
        if self.errors:
            raise self.errors.pop(0)
        return value

    async def coroutine(self, value: Any = "ok") -> Any:
        return self.sync(value)


@pytest.mark.parametrize("kind", ["sync", "coroutine"])
async def test_a_passing_failure_is_retried(kind: str) -> None:
    flaky, bench = Flaky(ConnectionResetError(), TimeoutError()), Bench()
    assert await Guard(RETRY, env=bench.env).call(getattr(flaky, kind), 42) == 42
    assert (flaky.calls, bench.clock.sleeps) == (3, [1.0, 2.0])
    assert len(bench.seen(RetryScheduled)) == 2


@pytest.mark.parametrize("kind", ["sync", "coroutine"])
async def test_what_is_raised_in_the_end_is_the_very_exception(kind: str) -> None:
    last = ConnectionResetError("no more")
    flaky = Flaky(OSError(), OSError(), OSError(), last, OSError())
    with pytest.raises(ConnectionResetError) as caught:
        await Guard(RETRY, env=Bench().env).call(getattr(flaky, kind))
    assert caught.value is last
    assert flaky.calls == 4


async def test_a_note_says_why_it_was_not_tried_again() -> None:
    error = ConnectionResetError()
    guard = Guard(Pipeline.of(Deadline(0.5), Retry()), env=Bench().env)
    with pytest.raises(ConnectionResetError):
        await guard.call(Flaky(error).coroutine)
    assert "would pass the deadline" in error.__notes__[0]


async def test_a_fault_of_the_code_is_not_retried() -> None:
    flaky = Flaky(TypeError("bug"))
    with pytest.raises(TypeError):
        await Guard(RETRY, env=Bench().env).call(flaky.coroutine)
    assert flaky.calls == 1


async def test_a_cancellation_passes() -> None:
    flaky = Flaky(asyncio.CancelledError())
    with pytest.raises(asyncio.CancelledError):
        await Guard(RETRY, env=Bench().env).call(flaky.coroutine)
    assert flaky.calls == 1


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
async def test_the_end_of_the_program_is_no_failure(error: type[BaseException]) -> None:
    # Raised in the thread and raised again here; asyncio would end its loop for a task of its own.
    flaky = Flaky(error())
    caught: list[BaseException] = []
    try:
        await Guard(RETRY, env=Bench().env).call(flaky.sync)
    except BaseException as raised:  # noqa: BLE001
        caught.append(raised)
    assert [type(raised) for raised in caught] == [error]
    assert flaky.calls == 1


async def test_a_write_that_may_have_landed_is_not_repeated() -> None:
    cut, refused = Flaky(ConnectionResetError()), Flaky(ConnectionRefusedError(111, "refused"))
    guard = Guard(RETRY, effect="write", env=Bench().env)
    with pytest.raises(ConnectionResetError) as caught:
        await guard.call(cut.coroutine)
    assert cut.calls == 1
    assert "may have taken effect" in caught.value.__notes__[0]
    assert await guard.call(refused.coroutine) == "ok"


async def test_flaw_a_returned_error_is_a_failed_attempt_when_it_is_judged_one() -> None:
    answers = [{"error": "429"}, {"error": "429"}, {"text": "hi"}]

    async def chat() -> dict[str, str]:
        return answers.pop(0)

    bench = Bench()
    guard = Guard(
        RETRY, judge=lambda value: info(C.TRANSIENT) if "error" in value else None, env=bench.env
    )
    assert await guard.call(chat) == {"text": "hi"}
    assert bench.clock.sleeps == [1.0, 2.0]


async def test_the_users_own_classification_counts() -> None:
    flaky, bench = Flaky(ValueError("slow down")), Bench()
    guard = Guard(
        RETRY,
        classify=lambda error: info(C.RATE_LIMIT_RETRYABLE, retry_after=9.0, landed=Landed.NO),
        env=bench.env,
    )
    await guard.call(flaky.coroutine)
    assert bench.clock.sleeps == [9.0]


async def test_an_open_breaker_says_so_by_its_own_error() -> None:
    breaker = BreakerStrategy(CircuitBreaker("x", BreakerOptions(mode="consecutive", failures=1)))
    guard = Guard(Pipeline.of(breaker), env=Bench().env)
    with pytest.raises(ConnectionResetError):
        await guard.call(Flaky(ConnectionResetError()).coroutine)
    with pytest.raises(BreakerOpenError, match="not called"):
        await guard.call(Flaky().coroutine)


async def test_a_timeout_releases_the_caller_of_a_synchronous_function() -> None:
    go = threading.Event()
    guard = Guard(Pipeline.of(AttemptTimeout(0.01)))
    with pytest.raises(Exception, match=r"0\.01 s, the limit for one attempt"):
        await guard.call(go.wait)
    go.set()


async def test_a_synchronous_function_blocks_no_event_loop_and_sees_the_context() -> None:
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable")
    variable.set("mine")
    go = threading.Event()

    def work() -> tuple[str, bool]:
        go.wait()
        return variable.get(), threading.current_thread() is threading.main_thread()

    task = asyncio.ensure_future(execute(RETRY, work))
    await asyncio.sleep(0)
    go.set()
    assert await task == ("mine", False)


async def test_a_function_that_returns_an_awaitable_is_awaited() -> None:
    flaky = Flaky(ConnectionResetError())
    guard = Guard(RETRY, env=Bench().env)
    assert await guard.call(lambda: flaky.coroutine("yes")) == "yes"
    assert flaky.calls == 2


async def test_a_partial_and_an_object_that_is_called_are_functions_too() -> None:
    class Client:
        async def __call__(self, value: int) -> int:
            assert threading.current_thread() is threading.main_thread()
            return value + 1

    assert await execute(RETRY, functools.partial(Client(), 1)) == 2


class TestRefused:
    async def test_a_coroutine_in_place_of_a_function(self) -> None:
        with pytest.raises(ConfigurationError, match="can run only once"):
            await execute(RETRY, Flaky().coroutine())  # type: ignore[call-overload]

    async def test_what_cannot_be_called(self) -> None:
        with pytest.raises(ConfigurationError, match="must be a function, got int"):
            await execute(RETRY, 3)  # type: ignore[call-overload]

    def test_what_is_no_pipeline_and_no_effect(self) -> None:
        with pytest.raises(ConfigurationError, match="must be Pipeline, got list"):
            Guard([Retry()])  # type: ignore[arg-type]
        with pytest.raises(ConfigurationError, match="effect"):
            Guard(RETRY, effect="maybe")  # type: ignore[arg-type]


class TestDecorator:
    async def test_an_async_function_stays_async(self) -> None:
        flaky = Flaky(ConnectionResetError())

        @resilient(Retry(RetryOptions(retry_delay=0)), env=Bench().env)
        async def fetch(value: int) -> Any:
            """Docs."""
            return await flaky.coroutine(value)

        assert await fetch(3) == 3
        assert (fetch.__name__, fetch.__doc__) == ("fetch", "Docs.")

    def test_a_synchronous_one_stays_synchronous(self) -> None:
        flaky = Flaky(ConnectionResetError())
        fetch = resilient(env=Bench().env)(flaky.sync)
        assert fetch("here") == "here"
        assert flaky.calls == 2

    async def test_a_synchronous_one_is_refused_where_it_would_block_a_loop(self) -> None:
        fetch = resilient()(Flaky().sync)
        with pytest.raises(ConfigurationError, match="would block"):
            fetch()

    async def test_methods_work(self) -> None:
        class Client:
            value = 7

            @resilient(env=Bench().env)
            async def fetch(self, more: int) -> int:
                return self.value + more

        assert await Client().fetch(more=1) == 8


class TestWithOtherStrategies:
    async def test_another_function_is_asked_with_the_same_arguments(self) -> None:
        flaky, bench = Flaky(*[ConnectionResetError()] * 9), Bench()

        async def other(value: str) -> str:
            return f"other {value}"

        guard = Guard(Pipeline.of(), env=bench.env)
        chosen = Pipeline.of(Retry(), Fallback("first", (guard.target("second", other),)))
        assert await Guard(chosen, env=bench.env).call(flaky.coroutine, "x") == "other x"

    async def test_calls_are_cached_by_their_arguments(self) -> None:
        flaky = Flaky()
        cache = Cache(Store(CacheOptions()), arguments_key("acme"), lambda value: 1)
        guard = Guard(Pipeline.of(cache), env=Bench().env)
        for argument in ("a", "a", "b"):
            assert await guard.call(flaky.coroutine, argument) == argument
        assert flaky.calls == 2
        with pytest.raises(ConfigurationError, match="scope"):
            arguments_key("")


async def test_one_guard_serves_many_calls_at_once() -> None:
    guard = Guard(RETRY, env=Bench().env)

    async def echo(value: int) -> int:
        await asyncio.sleep(0)
        return value

    assert await asyncio.gather(*(guard.call(echo, n) for n in range(100))) == list(range(100))


@pytest.mark.parametrize("kind", ["openai", "anthropic"])
async def test_the_errors_of_an_sdk_are_understood(kind: str) -> None:
    sdk, httpx = pytest.importorskip(kind), pytest.importorskip("httpx")

    def raised(status: int, **headers: str) -> BaseException:
        request = httpx.Request("POST", f"https://api.{kind}.com/v1/x")
        response = httpx.Response(status, headers=headers, json={"error": {}}, request=request)
        error = {401: sdk.AuthenticationError, 429: sdk.RateLimitError}[status]
        return error("refused", response=response, body={})

    bench, flaky = Bench(), Flaky(raised(429, **{"retry-after": "7"}))
    assert await Guard(RETRY, env=bench.env).call(flaky.coroutine) == "ok"
    assert bench.clock.sleeps == [7.0]
    flaky = Flaky(raised(401))
    with pytest.raises(sdk.AuthenticationError):
        await Guard(RETRY, env=bench.env).call(flaky.coroutine)
    assert flaky.calls == 1


# A breaker inside a guard.

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


async def test_an_open_breaker_fails_the_next_call_at_once() -> None:
    assert (await call_four_times(RetryOptions(max_retries=0))).sleeps == []


async def test_a_guard_may_wait_for_an_open_breaker() -> None:
    clock = await call_four_times(RetryOptions(max_retries=0, max_breaker_wait=60))
    assert clock.sleeps == [pytest.approx(10.0, abs=0.01)]


async def wait_for_nothing(*_: object) -> None:
    raise AssertionError("nobody awaits this")


@pytest.mark.parametrize(
    ("field", "use"),
    [
        ("judge", lambda: resilient(judge=wait_for_nothing)),  # type: ignore[arg-type]
        ("classify", lambda: resilient(classify=wait_for_nothing)),  # type: ignore[arg-type]
        ("publish", lambda: make_execution_context(publish=wait_for_nothing)),  # type: ignore[arg-type]
        ("reader.shapes", lambda: ResponseReader(shapes=[wait_for_nothing])),  # type: ignore[list-item]
        (
            "status_callback",
            lambda: send_message_streaming(lambda: iter(()), status_callback=wait_for_nothing),
        ),
        (
            "preview_callback",
            lambda: send_message_streaming(
                lambda _: iter(()),
                "Q",
                output=int,
                preview_callback=functools.partial(wait_for_nothing),
            ),
        ),
    ],
)
def test_an_async_function_that_nobody_awaits_is_refused(
    field: str, use: Callable[[], object]
) -> None:
    with pytest.raises(ConfigurationError, match=f"^{field}.*would never be awaited"):
        use()
