"""Seed 004's service: no exception escapes, cancellation does, and the texts are the seed's."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pytest
from tests.calls.replies import STREAMS, WHOLE, call, chat, gemini, text

from holdfast import Agent, ConfigurationError, Middleware
from holdfast.calls.call_result import CallResult, ResultKind
from holdfast.calls.send import (
    asend_message,
    asend_message_streaming,
    send_message,
    send_message_streaming,
)
from holdfast.compat import (
    AgentResponse,
    async_retry_ai_call_with_parsing,
    retry_ai_call_with_parsing,
    retry_rereg_ai_call_with_parsing,
)
from holdfast.core.errors import ErrorCategory
from holdfast.core.messages import FinishReason
from holdfast.middleware import Stop
from holdfast.testing import ScriptedModel


def failing(error: Exception) -> Any:
    def stream() -> Iterator[Any]:
        yield gemini(text("Some text"), finish=None)
        raise error

    return stream


def test_whole_and_streamed_say_the_same() -> None:
    for wire in WHOLE:
        whole = send_message(WHOLE.get, wire)
        streamed = send_message_streaming(STREAMS.get, wire)
        assert whole.ok
        assert streamed.ok
        assert str(whole) == str(streamed) == "Hello, world"
        assert whole.finish_reason == streamed.finish_reason == FinishReason.STOP


async def test_the_asynchronous_pair_says_the_same() -> None:
    async def stream(wire: str) -> AsyncIterator[Any]:
        for chunk in STREAMS[wire]:
            yield chunk

    async def answer(wire: str) -> Any:
        return WHOLE[wire]

    async def opened(wire: str) -> AsyncIterator[Any]:
        return stream(wire)

    for wire in WHOLE:
        assert (await asend_message(answer, wire)).text == "Hello, world"
        assert (await asend_message(WHOLE.get, wire)).text == "Hello, world"
        assert (await asend_message_streaming(stream, wire)).text == "Hello, world"
        assert (await asend_message_streaming(opened, wire)).text == "Hello, world"


def test_the_statuses_of_a_good_stream() -> None:
    said: list[str] = []
    send_message_streaming(lambda: [gemini(text("Hi"))], status_callback=said.append)
    assert said == ["⏳ Sending message to AI...", "💭 Hi"]


FAILURES = [
    (lambda: None, "⚠️ Empty response: no response stream received"),
    (list, "⚠️ Empty response: no text or tool activity after 0 chunks"),
    (
        lambda: 7,
        "❌ Invalid response structure: expected stream of chunks, got int",
    ),
    (failing(AttributeError("Missing attribute")), "❌ Error: Missing attribute"),
]


@pytest.mark.parametrize(("make", "status"), FAILURES)
def test_the_status_of_a_failure(make: Any, status: str) -> None:
    said: list[str] = []
    outcome = send_message_streaming(make, status_callback=said.append)
    assert not outcome.ok
    assert said[0] == "⏳ Sending message to AI..."
    assert said[-1] == status
    assert said.count(status) == 1


async def cut_stream() -> AsyncIterator[Any]:
    yield gemini(text("Some text"), finish=None)
    raise AttributeError("Missing attribute")


async def empty_stream() -> AsyncIterator[Any]:
    for chunk in ():
        yield chunk


@pytest.mark.parametrize(
    ("make", "status"),
    [
        (lambda: None, "⚠️ Empty response: no response stream received"),
        (empty_stream, "⚠️ Empty response: no text or tool activity after 0 chunks"),
        (lambda: 7, "❌ Invalid response structure: expected async stream of chunks, got int"),
        (cut_stream, "❌ Error: Missing attribute"),
    ],
)
async def test_the_status_of_a_failure_with_an_asynchronous_client(make: Any, status: str) -> None:
    said: list[str] = []
    outcome = await asend_message_streaming(make, status_callback=said.append)
    assert not outcome.ok
    assert (said[0], said[-1]) == ("⏳ Sending message to AI...", status)
    assert said.count(status) == 1


def test_the_text_for_an_empty_response() -> None:
    assert str(send_message(gemini)) == (
        "The AI returned an empty response. This can happen if:\n"
        "• The request was unclear or too complex\n"
        "• The model encountered an internal error\n"
        "• Rate limiting or quota issues\n\n"
        "Please try:\n"
        "• Rephrasing your request more clearly\n"
        "• Breaking complex requests into smaller steps\n"
        "\nTechnical details: no text in response"
    )


def test_the_text_for_an_invalid_response() -> None:
    outcome = send_message(object)
    assert outcome.kind is ResultKind.INVALID
    assert str(outcome) == (
        "Received an unexpected response format from the AI.\n"
        "Expected: candidates attribute\n"
        "Got: object\n\n"
        "This may be a temporary API issue. Please try again."
    )


def test_the_text_for_a_connection_that_failed_is_the_seeds() -> None:
    def unreachable() -> None:
        raise ConnectionRefusedError(111, "Connection refused")

    outcome = send_message(unreachable)
    assert str(outcome) == (
        "An error occurred while communicating with the AI:\n"
        "ConnectionRefusedError: [Errno 111] Connection refused\n\n"
        "Please check your internet connection and try again."
    )
    assert outcome.category is ErrorCategory.TRANSIENT


def test_an_exception_in_the_middle_of_a_stream_keeps_what_came() -> None:
    outcome = send_message_streaming(failing(AttributeError("Missing attribute")))
    assert (outcome.kind, outcome.partial_text) == (ResultKind.ERROR, "Some text")
    assert "error occurred" in str(outcome).lower()
    assert "AttributeError: Missing attribute" in str(outcome)
    assert str(outcome).endswith("The part of the answer that was received before:\nSome text")


@pytest.mark.parametrize(
    "error",
    [
        ValueError("bad"),
        PermissionError("no"),
        RuntimeError("Error code: 401 - bad key"),
        KeyError(),
    ],
)
def test_other_errors_do_not_blame_the_internet_connection(error: Exception) -> None:
    def call_that_fails() -> None:
        raise error

    outcome = send_message(call_that_fails)
    assert not outcome.ok
    assert "internet" not in str(outcome)
    assert type(error).__name__ in str(outcome)


def test_secrets_in_an_exception_are_not_shown() -> None:
    said: list[str] = []
    error = RuntimeError("bad key sk-1234567890abcdef")
    outcome = send_message_streaming(failing(error), status_callback=said.append)
    assert "sk-1234567890" not in str(outcome) + said[-1] + repr(outcome.info)


def test_a_blocked_prompt_gets_advice_that_fits() -> None:
    blocked = send_message(lambda: {"promptFeedback": {"blockReason": "SAFETY"}})
    assert (blocked.kind, blocked.category) == (
        ResultKind.BLOCKED,
        ErrorCategory.CONTENT_FILTERED,
    )
    assert "safety filter" in str(blocked)
    assert "Sending the same request again will not help" in str(blocked)
    assert not blocked.category.is_retryable
    cut = send_message(lambda: chat("Half", "length"))
    assert (cut.kind, cut.partial_text, cut.text) == (ResultKind.TRUNCATED, "Half", "")
    assert "output limit" in str(cut)
    refused = send_message(lambda: chat(None, refusal="I cannot help"))
    assert (refused.kind, "declined" in str(refused)) == (ResultKind.REFUSED, True)


def test_kinds_say_whether_a_retry_makes_sense() -> None:
    empty = send_message(gemini)
    assert empty.category is not None
    assert empty.category.is_retryable


def test_the_calls_of_a_whole_reply_are_an_answer() -> None:
    outcome = send_message(lambda: gemini(call("f", x=1)))
    assert (outcome.ok, outcome.kind, outcome.text) == (True, ResultKind.TOOLS, "")
    assert str(outcome) == "Task completed using available tools."
    assert [(one.name, one.arguments) for one in outcome.tool_calls] == [("f", '{"x":1}')]
    streamed = send_message_streaming(lambda: [gemini(call("f", x=1))])
    assert str(streamed) == "Analysis complete using available tools."


def test_a_response_where_a_stream_was_wanted_is_read_whole() -> None:
    assert send_message_streaming(lambda: chat("Hi")).text == "Hi"


def test_a_call_that_must_be_awaited_is_refused_by_the_blocking_pair() -> None:
    async def answer() -> None: ...

    for outcome in (send_message(answer), send_message_streaming(answer)):
        assert outcome.kind is ResultKind.INVALID
        assert "coroutine" in str(outcome)


async def test_cancellation_passes_and_closes_the_stream() -> None:
    started, closed = asyncio.Event(), asyncio.Event()

    async def stream() -> AsyncIterator[Any]:
        try:
            yield gemini(text("Half"), finish=None)
            started.set()
            await asyncio.Event().wait()
        finally:
            closed.set()

    task = asyncio.ensure_future(asend_message_streaming(stream))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert closed.is_set()


async def test_cancellation_of_a_whole_call_passes() -> None:
    started = asyncio.Event()

    async def answer() -> None:
        started.set()
        await asyncio.Event().wait()

    task = asyncio.ensure_future(asend_message(answer))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, asyncio.CancelledError])
def test_exits_and_interrupts_are_raised(kind: type[BaseException]) -> None:
    def stopped() -> None:
        raise kind

    with pytest.raises(kind):
        send_message(stopped)
    with pytest.raises(kind):
        send_message_streaming(stopped)


def test_the_result_is_a_value() -> None:
    outcome = send_message(lambda: chat("Hi"))
    assert isinstance(outcome, CallResult)
    assert (outcome.usage.input, outcome.usage.output) == (3, 2)
    assert outcome.reply is not None
    assert outcome.reply.model == "gpt"
    assert (outcome.error, outcome.info, outcome.category) == (None, None, None)


# Objects of any class, results of agents, and pages that are no answer.


class WithProperty:
    @property
    def output_text(self) -> str:
        return "read"


class WithCachedProperty:
    @cached_property
    def output_text(self) -> str:
        return "read"


class WithClassAttribute:
    output_text = "read"


class WithSlots:
    __slots__ = ("output_text",)

    def __init__(self) -> None:
        self.output_text = "read"


@dataclass(slots=True)
class Part:
    text: str


@dataclass(slots=True)
class Content:
    parts: list[Part]


@dataclass(slots=True)
class Candidate:
    content: Content


@dataclass(slots=True)
class Response:
    candidates: list[Candidate]


class Raises:
    @property
    def candidates(self) -> object:
        raise ValueError("no candidates yet")


@pytest.mark.parametrize(
    "kind",
    [WithProperty, WithCachedProperty, WithClassAttribute, WithSlots],
    ids=lambda k: k.__name__,
)
def test_the_fields_of_any_class_are_read(kind: type) -> None:
    assert retry_rereg_ai_call_with_parsing(kind, max_retries=0)[2] == "read"


def test_a_dataclass_with_slots_is_read_to_its_depth() -> None:
    response = Response([Candidate(Content([Part("deep")]))])
    assert str(send_message(lambda: response)) == "deep"


def test_a_property_that_raises_is_an_error_of_the_call() -> None:
    result = send_message(Raises)
    assert not result.ok
    assert isinstance(result.error, ValueError)


def test_the_result_of_an_agent_is_read() -> None:
    agent = Agent(ScriptedModel('{"agent_final_response": "Hi", "routine_number": 2}'))
    assert retry_ai_call_with_parsing(agent.run_sync, "go", max_retries=0)[2:] == ("Hi", 2)
    assert str(send_message(Agent(ScriptedModel("hello")).run_sync, "go")) == "hello"
    typed: Any = Agent(
        ScriptedModel('{"agent_final_response": "Hi", "routine_number": 2}'), output=AgentResponse
    )
    assert retry_ai_call_with_parsing(typed.run_sync, "go", max_retries=0)[2:] == ("Hi", 2)


class Guard(Middleware):
    async def before_iteration(self, context: Any) -> Stop:
        return Stop("why", "Stopped by a guard.")


def test_the_words_of_a_guard_are_no_answer() -> None:
    agent = Agent(ScriptedModel("never"), middleware=[Guard()])
    assert not retry_ai_call_with_parsing(agent.run_sync, "go", max_retries=0)[0]
    result = send_message(agent.run_sync, "go")
    assert (result.ok, result.text) == (False, "")


@pytest.mark.parametrize("page", ["<!DOCTYPE html><p>502", "\n <html>502</html>"])
def test_a_page_of_html_is_no_answer(page: str) -> None:
    answers = iter([page, "Hello"])
    assert retry_ai_call_with_parsing(lambda: next(answers), delay=0)[2] == "Hello"
    assert not retry_ai_call_with_parsing(lambda: page, max_retries=0)[0]
    assert not send_message(lambda: page).ok


async def test_the_async_form_runs_a_blocking_function_in_a_thread() -> None:
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await asyncio.sleep(0.01)
            ticks += 1

    def block() -> str:
        time.sleep(0.3)
        return "x"

    ticking = asyncio.create_task(tick())
    found = await async_retry_ai_call_with_parsing(block, max_retries=0)
    ticking.cancel()
    assert found[2] == "x"
    assert ticks >= 3


async def test_the_sync_form_is_refused_where_a_loop_runs() -> None:
    with pytest.raises(ConfigurationError, match="running event loop"):
        retry_ai_call_with_parsing(lambda: "x")


def test_an_exception_that_becomes_a_result_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    key = "sk-" + "abcdefghijklmnop" * 2

    def broken() -> None:
        raise ValueError(f"no route, api_key={key}")

    for send in (send_message, send_message_streaming):
        caplog.clear()
        send(broken)
        (record,) = caplog.records
        assert record.levelno == logging.ERROR
        assert "ValueError: no route" in caplog.text
        assert "in broken" in caplog.text
        assert key not in caplog.text


def test_equal_statuses_in_a_row_are_shown() -> None:
    def chunks() -> Any:
        for _ in range(2):
            call = {"functionCall": {"name": "search", "args": {}}}
            yield {"candidates": [{"content": {"parts": [call]}}]}
        yield {"candidates": [{"content": {"parts": []}, "finishReason": "STOP"}]}

    shown: list[str] = []
    send_message_streaming(chunks, status_callback=shown.append)
    assert shown.count("🔧 Using search...") == 2
