"""A call that is refused never started, and its event says why."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from holdfast import (
    Agent,
    Middleware,
    ToolError,
    ToolFinished,
    ToolStarted,
    tool,
)
from holdfast.core.errors import ErrorInfo, Landed, ToolNotFoundError
from holdfast.core.messages import ToolCall, ToolResult
from holdfast.middleware import AfterTool, Deny, Replace
from holdfast.testing import ScriptedModel


@tool(effect="write")
def pay(amount: int) -> str:
    """Pay."""
    if amount > 100:
        raise ToolError("That is too much.")
    return "paid"


async def seen(call: ToolCall, *middlewares: Middleware[Any]) -> tuple[list[str], ErrorInfo | None]:
    agent = Agent(ScriptedModel(call, "done"), tools=[pay], middleware=middlewares)
    async with agent.stream("go") as run:
        items = [item async for item in run]
    started = [item.arguments for item in items if isinstance(item, ToolStarted)]
    (finished,) = [item for item in items if isinstance(item, ToolFinished)]
    return started, finished.error


@pytest.mark.parametrize(
    ("call", "code"),
    [
        (ToolCall("1", "play", "{}"), "unknown_tool"),
        (ToolCall("1", "pay", '{"amount": "much"}'), "invalid_arguments"),
        (ToolCall("1", "pay", '{"amount": '), "malformed_arguments"),
    ],
)
async def test_a_call_that_cannot_be_run(call: ToolCall, code: str) -> None:
    started, error = await seen(call)
    assert started == []
    assert error is not None
    assert error.landed is Landed.NO
    assert error.private == ""
    assert error.code == code


async def test_a_tool_that_says_no_had_started() -> None:
    started, error = await seen(ToolCall("1", "pay", '{"amount": 500}'))
    assert started == ['{"amount": 500}']
    assert error is not None


async def test_a_call_that_went_well_has_no_error() -> None:
    assert await seen(ToolCall("1", "pay", '{"amount": 5}')) == (['{"amount": 5}'], None)


class Refuse(Middleware):
    async def before_tool(self, context: Any) -> Deny:
        return Deny("No.")


class Instead(Middleware):
    async def before_tool(self, context: Any) -> Replace:
        return Replace("paid already")


class Less(Middleware):
    async def wrap_tool(self, context: Any, call_next: Any) -> Any:
        call = ToolCall(context.call.id, context.call.name, '{"amount": 1}')
        return await call_next(msgspec.structs.replace(context, call=call))


async def test_a_call_that_a_hook_refused_or_answered_never_started() -> None:
    call = ToolCall("1", "pay", '{"amount": 5}')
    started, error = await seen(call, Refuse())
    assert started == []
    assert error is not None
    assert error.code == "denied"
    assert await seen(call, Instead()) == ([], None)


async def test_what_starts_is_shown_as_it_runs() -> None:
    started, _ = await seen(ToolCall("1", "pay", '{"amount": 5}'), Less())
    assert started == ['{"amount": 1}']


async def test_a_tool_that_does_not_exist_is_named_in_the_log_and_given_to_hooks(
    caplog: pytest.LogCaptureFixture,
) -> None:
    given: list[BaseException | None] = []

    class See(Middleware):
        async def after_tool(self, context: AfterTool) -> None:
            given.append(context.exception)

    await seen(ToolCall("1", "play\n\x1b[2J", "{}"), See())
    (error,) = given
    assert isinstance(error, ToolNotFoundError)
    (record,) = caplog.records
    assert record.getMessage().startswith("tool play\\n\\x1b[2J (t1.i0.tool.0 of run ")
    assert record.getMessage().endswith(" does not exist, so it was not run")


async def test_a_tool_that_a_hook_provides_is_not_missing(caplog: pytest.LogCaptureFixture) -> None:
    class Provide(Middleware):
        async def wrap_tool(self, context: Any, _call_next: Any) -> ToolResult:
            return ToolResult(context.call.id, context.call.name, ())

        async def after_tool(self, context: AfterTool) -> None:
            assert context.exception is None

    assert await seen(ToolCall("1", "play", "{}"), Provide()) == ([], None)
    assert caplog.records == []


async def test_a_call_without_a_name_is_unknown() -> None:
    result = await Agent(ScriptedModel(ToolCall("1", "", "{}"), "done")).run("go")
    part: Any = result.messages[2].parts[0]
    assert part.text.startswith("Error: Function 'Unknown' was not run: there is no such function")
