"""Error handling of functions, as the first document describes it: retries, waits, and what hooks see."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from tests.codecs.bodies import openai
from tests.resilience.operations import Bench, Script, fail, info
from tests.tool_results import results_in_history

from holdfast import (
    Agent,
    ConfigurationError,
    ErrorCategory,
    HoldfastError,
    Middleware,
    PermissionQuestion,
    ProviderError,
    RetryOptions,
    RetryScheduled,
    ToolFinished,
    ToolPermission,
    tool,
)
from holdfast.compat import (
    AgentBuilder,
    ErrorHandling,
    FunctionInvocationError,
    FunctionRetryExecutor,
)
from holdfast.core.messages import ToolCall
from holdfast.middleware import ErrorTracking, FunctionRetry, FunctionTimeout, Replace
from holdfast.testing import Emulator, FakeClock, FixedRng, ScriptedModel
from holdfast.testing.emulator import HttpStatus

C = ErrorCategory
FIRST = ToolCall("1", "work", "{}")


class Work:
    """A tool that fails a number of times, by default always, and counts its runs."""

    def __init__(self, failures: int = 99, error: Exception | None = None) -> None:
        self.failures = failures
        self.error = error or RuntimeError("boom")
        self.runs = 0

        @tool(effect="idempotent")
        def work() -> str:
            """Work."""
            self.runs += 1
            if self.runs <= self.failures:
                raise self.error
            return "worked"

        self.tool = work


def agent_with(work: Work, *middleware: Middleware[Any], **keywords: Any) -> Agent[str]:
    clock = keywords.pop("clock", None) or FakeClock()
    model = ScriptedModel(FIRST, "done")
    return Agent(
        model, tools=[work.tool], middleware=middleware, clock=clock, rng=FixedRng(0.5), **keywords
    )


async def test_one_executor_serves_concurrent_calls() -> None:
    executor = FunctionRetryExecutor()

    async def echo(n: int) -> int:
        await asyncio.sleep(0)
        return n

    calls = [executor.execute_with_retry(echo, {"n": n}, "echo") for n in range(20)]
    assert await asyncio.gather(*calls) == list(range(20))
    assert await executor.execute_with_retry(lambda: 5, None, "five") == 5


@pytest.mark.parametrize(
    ("category", "attempts"),
    [
        (C.UNKNOWN, 4),
        (C.TRANSIENT, 4),
        (C.RATE_LIMIT_RETRYABLE, 4),
        (C.RATE_LIMIT_TERMINAL, 1),
        (C.CLIENT_ERROR, 1),
        (C.AUTH_ERROR, 1),
        (C.CONTEXT_WINDOW, 1),
        (C.SERVER_ERROR, 4),
        (C.MODEL_NOT_FOUND, 1),
    ],
)
async def test_the_category_decides_whether_a_function_is_retried(
    category: ErrorCategory, attempts: int
) -> None:
    runs = []

    def fails() -> None:
        runs.append(1)
        raise RuntimeError("boom")

    executor = FunctionRetryExecutor(
        ErrorHandling(), classify=lambda _: info(category), env=Bench().env
    )
    with pytest.raises(FunctionInvocationError):
        await executor.execute_with_retry(fails, {}, "fails")
    assert len(runs) == attempts


@pytest.mark.parametrize(
    ("status", "body", "category"),
    [
        (400, openai("no", "invalid_request_error", "context_length_exceeded"), C.CONTEXT_WINDOW),
        (400, openai("no", "invalid_request_error"), C.CLIENT_ERROR),
        (401, openai("no", "invalid_request_error", "invalid_api_key"), C.AUTH_ERROR),
        (403, openai("no", "forbidden"), C.AUTH_ERROR),
        (429, openai("no", "insufficient_quota", "insufficient_quota"), C.RATE_LIMIT_TERMINAL),
        (429, openai("no", "requests", "rate_limit_exceeded"), C.RATE_LIMIT_RETRYABLE),
        (500, openai("no", "server_error"), C.SERVER_ERROR),
        (503, openai("no", "overloaded"), C.TRANSIENT),
        (404, openai("no", "invalid_request_error", "model_not_found"), C.MODEL_NOT_FOUND),
        (429, openai("You exceeded your current quota, please check."), C.RATE_LIMIT_TERMINAL),
        (429, openai("Your quota has been exceeded"), C.RATE_LIMIT_TERMINAL),
        (400, openai("This model's maximum context length is 8192 tokens."), C.CONTEXT_WINDOW),
    ],
)
async def test_a_refusal_has_its_category(
    status: int, body: object, category: ErrorCategory
) -> None:
    async with Emulator(["never"], faults=[HttpStatus(status, body=body)]) as provider:
        retry = RetryOptions(max_retries=0)
        agent = Agent("openai:demo", base_url=provider.base_url, api_key="k", retry=retry)
        with pytest.raises(HoldfastError) as caught:
            await agent.run("go")
    assert caught.value.info is not None
    assert caught.value.info.category is category


@pytest.mark.parametrize(
    ("options", "waits"),
    [
        (RetryOptions(backoff_multiplier=3), [1.0, 3.0, 9.0]),
        (RetryOptions(retry_delay=0.5), [0.5, 1.0, 2.0]),
        (RetryOptions(max_retries=7), [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]),
        (RetryOptions(backoff="full_jitter"), [0.5, 1.0, 2.0]),
    ],
)
async def test_the_waits_follow_the_options(options: RetryOptions, waits: list[float]) -> None:
    clock = FakeClock()
    work = Work()
    await agent_with(work, clock=clock, retry=options).run("go")
    assert clock.sleeps == pytest.approx(waits)


async def test_a_custom_strategy_comes_before_the_wait_that_the_provider_asks_for() -> None:
    from holdfast.resilience.retry.strategy import Retry

    bench = Bench()
    options = RetryOptions(custom_retry=lambda error, attempt: 2.0)
    await bench.run(Script(fail(retry_after=7.0)), Retry(options))
    assert bench.clock.sleeps == [2.0, 2.0, 2.0]


async def test_the_builder_takes_the_custom_strategy_of_the_sample() -> None:
    clock = FakeClock()
    handling = ErrorHandling(custom_retry=lambda error, attempt: 10.0)
    builder = AgentBuilder(model=ScriptedModel(ProviderError("down"), "ok"))
    agent = builder.with_error_handling_config(handling).with_keywords(clock=clock).build()
    assert ((await agent.run("go")).text, clock.sleeps) == ("ok", [10.0])


@pytest.mark.parametrize("streamed", [True, False])
async def test_a_custom_strategy_decides_for_model_calls_too(*, streamed: bool) -> None:
    asked: list[tuple[str, int]] = []

    def ten_seconds(error: BaseException, attempt: int) -> float:
        asked.append((type(error).__name__, attempt))
        return 10.0

    clock = FakeClock()
    model = ScriptedModel(ProviderError("down"), ProviderError("down"), "ok")
    agent = Agent(model, retry=RetryOptions(custom_retry=ten_seconds), clock=clock)
    assert await _answer(agent, streamed=streamed) == "ok"
    assert clock.sleeps == [10.0, 10.0]
    assert asked == [("ProviderError", 0), ("ProviderError", 1)]


async def _answer(agent: Agent[str], *, streamed: bool) -> str:
    if not streamed:
        return (await agent.run("go")).text
    async with agent.stream("go") as run:
        return "".join([text async for text in run.text()])


@pytest.mark.parametrize("streamed", [True, False])
async def test_a_limit_for_rate_limits_gives_six_attempts_of_a_model_call(
    *, streamed: bool
) -> None:
    limits = {C.RATE_LIMIT_RETRYABLE: 5}
    async with Emulator(["ok"], faults=[HttpStatus(429)] * 5) as provider:
        agent = Agent(
            "openai:demo",
            base_url=provider.base_url,
            api_key="k",
            retry=RetryOptions(max_retries_by_category=limits),
            clock=FakeClock(),
        )
        assert await _answer(agent, streamed=streamed) == "ok"
        assert len(provider.requests) == 6


class Hooks(Middleware):
    def __init__(self) -> None:
        self.seen: list[str] = []
        self.after: list[Any] = []

    async def before_tool(self, context: Any) -> None:
        self.seen.append("before")

    async def wrap_tool(self, context: Any, call_next: Any) -> Any:
        self.seen.append("wrap>")
        try:
            return await call_next(context)
        finally:
            self.seen.append("<wrap")

    async def after_tool(self, context: Any) -> None:
        self.seen.append("after")
        self.after.append(context)


async def test_hooks_run_once_around_all_attempts_and_see_the_failure() -> None:
    work, hooks = Work(), Hooks()
    await agent_with(work, hooks).run("go")
    assert (work.runs, hooks.seen) == (4, ["before", "wrap>", "<wrap", "after"])
    (context,) = hooks.after
    assert context.exception is work.error
    assert context.result.text == "Error: Function 'work' failed."


async def test_a_tool_that_works_at_last_is_no_error() -> None:
    work = Work(failures=2)
    result = await agent_with(work, ErrorTracking(1)).run("go")
    assert (result.text, work.runs, results_in_history(result)) == ("done", 3, ["worked"])


async def test_a_timeout_is_per_attempt_and_its_text_is_exact() -> None:
    @tool(effect="read")
    async def work() -> str:
        """Work."""
        await asyncio.Event().wait()
        return ""

    model = ScriptedModel(FIRST, "done")
    agent = Agent(model, tools=[work], tool_timeout=0.1, detailed_errors=True, clock=FakeClock())
    assert results_in_history(await agent.run("go")) == [
        "Error invoking function 'work': Function 'work' timed out after 0.1 seconds"
    ]


async def test_a_hook_may_give_the_result_and_after_hooks_still_run() -> None:
    class Ready(Middleware):
        async def before_tool(self, context: Any) -> Replace:
            return Replace("ready")

    work, hooks = Work(), Hooks()
    result = await agent_with(work, Ready(), hooks).run("go")
    assert (results_in_history(result), work.runs) == (["ready"], 0)
    assert hooks.seen == ["before", "after"]


async def test_without_retries_there_is_one_call() -> None:
    work = Work()
    agent = agent_with(work, retry=RetryOptions(max_retries=0))
    assert "max_retries=3" in agent_with(work).describe()
    assert "max_retries=3" not in agent.describe()
    await agent.run("go")
    assert work.runs == 1


@pytest.mark.parametrize("approved", [True, False])
async def test_a_permission_is_asked_for_once_before_all_attempts(*, approved: bool) -> None:
    asked = []

    async def decide(question: Any) -> Any:
        assert isinstance(question, PermissionQuestion)
        asked.append(question.tool)
        return question.approve() if approved else question.deny()

    work = Work(failures=2)
    agent = agent_with(work, ToolPermission(ask=["work"]), on_question=decide)
    await agent.run("go")
    assert (asked, work.runs) == (["work"], 3 if approved else 0)


def test_the_method_of_thresholds_takes_no_record() -> None:
    with pytest.raises(ConfigurationError, match="max_consecutive_calls"):
        AgentBuilder().with_error_handling(ErrorHandling())  # type: ignore[arg-type]


class OwnRetry(Middleware):
    """Retries by itself, five times."""

    async def wrap_tool(self, context: Any, call_next: Any) -> Any:
        for _ in range(4):
            try:
                return await call_next(context)
            except RuntimeError:
                pass
        return await call_next(context)


class Inner(Middleware):
    def __init__(self) -> None:
        self.attempts = 0

    async def wrap_tool(self, context: Any, call_next: Any) -> Any:
        self.attempts += 1
        return await call_next(context)


Build = Callable[[AgentBuilder[Any, Any], Middleware[Any]], AgentBuilder[Any, Any]]


@pytest.mark.parametrize(
    "build",
    [
        lambda builder, own: builder.with_custom_retry_middleware(own),
        lambda builder, own: builder.with_error_handling().with_custom_retry_middleware(own),
        lambda builder, own: builder.with_custom_retry_middleware(own).with_error_handling(),
    ],
    ids=["alone", "after the six", "before the six"],
)
@pytest.mark.parametrize("streamed", [True, False])
async def test_a_custom_retry_replaces_the_built_in_one(build: Build, *, streamed: bool) -> None:
    work, inner = Work(), Inner()
    builder = AgentBuilder(model=ScriptedModel(FIRST, "done")).with_tools(work.tool)
    agent = build(builder, OwnRetry()).with_middleware(inner).with_keywords(clock=FakeClock())
    assert await _answer(agent.build(), streamed=streamed) == "done"
    assert (work.runs, inner.attempts) == (5, 5)


async def test_a_custom_retry_may_succeed_and_leaves_the_retries_of_models_alone() -> None:
    work = Work(failures=2)
    model = ScriptedModel(ProviderError("down", info=info(C.SERVER_ERROR)), FIRST, "done")
    builder = AgentBuilder(model=model).with_tools(work.tool).with_keywords(clock=FakeClock())
    result = await builder.with_custom_retry_middleware(OwnRetry()).build().run("go")
    assert (result.text, results_in_history(result), work.runs) == ("done", ["worked"], 3)


@pytest.mark.parametrize(
    ("middleware", "runs"),
    [([FunctionRetry(max_retries=1)], 2), ([FunctionRetry(), FunctionRetry()], 4)],
)
async def test_there_is_one_layer_of_retries(middleware: list[Middleware[Any]], runs: int) -> None:
    work = Work()
    await agent_with(work, *middleware).run("go")
    assert work.runs == runs


async def test_a_hook_around_the_model_may_call_on_several_times() -> None:
    class Again(Middleware):
        async def wrap_model(self, context: Any, call_next: Any) -> Any:
            for _ in range(2):
                try:
                    return await call_next(context)
                except ProviderError:
                    pass
            return await call_next(context)

    model = ScriptedModel(ProviderError("one"), ProviderError("two"), "ok")
    agent = Agent(model, middleware=[Again()], retry=RetryOptions(max_retries=0))
    assert (await agent.run("go")).text == "ok"
    assert len(model.requests) == 3


async def test_cancelling_a_run_ends_the_wait_of_a_retry() -> None:
    work, clock = Work(), FakeClock(auto=False)
    task = asyncio.create_task(agent_with(work, clock=clock).run("go"))
    while not clock.sleeps:
        await asyncio.sleep(0.001)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert work.runs == 1


def test_no_time_limit_is_set_unless_asked_for() -> None:
    assert ErrorHandling().agent_keywords()["tool_timeout"] is None
    assert FunctionTimeout().tool_settings({"tool_timeout": None})["tool_timeout"] == 30.0


async def test_a_custom_strategy_may_retry_a_programming_error() -> None:
    work = Work(error=KeyError("bug"))
    await agent_with(work, retry=RetryOptions(custom_retry=lambda error, attempt: 0.0)).run("go")
    assert work.runs == 4


async def test_the_notice_of_a_retry_says_what_failed() -> None:
    agent = agent_with(Work(failures=1))
    async with agent.stream("go") as run:
        items = [item async for item in run]
    (retry,) = [item for item in items if isinstance(item, RetryScheduled)]
    (ended,) = [item for item in items if isinstance(item, ToolFinished)]
    assert (retry.key, retry.attempt, retry.max_retries) == (ended.key, 1, 3)
    assert retry.error.safe == "Function 'work' failed with RuntimeError."
    assert retry.error.code == "RuntimeError"
    assert "boom" not in repr(retry)
