"""The traces of turns that fail in many ways, on four wires, streamed and not: names, parents and attributes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import SpanKind
from tests.telemetry.recorded_spans import Recorder, draw_tree
from tests.wire.rig import MODELS, MODES, PATIENT, agent_for, forecaster, turn

from holdfast import Agent, Limits, RetryOptions, tool
from holdfast.core.errors import ErrorCategory, ErrorInfo, HoldfastError, ProviderError
from holdfast.core.messages import Reply, Text, ToolCall, Usage
from holdfast.core.questions import AnyQuestion, Approved
from holdfast.middleware import ToolPermission
from holdfast.resilience import CacheOptions, HedgeOptions, Resilience
from holdfast.telemetry import genai_names as names
from holdfast.testing import Emulator, FakeClock, ScriptedModel
from holdfast.testing.emulator import (
    CloseBeforeHeaders,
    Delay,
    DropAfter,
    EmptyChoices,
    ErrorEvent,
    ErrorResponse,
    ExtraHeaders,
    GarbageLine,
    Html200,
    HttpStatus,
    NoTerminator,
    ResetAfterHeaders,
    ResetBeforeHeaders,
    SplitEveryByte,
    TruncatedJson,
    WrongContentType,
)
from holdfast.testing.emulator.wires.emulator_wire import WIRES

CALLED = ["ok"]
"""The attempts of a call that succeeds at once."""

SCRIPTS: dict[str, tuple[Any, list[str], list[str]]] = {
    # the name: the faults, the attempts of the first call, and those of the second
    "nothing fails": ([], CALLED, CALLED),
    "odd headers": ([ExtraHeaders({"x-odd": "1"})], CALLED, CALLED),
    "wrong type of content": ([WrongContentType()], CALLED, CALLED),
    "every byte alone": ([SplitEveryByte()], CALLED, CALLED),
    "overloaded": ([HttpStatus(503)], ["503 transient no", "ok"], CALLED),
    "rate limit": ([HttpStatus(429)], ["429 rate_limit_retryable no", "ok"], CALLED),
    "server error": ([HttpStatus(500)], ["500 server_error unknown", "ok"], CALLED),
    "two failures": (
        [HttpStatus(503), HttpStatus(500)],
        ["503 transient no", "500 server_error unknown", "ok"],
        CALLED,
    ),
    "the second call": ([None, HttpStatus(500)], CALLED, ["500 server_error unknown", "ok"]),
    "both calls": (
        [HttpStatus(503), None, HttpStatus(503)],
        ["503 transient no", "ok"],
        ["503 transient no", "ok"],
    ),
    "always": ([HttpStatus(500)] * 9, ["500 server_error unknown"] * 4, []),
    "the second call always": (
        [None, *[HttpStatus(503)] * 9],
        CALLED,
        ["503 transient no"] * 4,
    ),
    "reset": ([ResetBeforeHeaders()], ["transient unknown", "ok"], CALLED),
    "reset after the headers": ([ResetAfterHeaders()], ["transient unknown", "ok"], CALLED),
    "closed": ([CloseBeforeHeaders()], ["transient unknown", "ok"], CALLED),
    "a page of a proxy": ([Html200()], ["invalid_response unknown", "ok"], CALLED),
    "garbage": ([GarbageLine()], ["invalid_response unknown", "ok"], CALLED),
    "nothing in it": ([EmptyChoices()], ["empty_response unknown", "ok"], CALLED),
}

OF_WIRES: dict[str, tuple[Any, dict[str, list[str]]]] = {
    # scripts whose traces depend on the wire and the mode: the attempts of the first call
    "dropped": (
        [DropAfter(40)],
        {"whole": ["transient unknown", "ok"], "streamed": CALLED},
    ),
    "no end": ([NoTerminator()], {"whole": CALLED, "streamed": ["transient unknown", "ok"]}),
    "cut JSON": (
        [TruncatedJson()],
        {
            "": ["invalid_response unknown", "ok"],
            "openai_chat streamed": ["transient unknown", "ok"],
            "gemini streamed": ["transient unknown", "ok"],
        },
    ),
    "an error inside": (
        [ErrorEvent()],
        {"": ["server_error unknown", "ok"], "gemini": ["500 server_error unknown", "ok"]},
    ),
    "bad key": (
        [ErrorResponse("bad_key")] * 9,
        {"": ["401 auth_error no"], "gemini": ["400 auth_error no"]},
    ),
}

ALLOWED = {
    "invoke_agent": {names.OPERATION, names.AGENT_NAME, names.CONVERSATION_ID, names.ERROR_TYPE},
    "chat": {
        *(names.OPERATION, names.PROVIDER, names.CONVERSATION_ID, names.ERROR_TYPE),
        *(names.REQUEST_MODEL, names.REQUEST_STREAM, names.REQUEST_STOP_SEQUENCES),
        *(names.RESPONSE_ID, names.RESPONSE_MODEL, names.RESPONSE_FINISH_REASONS),
        *(names.RESPONSE_TIME_TO_FIRST_CHUNK, names.USAGE_INPUT, names.USAGE_OUTPUT),
        *(names.SERVER_ADDRESS, names.SERVER_PORT, names.OUTPUT_TYPE),
        *(names.INPUT_MESSAGES, names.OUTPUT_MESSAGES, names.SYSTEM_INSTRUCTIONS),
        *(names.TOOL_DEFINITIONS, *names.USAGE_PARTS.values(), *names.SETTINGS.values()),
    },
    "execute_tool": {
        *(names.OPERATION, names.TOOL_NAME, names.TOOL_TYPE, names.TOOL_CALL_ID),
        *(names.TOOL_CALL_ARGUMENTS, names.TOOL_CALL_RESULT, names.ERROR_TYPE),
    },
    "holdfast.attempt": {names.ERROR_TYPE, names.HTTP_STATUS},
    "holdfast.question": set(),
    "holdfast.queue": set(),
}
"""The attributes of v0.1.0 that each kind of span may have; ours begin with `holdfast.`."""

REQUIRED = {
    "invoke_agent": {names.OPERATION, names.AGENT_NAME},
    "chat": {names.OPERATION, names.PROVIDER},
    "execute_tool": {names.OPERATION, names.TOOL_NAME},
}

PROVIDERS = {
    *("openai", "anthropic", "aws.bedrock", "azure.ai.openai", "azure.ai.inference", "gcp.gemini"),
    *("gcp.vertex_ai", "deepseek", "groq", "mistral_ai", "x_ai", "cohere", "perplexity"),
    *("moonshot_ai", "holdfast"),
}


def check_names(spans: Iterable[ReadableSpan]) -> None:
    """Check the kinds, the attributes and the providers of spans by the conventions."""
    for span in spans:
        kind = span.name.partition(" ")[0]
        said = dict(span.attributes or {})
        strange = {name for name in said if not name.startswith("holdfast.")} - ALLOWED[kind]
        assert not strange, f"{span.name}: {strange}"
        assert REQUIRED.get(kind, set()) <= said.keys(), span.name
        assert said.get(names.PROVIDER, "openai") in PROVIDERS
        assert (span.kind is SpanKind.CLIENT) == (kind == "chat")
        assert (names.USAGE_INPUT in said) <= (kind == "chat")
        if kind in REQUIRED:
            assert said[names.OPERATION] == kind
        scope = span.instrumentation_scope
        assert scope is not None
        assert scope.schema_url == names.SCHEMA_URL


def expect_tree(first: list[str], second: list[str]) -> str:
    """Return the tree of a turn with two tools between two calls, from the attempts of each."""
    failed = next((one[-1] for one in (first, second) if one and one[-1] != "ok"), "")
    error = "" if not failed else " !" + failed.split()[-2]
    lines = [f"invoke_agent agent status={'failed' if error else 'completed'}{error}"]
    for place, attempts in enumerate((first, second)):
        if not attempts:
            continue
        ended = "" if attempts[-1] == "ok" else error
        lines.append(f"  chat M{ended}")
        for number, attempt in enumerate(attempts, 1):
            line = f"    holdfast.attempt number={number}"
            if attempt != "ok":
                *status, category, landed = attempt.split()
                line += f" landed={landed}"
                line += f" status_code={status[0]}" if status else ""
                line += f" !{category}"
            lines.append(line)
        if place == 0 and not ended:
            lines += ["  execute_tool weather outcome=done"] * 2
    return "\n".join(lines)


async def trace_turn(wire: str, mode: str, faults: Any) -> str:
    """Return the tree of a turn against a server with faults."""
    recorder = Recorder()
    async with Emulator(forecaster, faults=faults) as emulator:
        agent = agent_for(wire, emulator, observers=[recorder.observer])
        with suppress(HoldfastError):
            await turn(agent, mode, session="s")
    check_names(recorder.spans)
    return draw_tree(recorder.spans).replace(MODELS[wire].partition(":")[2], "M")


# 4 wires, 2 modes and more than 20 scripts are as many turns over HTTP.
@pytest.mark.slow  # takes half a second or more
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("wire", WIRES)
async def test_a_turn_with_failures_has_the_trace_of_its_script(wire: str, mode: str) -> None:
    for name, (faults, first, second) in SCRIPTS.items():
        assert await trace_turn(wire, mode, faults) == expect_tree(first, second), name
    for name, (faults, attempts) in OF_WIRES.items():
        keys = (f"{wire} {mode}", wire, mode, "")
        first = next(attempts[key] for key in keys if key in attempts)
        second = CALLED if first[-1] == "ok" else []
        assert await trace_turn(wire, mode, faults) == expect_tree(first, second), name


async def test_the_quick_lane_has_one_trace() -> None:
    faults, first, second = SCRIPTS["both calls"]
    assert await trace_turn("anthropic", "streamed", faults) == expect_tree(first, second)


DOWN = ErrorInfo(category=ErrorCategory.SERVER_ERROR, safe="It is down.", status=500)


def down() -> ProviderError:
    return ProviderError("It is down.", info=DOWN)


@tool(effect="read")
def look() -> str:
    """Look."""
    return "a room"


@tool(effect="write")
def pay() -> str:
    """Pay."""
    raise RuntimeError("no money")


LOOK, PAY = ToolCall("1", "look"), ToolCall("2", "pay")


class Flaky:
    """A tool that fails once."""

    def __init__(self) -> None:
        self.called = 0

    def make(self) -> Any:
        @tool(effect="read")
        def look() -> str:
            """Look."""
            self.called += 1
            if self.called == 1:
                raise ConnectionError("gone")
            return "a room"

        return look


async def trace_scripted(agent_with: dict[str, Any], *, runs: int = 1, **of_run: Any) -> str:
    """Return the tree of turns of an agent with a scripted model."""
    recorder = Recorder()
    given: dict[str, Any] = {"clock": FakeClock(), "name": "agent", **agent_with}
    agent = Agent(observers=[recorder.observer], **given)
    for _ in range(runs):
        with suppress(HoldfastError):
            await agent.run("Go", **of_run)
    check_names(recorder.spans)
    return draw_tree(recorder.spans)


async def allow(_question: AnyQuestion) -> Approved:
    return Approved()


async def test_a_fallback_is_another_chat() -> None:
    models = ScriptedModel(down(), down(), name="first"), ScriptedModel("Hi", name="second")
    retry = RetryOptions(max_retries=1)
    tree = await trace_scripted({"model": models[0], "fallback": [models[1]], "retry": retry})
    assert tree.splitlines() == [
        "invoke_agent agent status=completed",
        "  chat first !server_error",
        "    holdfast.attempt number=1 landed=unknown status_code=500 !server_error",
        "    holdfast.attempt number=2 landed=unknown status_code=500 !server_error",
        "  chat second",
        "    holdfast.attempt number=3",
    ]


@pytest.mark.slow  # takes half a second or more
async def test_a_hedge_is_another_chat_and_the_slower_one_is_cancelled() -> None:
    recorder = Recorder()
    async with Emulator(lambda _: "Hi", faults=[Delay(5.0)]) as emulator:
        agent = Agent(
            "openai:gpt-5.2",
            base_url=emulator.base_url,
            api_key="k",
            timeouts=PATIENT,
            resilience=Resilience(hedge=HedgeOptions(delay=0.05, max_share=1.0)),
            observers=[recorder.observer],
        )
        await agent.run("Go")
    check_names(recorder.spans)
    assert draw_tree(recorder.spans).splitlines() == [
        "invoke_agent agent status=completed",
        "  chat gpt-5.2 !cancelled",
        "    holdfast.attempt number=1 !cancelled",
        "  chat gpt-5.2 hedge=True",
        "    holdfast.attempt number=1",
    ]


async def test_a_tool_that_is_tried_again_is_one_span_with_an_event() -> None:
    model = ScriptedModel(LOOK, "Hi")
    assert (await trace_scripted({"model": model, "tools": [Flaky().make()]})).splitlines() == [
        "invoke_agent agent status=completed",
        "  chat model",
        "    holdfast.attempt number=1",
        "  execute_tool look outcome=done (holdfast.retry)",
        "  chat model",
        "    holdfast.attempt number=1",
    ]


async def test_a_tool_that_fails_has_its_category() -> None:
    model = ScriptedModel(PAY, "Hi")
    tree = await trace_scripted({"model": model, "tools": [pay]})
    assert "  execute_tool pay outcome=in_doubt !unknown" in tree.splitlines()


async def test_a_tool_that_was_denied_was_not_executed() -> None:
    permission = ToolPermission(deny=["pay"])
    tree = await trace_scripted(
        {"model": ScriptedModel(PAY, "Hi"), "tools": [pay], "middleware": [permission]}
    )
    assert "execute_tool" not in tree


async def test_a_question_lasts_from_asked_to_answered() -> None:
    permission = ToolPermission(ask=["look"])
    tree = await trace_scripted(
        {
            "model": ScriptedModel(LOOK, "Hi"),
            "tools": [look],
            "middleware": [permission],
            "on_question": allow,
        }
    )
    assert tree.splitlines()[3:5] == [
        "  holdfast.question outcome=answered",
        "  execute_tool look outcome=done",
    ]


async def test_the_limit_of_a_turn_is_the_category_of_its_drive() -> None:
    tree = await trace_scripted(
        {"model": ScriptedModel(LOOK, "Hi"), "tools": [look], "limits": Limits(iterations=1)}
    )
    assert tree.splitlines()[0] == "invoke_agent agent status=limit !limit"


async def test_a_cached_reply_is_a_chat_without_attempts() -> None:
    resilience = Resilience(cache=CacheOptions())
    tree = await trace_scripted({"model": ScriptedModel("Hi"), "resilience": resilience}, runs=2)
    assert tree.splitlines()[3:] == [
        "invoke_agent agent status=completed",
        "  chat unasked=True",
    ]


async def test_an_attempt_that_is_cut_off_has_the_category_of_its_time_limit() -> None:
    async def slow(_request: object) -> str:
        await asyncio.sleep(30)
        return "Hi"

    recorder = Recorder()
    agent = Agent(
        ScriptedModel(slow),
        observers=[recorder.observer],
        resilience=Resilience(attempt_timeout=0.05),
        retry=RetryOptions(max_retries=0),
    )
    with pytest.raises(HoldfastError):
        await agent.run("Go")
    assert draw_tree(recorder.spans).splitlines()[1:] == [
        "  chat model !timeout",
        "    holdfast.attempt number=1 landed=unknown !timeout",
    ]


async def test_a_turn_that_is_cancelled_ends_all_its_spans() -> None:
    began = asyncio.Event()

    @tool(effect="read")
    async def wait() -> str:
        """Wait."""
        began.set()
        await asyncio.sleep(30)
        return ""

    recorder = Recorder()
    agent = Agent(ScriptedModel(ToolCall("1", "wait")), tools=[wait], observers=[recorder.observer])
    running = asyncio.ensure_future(agent.run("Go"))
    await began.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert draw_tree(recorder.spans).splitlines() == [
        "invoke_agent agent status=cancelled !cancelled",
        "  chat model",
        "    holdfast.attempt number=1",
        "  execute_tool wait !cancelled",
    ]


async def test_an_agent_in_a_tool_is_below_the_tool() -> None:
    scout = Agent(ScriptedModel(LOOK, "A room."), name="scout", tools=[look])
    model = ScriptedModel(ToolCall("1", "scout", '{"task": "look"}'), "Hi")
    tree = await trace_scripted({"model": model, "tools": [scout.as_tool()]})
    assert tree.splitlines() == [
        "invoke_agent agent status=completed",
        "  chat model",
        "    holdfast.attempt number=1",
        "  execute_tool scout outcome=done",
        "    invoke_agent scout status=completed",
        "      chat model",
        "        holdfast.attempt number=1",
        "      execute_tool look outcome=done",
        "      chat model",
        "        holdfast.attempt number=1",
        "  chat model",
        "    holdfast.attempt number=1",
    ]


async def test_usage_stands_on_chats_with_its_parts() -> None:
    usage = Usage(input=100, output=20, cached_input=60, cache_write=30, reasoning=5)
    reply = Reply((Text("Hi"),), usage=usage, model="m-2", id="r1")
    recorder = Recorder()
    await Agent(ScriptedModel(reply), observers=[recorder.observer]).run("Go")
    (chat,) = recorder.named("chat")
    said = dict(chat.attributes or {})
    assert said["gen_ai.usage.cache_read.input_tokens"] == 60
    assert said["gen_ai.usage.cache_write.input_tokens"] == 30
    assert said["gen_ai.usage.reasoning.output_tokens"] == 5
    assert (said["gen_ai.response.id"], said["gen_ai.response.model"]) == ("r1", "m-2")
    assert recorder.sum_usage() == usage
