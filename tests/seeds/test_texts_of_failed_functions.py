"""What a model reads of a failed function, as the second document describes it, and the guards that count."""

from __future__ import annotations

import asyncio
import itertools
import logging
from typing import Any

import pytest
from tests.tool_results import results_in_history

from holdfast import (
    Agent,
    MemoryJournal,
    Message,
    Middleware,
    RetryOptions,
    ToolError,
    ToolResult,
    tool,
)
from holdfast.core.messages import Text, ToolCall
from holdfast.events import MaxConsecutiveErrorsExceeded
from holdfast.middleware import (
    ErrorFormatting,
    ErrorTracking,
    FunctionRetry,
    FunctionTimeout,
    Replace,
    looks_like_error,
)
from holdfast.testing import Emulator, FakeClock, ScriptedModel
from holdfast.testing.emulator import call as asked

GENERIC = "Error: Function 'connect' failed."
SECRET = "Connection failed: Server=prod-db.company.com;Password=hunter2"
CALL = ToolCall("1", "connect", "{}")


def failing(error: BaseException | None = None) -> Any:
    @tool(effect="read")
    def connect() -> str:
        """Connect."""
        raise error or RuntimeError(SECRET)

    return connect


def agent_of(connect: Any, *middleware: Middleware[Any], **keywords: Any) -> Agent[str]:
    script = keywords.pop("script", [CALL, "done"])
    keywords.setdefault("clock", FakeClock())
    return Agent(ScriptedModel(*script), tools=[connect], middleware=middleware, **keywords)


async def read(agent: Agent[str]) -> str:
    (text,) = results_in_history(await agent.run("go"))
    return text


@pytest.mark.parametrize("middleware", [[], [ErrorFormatting()]], ids=["none", "formatter"])
async def test_the_text_is_the_same_in_a_stream(middleware: list[Middleware[Any]]) -> None:
    async with agent_of(failing(), *middleware).stream("go") as run:
        items = [item async for item in run]
        result = await run.wait()
    assert results_in_history(result) == [GENERIC]
    assert "hunter2" not in repr(items)


ERRORS = [
    RuntimeError("no route"),
    ValueError("bad"),
    KeyError("missing"),
    TypeError("wrong"),
    OSError(5, "input"),
    ConnectionError("lost"),
    TimeoutError("late"),
    ExceptionGroup("several", [ValueError("one")]),
    UnicodeDecodeError("utf-8", b"x", 0, 1, "why"),
    AssertionError(),
]


@pytest.mark.parametrize("detailed", [True, False])
@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
async def test_both_paths_give_one_text(error: Exception, *, detailed: bool) -> None:
    by_formatter = await read(agent_of(failing(error), ErrorFormatting(detailed)))
    by_flag = await read(agent_of(failing(error), detailed_errors=detailed))
    assert by_formatter == by_flag
    assert by_flag.startswith("Error invoking function" if detailed else GENERIC)


@pytest.mark.parametrize(
    ("own", "flag", "detailed"), [(None, True, True), (False, True, False), (True, False, True)]
)
async def test_a_formatter_takes_the_flag_of_the_agent_unless_it_has_its_own(
    *, own: bool | None, flag: bool, detailed: bool
) -> None:
    agent = agent_of(failing(OSError("no disk")), ErrorFormatting(own), detailed_errors=flag)
    wanted = "Error invoking function 'connect': no disk" if detailed else GENERIC
    assert await read(agent) == wanted


THREE = [FunctionRetry(), FunctionTimeout(), ErrorFormatting()]


@pytest.mark.parametrize(
    "middleware",
    [*itertools.permutations(THREE), ()],
    ids=lambda order: "-".join(one.name for one in order) or "none",
)
async def test_the_order_of_the_three_does_not_matter(middleware: Any) -> None:
    runs = []

    @tool(effect="read")
    async def connect() -> str:
        """Connect."""
        runs.append(1)
        raise RuntimeError(SECRET)

    assert (await read(agent_of(connect, *middleware)), len(runs)) == (GENERIC, 4)


async def test_a_formatter_around_the_tool_sees_the_failure_after_all_attempts() -> None:
    seen: list[BaseException] = []

    class Own(Middleware):
        async def wrap_tool(self, context: Any, call_next: Any) -> Any:
            try:
                return await call_next(context)
            except RuntimeError as error:
                seen.append(error)
                words = Text(f"{context.tool}: {type(error).__name__}")
                return ToolResult(context.call.id, context.tool, (words,), is_error=True)

    cause = OSError("disk")
    error = RuntimeError("no")
    error.__cause__ = cause
    clock = FakeClock()
    assert await read(agent_of(failing(error), Own(), clock=clock)) == "connect: RuntimeError"
    assert len(clock.sleeps) == 3
    assert seen == [error]
    assert seen[0].__cause__ is cause


async def test_no_item_event_message_or_line_of_the_log_has_the_secret(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG, "holdfast")
    journal = MemoryJournal()
    agent = agent_of(failing(), journal=journal)
    async with agent.stream("go", session="s") as run:
        items = [item async for item in run]
        result = await run.wait()
    kept = [*items, *await journal.read("s"), result, *result.messages]
    assert "hunter2" not in repr(kept)
    assert "hunter2" not in caplog.text
    assert "Connection failed: Server=prod-db.company.com;Password=[redacted]" in caplog.text


async def test_parallel_and_synchronous_tools_have_the_same_text() -> None:
    pair = (CALL, ToolCall("2", "connect", "{}"))
    result = await agent_of(failing(), script=[pair, "done"]).run("go")
    assert results_in_history(result) == [GENERIC, GENERIC]


async def test_a_tool_that_times_out_has_the_same_text() -> None:
    @tool(effect="read")
    async def connect() -> str:
        """Connect."""
        await asyncio.Event().wait()
        return ""

    assert await read(agent_of(connect, tool_timeout=0.05)) == GENERIC


async def test_the_detailed_text_is_that_of_the_last_attempt() -> None:
    words = iter(["first", "second", "third", "fourth"])

    @tool(effect="read")
    def connect() -> str:
        """Connect."""
        raise RuntimeError(next(words))

    text = await read(agent_of(connect, detailed_errors=True))
    assert text == "Error invoking function 'connect': fourth"


@pytest.mark.parametrize("detailed", [True, False])
async def test_an_error_for_the_model_is_shown_as_it_is_and_not_retried(*, detailed: bool) -> None:
    clock = FakeClock()
    agent = agent_of(failing(ToolError("Try Monday.")), detailed_errors=detailed, clock=clock)
    assert (await read(agent), clock.sleeps) == ("Try Monday.", [])


async def test_the_notice_of_a_guard_names_the_agent_and_the_time() -> None:
    agent = agent_of(failing(), ErrorTracking(2), script=[CALL] * 3, name="Ada")
    async with agent.stream("go") as run:
        items = [item async for item in run]
    (told,) = [item for item in items if isinstance(item, MaxConsecutiveErrorsExceeded)]
    assert (told.agent, told.consecutive_errors, told.iteration) == ("Ada", 2, 1)
    assert told.at > 0


@pytest.mark.parametrize(
    "text",
    [
        "Error: no",
        "FAILED: no",
        "an exception occurred",
        "Unhandled exception",
        "exception was thrown",
        "Rate limit exceeded",
        "you are rate limited",
        "quota exceeded",
        "quota reached",
    ],
)
def test_results_that_read_like_errors_are_found_on_request(text: str) -> None:
    assert looks_like_error(ToolResult("1", "f", (Text(text),)))
    assert not looks_like_error(ToolResult("1", "f", (Text("All is well."),)))


async def test_a_formatter_that_gives_a_whole_result_decides_whether_it_failed() -> None:
    class Own(Middleware):
        def __init__(self, *, is_error: bool) -> None:
            self.is_error = is_error

        async def after_tool(self, context: Any) -> Replace:
            words = (Text("sorry"),)
            return Replace(ToolResult(context.call.id, context.tool, words, is_error=self.is_error))

    script = [CALL, CALL, "done"]
    kept = agent_of(failing(), Own(is_error=True), ErrorTracking(2), script=script)
    assert (await kept.run("go")).status == "stopped"
    turned = agent_of(failing(), Own(is_error=False), ErrorTracking(2), script=script)
    assert (await turned.run("go")).status == "completed"


class Throws(Middleware):
    async def wrap_tool(self, context: Any, call_next: Any) -> Any:
        raise RuntimeError(SECRET)


class Passes(Middleware):
    async def after_tool(self, context: Any) -> None:
        assert context.exception is not None


@pytest.mark.parametrize(
    "middleware",
    [[ErrorFormatting()], [], [Passes()], [Throws()]],
    ids=["formatter", "none", "another", "one that raises"],
)
async def test_nothing_of_the_secret_is_sent_to_the_provider(
    middleware: list[Middleware[Any]],
) -> None:
    replies = [asked("connect", id="c1"), "done"]
    async with Emulator(replies) as provider:
        agent = Agent(
            "openai:demo",
            base_url=provider.base_url,
            api_key="k",
            tools=[failing()],
            middleware=middleware,
            retry=RetryOptions(max_retries=0),
        )
        async with agent.stream("go") as run:
            assert "".join([text async for text in run.text()]) == "done"
        bodies = [str(request.body) for request in provider.requests]
    assert len(bodies) == 2
    assert GENERIC.replace("'", "\\'") in bodies[1] or GENERIC in bodies[1]
    assert "hunter2" not in "".join(bodies)


def test_the_types_that_a_formatter_needs_are_public() -> None:
    import holdfast

    assert {"ToolResult", "Message"} <= set(holdfast.__all__)
    assert Message is holdfast.Message
