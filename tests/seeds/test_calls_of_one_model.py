"""Calls of one model with the seeds' functions: retries by table, memory, a chat, errors, budgets."""

from __future__ import annotations

import asyncio
import gc
import statistics
import time
import weakref
from collections.abc import Callable
from typing import Any
from unittest.mock import Mock

import pytest
from tests.seeds.sdks import vendor_call

from holdfast import errors
from holdfast.calls import (
    ResponseChunk,
    ResponseHandler,
    asend_message,
    asend_message_streaming,
    resilient,
    send_message,
)
from holdfast.calls import send_message_streaming as send_streaming
from holdfast.compat import CallOptions, get_retry_config, retry_ai_call_with_parsing
from holdfast.resilience import CallMetrics, MetricsRecorder
from holdfast.testing import Emulator
from holdfast.testing.emulator import HttpStatus

GOOD = '{"agent_final_response": "Hello", "routine_number": 2}'


def always_failing() -> None:
    raise OSError("gone")


@pytest.mark.parametrize(
    ("row", "waits"),
    [
        ("photo_upload", [2.0, 4.0, 8.0, 16.0, 32.0]),
        ("payment", [0.5, 1.0]),
        ("x", [1.0, 2.0, 4.0]),
    ],
)
def test_a_row_of_the_table_gives_the_arguments_of_a_call(row: str, waits: list[float]) -> None:
    slept: list[float] = []
    options = CallOptions(sleep=slept.append)
    retry_ai_call_with_parsing(always_failing, options=options, **get_retry_config(row))
    assert slept == waits


async def test_the_wait_that_a_provider_asks_for_is_waited() -> None:
    slept: list[float] = []
    options = CallOptions(by_category=True, sleep=slept.append)
    fault = HttpStatus(429, {"retry-after-ms": "7000"})
    async with (
        Emulator([GOOD], faults=[fault]) as provider,
        vendor_call("openai_responses", provider) as ask,
    ):
        answer = await asyncio.to_thread(retry_ai_call_with_parsing, ask, options=options)
    assert (answer[0], slept) == (True, [7.0])


async def test_a_wrong_key_is_given_up_at_once() -> None:
    slept: list[float] = []
    options = CallOptions(by_category=True, sleep=slept.append)
    async with Emulator([GOOD], faults=[HttpStatus(401)]) as provider:
        async with vendor_call("openai_responses", provider) as ask:
            answer = await asyncio.to_thread(retry_ai_call_with_parsing, ask, options=options)
        assert len(provider.requests) == 1
    assert (answer[0], slept) == (False, [])


@pytest.mark.slow  # takes half a second or more
def test_the_responses_of_failed_attempts_are_not_kept() -> None:
    class Response:
        """Has no text."""

    seen: list[weakref.ref[Response]] = []

    def call() -> object:
        if len(seen) == 2:
            return GOOD
        response = Response()
        seen.append(weakref.ref(response))
        return response

    options = CallOptions(sleep=lambda _: None)
    answer = retry_ai_call_with_parsing(call, options=options)
    gc.collect()
    assert answer[0]
    assert [one() for one in seen] == [None, None]


@pytest.mark.filterwarnings("ignore:Inheritance class:DeprecationWarning")
async def test_a_chat_of_google_is_sent_to() -> None:
    genai = pytest.importorskip("google.genai")
    shown: list[str] = []
    async with Emulator(["One.", "Two.", "Three.", "Four."]) as provider:
        base = provider.base_url_for("gemini").removesuffix("/v1beta")
        client = genai.Client(api_key="any", http_options=genai.types.HttpOptions(base_url=base))
        chat = client.chats.create(model="demo")
        first = await asyncio.to_thread(send_message, chat.send_message, "Hi")
        second = await asyncio.to_thread(send_streaming, chat.send_message_stream, "And?")
        client.close()
        later = client.aio.chats.create(model="demo")
        third = await asend_message(later.send_message, "So?")
        fourth = await asend_message_streaming(
            later.send_message_stream, "Well?", status_callback=shown.append
        )
        await client.aio.aclose()
        questions = [
            [part["text"] for content in one.body["contents"] for part in content["parts"]]
            for one in provider.requests
        ]
    answers = (first, second, third, fourth)
    assert [(one.ok, str(one)) for one in answers] == [
        (True, "One."),
        (True, "Two."),
        (True, "Three."),
        (True, "Four."),
    ]
    assert questions == [  # each chat has kept what it got, also from a stream
        ["Hi"],
        ["Hi", "One.", "And?"],
        ["So?"],
        ["So?", "Three.", "Well?"],
    ]
    assert shown[0] == "⏳ Sending message to AI..."
    assert shown[-1] == "💭 Four."
    assert str(first).lower() == "one."


ERRORS: list[tuple[Callable[[], Exception], type[Exception], str]] = [
    (lambda: errors.EmptyResponseError("why"), errors.ResponseError, "Empty response: why"),
    (
        lambda: errors.ResponseValidationError("a", "b"),
        errors.ResponseError,
        "Invalid response structure: expected a, got b",
    ),
    (
        lambda: errors.ToolExecutionError("t", "no"),
        errors.ResponseError,
        "Tool 't' failed: no",
    ),
    (lambda: errors.NoCandidatesError("why"), errors.EmptyResponseError, "why"),
    (lambda: errors.NoTextError("why"), errors.EmptyResponseError, "why"),
    (lambda: errors.NoToolActivityError("why"), errors.EmptyResponseError, "why"),
    (lambda: errors.MissingAttributeError("a", "b"), errors.ResponseValidationError, "a"),
    (lambda: errors.InvalidStructureError("a", "b"), errors.ResponseValidationError, "a"),
    (lambda: errors.UnexpectedTypeError("a", "b"), errors.ResponseValidationError, "a"),
    (lambda: errors.ToolNotFoundError("t", "no"), errors.ToolExecutionError, "t"),
    (lambda: errors.ToolFailedError("t", "no"), errors.ToolExecutionError, "t"),
]


@pytest.mark.parametrize(
    ("make", "parent", "text"), ERRORS, ids=[type(row[0]()).__name__ for row in ERRORS]
)
def test_an_error_stands_under_its_parent_and_has_its_words(
    make: Callable[[], Exception], parent: type[Exception], text: str
) -> None:
    error = make()
    assert isinstance(error, parent)
    assert text in str(error)


def test_the_errors_keep_what_they_were_given() -> None:
    validation = errors.ResponseValidationError("a", "b")
    assert (validation.expected, validation.got) == ("a", "b")
    assert errors.EmptyResponseError("why").reason == "why"
    tool = errors.ToolExecutionError("t", "no")
    assert (tool.tool_name, tool.error) == ("t", "no")


def test_the_call_of_a_sent_message_can_be_counted() -> None:
    metrics = CallMetrics()
    counted = resilient(MetricsRecorder(metrics, "chat"))(
        lambda: chunk_of("Hi", finishReason="STOP")
    )
    assert send_message(counted).text == "Hi"
    seen = metrics.snapshot("chat")
    assert (seen.total_calls, seen.successful_calls) == (1, 1)


def test_a_handler_and_a_chunk_begin_empty() -> None:
    handler = ResponseHandler()
    assert (handler.text_buffer, handler.tool_activity, handler.chunk_count) == ([], False, 0)
    assert (handler.last_tool_name, handler.status_callback) == (None, None)
    one, two = ResponseChunk("a", has_tool_call=False), ResponseChunk("b", has_tool_call=False)
    assert (one.tool_name, one.metadata) == (None, {})
    assert one.metadata is not two.metadata


def test_text_and_a_call_in_one_chunk_are_both_read() -> None:
    parts = [{"text": "I look."}, {"function_call": {"name": "look", "args": {}}}]
    chunk = ResponseHandler().process_chunk({"candidates": [{"content": {"parts": parts}}]})
    assert chunk is not None
    assert (chunk.text, chunk.has_tool_call, chunk.tool_name) == ("I look.", True, "look")


def test_mocks_are_read_as_their_values_say() -> None:
    handler = ResponseHandler()
    spoken = Mock(text="Hi", function_call=None)
    called = Mock(text=None, function_call=Mock(args={}))
    called.function_call.name = "look"
    for part in (spoken, called):
        candidate = Mock(content=Mock(parts=[part]), finish_reason=None)
        handler.process_chunk(Mock(candidates=[candidate], text=None))
    assert handler.text_buffer == ["Hi"]
    assert handler.last_tool_name == "look"


def chunk_of(text: str, **more: Any) -> dict[str, Any]:
    return {"candidates": [{"content": {"parts": [{"text": text}]}, **more}]}


def milliseconds(work: Callable[[], object]) -> float:
    def once() -> float:
        begun = time.perf_counter()
        work()
        return (time.perf_counter() - begun) * 1000

    return statistics.median(once() for _ in range(50))


def test_the_budgets_of_the_document_hold() -> None:
    whole = chunk_of("Porto is in Portugal.", finishReason="STOP")
    assert milliseconds(lambda: ResponseHandler().validate_response(whole)) < 1
    handler = ResponseHandler(lambda _: None)
    for _ in range(2000):
        handler.process_chunk(chunk_of("word "))
    assert milliseconds(lambda: handler.process_chunk(chunk_of("word "))) < 0.5
    chunks = [*(chunk_of("word ") for _ in range(19)), whole]
    assert milliseconds(lambda: ResponseHandler().process_response(whole)) < 5
    assert milliseconds(lambda: ResponseHandler().handle(iter(chunks))) < 5
