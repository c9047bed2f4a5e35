"""A setting of retries or middlewares does what it says, or is refused where it is written."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from holdfast import (
    Agent,
    ConfigurationError,
    ErrorCategory,
    HoldfastError,
    Middleware,
    RetryOptions,
    tool,
)
from holdfast.compat import AgentBuilder
from holdfast.core.messages import ToolCall
from holdfast.middleware import ErrorTracking, RepetitionGuard, Replace, error_handling_middlewares
from holdfast.middleware.detection import looks_like_error
from holdfast.testing import Emulator, FakeClock, ScriptedModel
from holdfast.testing.emulator import HttpStatus


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
