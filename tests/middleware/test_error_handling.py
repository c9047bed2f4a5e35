"""The six of seed 000 together: what is registered, and that retry, timeout and formatting agree."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
from typing import Any

import pytest
from tests.tool_results import results_in_request

from holdfast import Agent, HoldfastError, Middleware, RetryOptions, Status, tool
from holdfast.compat import AgentBuilder
from holdfast.core.errors import ConfigurationError, ErrorCategory
from holdfast.core.messages import ToolCall
from holdfast.core.notices import (
    CircuitBreakerTriggered,
    MaxConsecutiveErrorsExceeded,
    TotalErrorThresholdExceeded,
)
from holdfast.middleware import Replace
from holdfast.middleware.error_handling import (
    ErrorFormatting,
    FunctionRetry,
    FunctionTimeout,
    error_handling_middlewares,
)
from holdfast.middleware.error_tracking import ErrorTracking, looks_like_error
from holdfast.middleware.repetition_guard import RepetitionGuard
from holdfast.middleware.total_error_threshold import TotalErrorThreshold
from holdfast.runtime.plan import ToolCallOptions
from holdfast.testing import Emulator, FakeClock, ScriptedModel
from holdfast.testing.emulator import HttpStatus

SIX = [
    RepetitionGuard,
    ErrorTracking,
    TotalErrorThreshold,
    FunctionRetry,
    FunctionTimeout,
    ErrorFormatting,
]
SECRET = "hunter2-secret"


def call(name: str = "work", arguments: str = "{}", call_id: str = "c1") -> ToolCall:
    return ToolCall(call_id, name, arguments)


def test_with_error_handling_simple_usage_registers_all_middleware() -> None:
    assert [type(one) for one in error_handling_middlewares()] == SIX


def test_middleware_order_is_correct() -> None:
    agent = Agent(ScriptedModel(), middleware=error_handling_middlewares())
    names = [kind.__name__ for kind in SIX]
    lines = [line.strip().partition(":")[0] for line in agent.describe().splitlines()]
    assert [line for line in lines if line in names] == names


def test_with_error_handling_custom_thresholds_uses_provided_values() -> None:
    guard, tracking, total, *_ = error_handling_middlewares(7, 4, 20)
    assert isinstance(guard, RepetitionGuard)
    assert guard.max_consecutive_calls == 7
    assert isinstance(tracking, ErrorTracking)
    assert tracking.max_consecutive_errors == 4
    assert isinstance(total, TotalErrorThreshold)
    assert total.max_total_errors == 20


def test_with_error_handling_defaults_are_5_3_10() -> None:
    guard, tracking, total, *_ = error_handling_middlewares()
    assert guard.describe()["max_consecutive_calls"] == 5
    assert tracking.describe() == {"max_consecutive_errors": 3}
    assert total.describe() == {"max_total_errors": 10}


def test_with_error_handling_advanced_configuration_allows_fine_tuning() -> None:
    six = error_handling_middlewares(
        retry=FunctionRetry(max_retries=1), timeout=5, include_detailed_errors=True
    )
    assert [type(one) for one in six] == SIX
    agent = Agent(ScriptedModel(), middleware=six)
    assert agent._engine.plan.tool_calls == ToolCallOptions(
        retry=RetryOptions(max_retries=1), tool_timeout=5, detailed_errors=True
    )


def test_with_function_retry_standalone_and_with_function_timeout_standalone() -> None:
    alone = Agent(ScriptedModel(), middleware=[FunctionRetry()])._engine.plan
    assert alone.tool_calls == ToolCallOptions(retry=RetryOptions())
    timeout = Agent(ScriptedModel(), middleware=[FunctionTimeout()])._engine.plan
    assert timeout.tool_calls.tool_timeout == 30.0
    custom = Agent(ScriptedModel(), middleware=[FunctionTimeout(2.5)])._engine.plan
    assert custom.tool_calls.tool_timeout == 2.5
    kept = Agent(ScriptedModel(), middleware=[FunctionTimeout()], tool_timeout=7)._engine.plan
    assert kept.tool_calls.tool_timeout == 7


def test_both_ways_to_error_handling_set_thirty_seconds() -> None:
    built = AgentBuilder(model=ScriptedModel()).with_error_handling().build()
    written = Agent(ScriptedModel(), middleware=error_handling_middlewares())
    timeouts = [agent._engine.plan.tool_calls.tool_timeout for agent in (built, written)]
    assert timeouts == [30.0, 30.0]
    assert Agent(ScriptedModel())._engine.plan.tool_calls.tool_timeout is None


@pytest.mark.parametrize("seconds", [0, -1, float("nan")])
def test_a_timeout_must_be_greater_than_zero(seconds: float) -> None:
    with pytest.raises(ConfigurationError):
        FunctionTimeout(seconds)


def test_an_unknown_setting_of_retries_is_named() -> None:
    with pytest.raises(ConfigurationError, match="max_retry"):
        FunctionRetry(max_retry=3)
    with pytest.raises(ConfigurationError, match="max_retries"):
        Agent(ScriptedModel(), middleware=[FunctionRetry(max_retries=-1)])


class Other(Middleware):
    async def after_tool(self, context):
        assert SECRET in str(context.exception)


class Throwing(Middleware):
    async def wrap_tool(self, context, call_next):
        raise RuntimeError(SECRET)


@pytest.mark.parametrize(
    "middleware",
    [[ErrorFormatting()], [], [Other()], [Throwing()], [Throwing(), ErrorFormatting()]],
    ids=["formatter", "none", "other only", "throws itself", "throws beside the formatter"],
)
async def test_the_model_reads_the_same_safe_text_in_every_row_of_the_matrix(
    middleware: list[Middleware], caplog: pytest.LogCaptureFixture
) -> None:
    @tool(effect="read")
    async def work() -> str:
        """Work."""
        raise RuntimeError(f"Server=prod;Password={SECRET}")

    model = ScriptedModel(call(), "ok")
    handling = RetryOptions(max_retries=0)
    agent = Agent(model, tools=[work], middleware=middleware, retry=handling)
    with caplog.at_level(logging.CRITICAL):
        result = await agent.run("go")
    assert results_in_request(model) == ["Error: Function 'work' failed."]
    assert SECRET not in str(result)


async def test_details_are_the_same_with_the_formatter_and_with_the_agents_flag() -> None:
    @tool(effect="read")
    async def work() -> str:
        """Work."""
        raise RuntimeError("no route to host")

    for middleware, flag in (([ErrorFormatting(True)], False), ([], True)):
        model = ScriptedModel(call(), "ok")
        once = RetryOptions(max_retries=0)
        agent = Agent(model, tools=[work], middleware=middleware, retry=once, detailed_errors=flag)
        await agent.run("go")
        assert results_in_request(model) == ["Error invoking function 'work': no route to host"]


async def test_fails_twice_then_works_is_three_calls_and_the_result() -> None:
    calls = 0

    @tool(effect="read")
    async def work() -> str:
        """Work."""
        nonlocal calls
        calls += 1
        if calls < 3:
            raise RuntimeError(SECRET)
        return "fine"

    model = ScriptedModel(call(), "ok")
    agent = Agent(model, tools=[work], middleware=error_handling_middlewares(), clock=FakeClock())
    assert (await agent.run("go")).output == "ok"
    assert (calls, results_in_request(model)) == (3, ["fine"])


async def test_fails_always_is_four_calls_and_the_generic_text() -> None:
    calls = 0

    @tool(effect="read")
    async def work() -> str:
        """Work."""
        nonlocal calls
        calls += 1
        raise RuntimeError(SECRET)

    model = ScriptedModel(call(), "ok")
    agent = Agent(model, tools=[work], middleware=error_handling_middlewares(), clock=FakeClock())
    result = await agent.run("go")
    assert (calls, results_in_request(model)) == (4, ["Error: Function 'work' failed."])
    assert SECRET not in repr(result)
    assert SECRET not in repr(model.requests)


@pytest.mark.slow  # takes half a second or more
async def test_a_slow_attempt_times_out_and_the_next_one_counts() -> None:
    calls = 0

    @tool(effect="read")
    async def work() -> str:
        """Work."""
        nonlocal calls
        calls += 1
        if calls == 1:
            await asyncio.Event().wait()
        return "fine"

    model = ScriptedModel(call(), "ok")
    six = error_handling_middlewares(timeout=0.5)
    await Agent(model, tools=[work], middleware=six, clock=FakeClock()).run("go")
    assert (calls, results_in_request(model)) == (2, ["fine"])


@tool(effect="read")
async def work(n: int = 0) -> str:
    """Fails on odd numbers."""
    if n % 2:
        raise ValueError(f"odd {n}")
    return "same"


NO_RETRY = RetryOptions(max_retries=0)


async def notices_of(agent: Agent) -> tuple[object, list[object]]:
    async with agent.stream("go") as run:
        items: list[object] = [item async for item in run]
        return run.result, items


async def test_three_failed_iterations_in_a_row_end_the_turn_with_the_exact_text() -> None:
    model = ScriptedModel(*[call(arguments=f'{{"n": {n}}}') for n in (1, 3, 5, 7)])
    agent = Agent(model, tools=[work], middleware=[ErrorTracking()], retry=NO_RETRY)
    result, items = await notices_of(agent)
    assert result.status is Status.STOPPED
    assert result.output == (
        "⚠️ Maximum consecutive errors (3/3) exceeded. "
        "Stopping execution to prevent infinite error loop."
    )
    assert result.stop_reason == "Maximum consecutive errors (3) exceeded"
    (told,) = [item for item in items if isinstance(item, MaxConsecutiveErrorsExceeded)]
    assert (told.consecutive_errors, told.max_consecutive_errors, told.iteration) == (3, 3, 2)
    assert len(model.requests) == 3


async def test_an_iteration_without_errors_resets_the_count_and_two_errors_of_one_count_once() -> (
    None
):
    def both(a: int, b: int) -> tuple[ToolCall, ...]:
        return (call(arguments=f'{{"n": {a}}}'), call(arguments=f'{{"n": {b}}}', call_id="c2"))

    model = ScriptedModel(both(1, 3), both(5, 2), both(4, 6), both(7, 9), "ok")
    agent = Agent(model, tools=[work], middleware=[ErrorTracking()], retry=NO_RETRY)
    assert (await agent.run("go")).output == "ok"


async def test_text_that_reads_like_an_error_counts_only_on_request() -> None:
    @tool(effect="read")
    async def polite() -> str:
        """Says that it failed."""
        return "Error: nothing found"

    for detector, status in ((None, Status.COMPLETED), (looks_like_error, Status.STOPPED)):
        tracking = ErrorTracking(2, detector=detector) if detector else ErrorTracking(2)
        model = ScriptedModel(call("polite"), call("polite"), "ok")
        result = await Agent(model, tools=[polite], middleware=[tracking]).run("go")
        assert result.status is status


async def test_ten_errors_in_total_end_the_turn() -> None:
    script = [call(arguments=f'{{"n": {n}}}') for n in (1, 2, 3, 4, 5)]
    model = ScriptedModel(*script, "never")
    agent = Agent(model, tools=[work], middleware=[TotalErrorThreshold(3)], retry=NO_RETRY)
    result, items = await notices_of(agent)
    assert result.output == (
        "Total error threshold (3/3) exceeded. "
        "Encountered too many errors of varying types. Stopping execution."
    )
    (told,) = [item for item in items if isinstance(item, TotalErrorThresholdExceeded)]
    assert (told.total_errors, told.max_total_errors, told.iteration) == (3, 3, 5)


async def test_a_denied_call_is_not_an_error() -> None:
    class No(Middleware):
        async def before_tool(self, context):
            from holdfast.middleware import Deny

            return Deny("Permission denied by user.")

    model = ScriptedModel(*[call() for _ in range(4)], "ok")
    agent = Agent(model, tools=[work], middleware=[No(), ErrorTracking(2), TotalErrorThreshold(2)])
    assert (await agent.run("go")).output == "ok"


async def test_the_third_equal_call_does_not_run() -> None:
    ran = 0

    @tool(effect="read")
    async def poll(a: float = 0, b: float = 0) -> str:
        """Poll."""
        nonlocal ran
        ran += 1
        return "same"

    model = ScriptedModel(
        call("poll", '{"a": 1, "b": 2}'),
        call("poll", '{"b": 2.0, "a": 1}'),
        call("poll", '{"a":1,"b":2}'),
    )
    agent = Agent(model, tools=[poll], middleware=[RepetitionGuard()])
    result, items = await notices_of(agent)
    assert ran == 2
    assert result.output == (
        "⚠️ Circuit breaker triggered: Function 'poll' with same arguments would be called 3 times "
        "consecutively. Stopping to prevent infinite loop."
    )
    assert result.stop_reason == (
        "Circuit breaker: 'poll' with same arguments would be called 3 times consecutively"
    )
    (told,) = [item for item in items if isinstance(item, CircuitBreakerTriggered)]
    assert (told.tool, told.count, told.iteration) == ("poll", 3, 2)


async def test_polling_with_changing_results_is_not_a_cycle() -> None:
    seen = iter(range(10))

    @tool(effect="read")
    async def poll() -> str:
        """Poll."""
        return f"{next(seen)} %"

    model = ScriptedModel(*[call("poll")] * 8, "ok")
    result = await Agent(model, tools=[poll], middleware=[RepetitionGuard()]).run("go")
    assert result.output == "ok"
    strict = RepetitionGuard(result_aware=False)
    model = ScriptedModel(*[call("poll")] * 3)
    seen = iter(range(10))
    result = await Agent(model, tools=[poll], middleware=[strict]).run("go")
    assert result.status is Status.STOPPED


async def test_equal_calls_of_one_reply_count() -> None:
    model = ScriptedModel(tuple(call(arguments='{"n": 2}', call_id=str(n)) for n in range(3)))
    result = await Agent(model, tools=[work], middleware=[RepetitionGuard()]).run("go")
    assert result.status is Status.STOPPED
    assert "would be called 3 times" in result.text


async def test_two_alternating_calls_are_a_cycle() -> None:
    script = [call(arguments=f'{{"n": {n}}}') for n in (2, 4, 2, 4, 2, 4)]
    model = ScriptedModel(*script)
    result = await Agent(model, tools=[work], middleware=[RepetitionGuard()]).run("go")
    assert result.status is Status.STOPPED
    assert len(model.requests) == 6


async def test_different_calls_are_not_a_cycle() -> None:
    model = ScriptedModel(*[call(arguments=f'{{"n": {n}}}') for n in range(0, 16, 2)], "ok")
    result = await Agent(model, tools=[work], middleware=[RepetitionGuard()]).run("go")
    assert result.output == "ok"


async def test_a_hint_and_then_the_tool_is_withdrawn() -> None:
    model = ScriptedModel(*[call(arguments='{"n": 2}')] * 3, "ok")
    guard = RepetitionGuard(5, hint_at=2, withdraw_at=3)
    await Agent(model, tools=[work], middleware=[guard]).run("go")
    assert "called 2 times with the same arguments" in model.requests[2].instructions
    assert [spec.name for spec in model.requests[2].tools] == ["work"]
    assert model.requests[3].tools == ()


async def test_malformed_arguments_are_compared_as_written() -> None:
    model = ScriptedModel(*[call(arguments='{"n": ')] * 3)
    result = await Agent(model, tools=[work], middleware=[RepetitionGuard()]).run("go")
    assert result.status is Status.STOPPED


async def test_one_agent_counts_for_each_run_alone() -> None:
    def script(request: object) -> ToolCall | str:
        done = sum(message.role == "tool" for message in request.messages)  # type: ignore[attr-defined]
        return call(arguments='{"n": 2}') if done < 2 else "ok"

    agent = Agent(
        ScriptedModel(*[script] * 300), tools=[work], middleware=error_handling_middlewares(3)
    )
    results = await asyncio.gather(*(agent.run("go") for _ in range(100)))
    assert {result.output for result in results} == {"ok"}


def test_a_retry_setting_applies_to_tools_and_not_to_models() -> None:
    limits = {ErrorCategory.UNKNOWN: 1}
    agent = Agent(
        ScriptedModel(), middleware=[FunctionRetry(max_retries_by_category=limits, max_retries=5)]
    )
    assert agent._engine.plan.tool_calls.retry.max_retries == 5
    assert "max_retries=3" in agent.describe()


# Settings of retries and middlewares.


@tool(effect="read")
def look() -> str:
    """Look."""
    return "Error: nothing here"


def test_the_six_take_a_guard_with_settings_of_its_own() -> None:
    tracking, guard = ErrorTracking(2, detector=looks_like_error), RepetitionGuard(9, hint_at=4)
    six = error_handling_middlewares(guard, tracking)
    assert six[:2] == [guard, tracking]
    calls = [ToolCall(str(number), "look", "{}") for number in range(4)]
    builder = AgentBuilder(model=ScriptedModel(*calls, "done")).with_tools(look)
    assert builder.with_error_handling(guard, tracking).build().run_sync("go").status == "stopped"


def test_a_number_of_retries_for_a_final_category_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"max_retries_by_category.*auth_error") as caught:
        RetryOptions(max_retries_by_category={ErrorCategory.AUTH_ERROR: 3})
    assert "custom_retry" in str(caught.value)
    RetryOptions(max_retries_by_category={ErrorCategory.AUTH_ERROR: 0})


@pytest.mark.parametrize("asked", [True, False])
async def test_the_details_of_a_provider_stand_in_the_text_of_the_error(*, asked: bool) -> None:
    async with Emulator(["never"], faults=[HttpStatus(401)]) as provider:
        retry = RetryOptions(include_provider_details=asked)
        agent = Agent(
            "openai:demo", base_url=provider.base_url, api_key="k", retry=retry, clock=FakeClock()
        )
        with pytest.raises(HoldfastError) as caught:
            await agent.run("go")
    assert ("status 401" in str(caught.value)) is asked


class Noted(Middleware):
    def __init__(self, name: str, seen: list[str]) -> None:
        self.word = name
        self.seen = seen

    async def before_turn(self, context: Any) -> None:
        self.seen.append(self.word)

    async def before_tool(self, context: Any) -> Replace | None:
        return None


class Sooner(Noted):
    priority = -1


async def test_a_priority_decides_the_order() -> None:
    seen: list[str] = []
    middleware = [
        Noted("late", seen).only(priority=100),
        Noted("first of equals", seen),
        Noted("second of equals", seen),
        Sooner("soon", seen),
    ]
    await Agent(ScriptedModel("done"), middleware=middleware).run("go")
    assert seen == ["soon", "first of equals", "second of equals", "late"]
    with pytest.raises(ConfigurationError, match="priority"):
        Noted("x", seen).only(priority="high")  # type: ignore[arg-type]


async def test_a_condition_may_stand_on_a_middleware_with_hooks_of_the_turn() -> None:
    seen: list[str] = []
    asked: list[str] = []

    def enabled(hook: str, facts: Any) -> bool:
        asked.append(hook)
        return bool(facts.turn > 1)

    noted = Noted("seen", seen).only(enabled=enabled)
    await Agent(ScriptedModel("done"), middleware=[noted]).run("go")
    assert (seen, asked) == ([], ["before_turn"])


def test_logging_is_one_line_to_switch_on() -> None:
    program = (
        "import logging; logging.basicConfig(level='INFO')\n"
        "from holdfast import Agent\n"
        "from holdfast.middleware import IterationLogging\n"
        "from holdfast.testing import ScriptedModel\n"
        "Agent(ScriptedModel('hi'), middleware=[IterationLogging()]).run_sync('go')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    assert "Iteration 0 starting" in done.stderr
