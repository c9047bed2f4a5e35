"""Seed 004's service: no exception escapes, cancellation does, and the texts are the seed's."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from tests.calls.replies import STREAMS, WHOLE, call, chat, gemini, text

from holdfast.calls.call_result import CallResult, ResultKind
from holdfast.calls.send import (
    asend_message,
    asend_message_streaming,
    send_message,
    send_message_streaming,
)
from holdfast.core.errors import ErrorCategory
from holdfast.core.messages import FinishReason


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
