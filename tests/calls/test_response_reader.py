"""Response shapes of the user: whole and streamed, around the strategies, with the retry functions, and wrong ones."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.resilience.operations import Bench

from holdfast.calls import (
    ResponseHandler,
    ResponseReader,
    ResultKind,
    asend_message_streaming,
    resilient,
    send_message,
    send_message_streaming,
)
from holdfast.compat import CallOptions, retry_ai_call_with_parsing
from holdfast.errors import ConfigurationError


class Reply:
    """A response of a library that nobody knows."""

    def __init__(self, said: str, finish: str | None = "stop", call: str = "") -> None:
        self.said, self.finish, self.call = said, finish, call


class Part(Reply):
    """A chunk of its stream."""


def read_reply(response: object) -> dict[str, object] | None:
    if not isinstance(response, Reply):
        return None
    message: dict[str, object] = {"content": response.said}
    if response.call:
        function = {"name": response.call, "arguments": "{}"}
        message["tool_calls"] = [{"id": "1", "index": 0, "type": "function", "function": function}]
    field = "delta" if isinstance(response, Part) else "message"
    return {"choices": [{field: message, "finish_reason": response.finish}]}


READER = ResponseReader(shapes=[read_reply])


def test_a_whole_response_is_read_with_its_calls_and_its_end() -> None:
    assert send_message(lambda: Reply("Hi"), reader=READER).text == "Hi"
    assert send_message(lambda: Reply("Hi", "length"), reader=READER).kind is ResultKind.TRUNCATED
    calling = send_message(lambda: Reply("", "tool_calls", "look"), reader=READER)
    assert [call.name for call in calling.tool_calls] == ["look"]
    ResponseHandler(reader=READER).validate_response(Reply("Hi"))


async def test_a_stream_is_read_chunk_by_chunk() -> None:
    def stream() -> Iterator[Part]:
        yield Part("Hel", None)
        yield Part("lo")

    assert send_message_streaming(stream, reader=READER).text == "Hello"

    async def astream() -> Any:
        for part in stream():
            yield part

    assert (await asend_message_streaming(astream, reader=READER)).text == "Hello"
    cut = send_message_streaming(lambda: iter([Part("Hel", None)]), reader=READER)
    assert (cut.kind, cut.partial_text) == (ResultKind.UNTERMINATED, "Hel")


def test_the_functions_that_repeat_read_it_too() -> None:
    replies = [Reply('{"agent_final_response": "Hi", "routine_number": 2}')]
    options = CallOptions(reader=READER)
    assert retry_ai_call_with_parsing(replies.pop, options=options)[2] == "Hi"


def test_objects_that_no_shape_knows_are_read_as_before() -> None:
    known = {"choices": [{"message": {"content": "Hi"}, "finish_reason": "stop"}]}
    assert send_message(lambda: known, reader=READER).text == "Hi"
    assert send_message(object, reader=READER).kind is ResultKind.INVALID
    assert send_message(lambda: Reply("Hi")).kind is ResultKind.INVALID


def test_shapes_are_asked_in_their_order_until_one_knows_the_object() -> None:
    asked: list[str] = []

    def shout(response: object) -> dict[str, object] | None:
        asked.append("shout")
        found = read_reply(response)
        return found and {"choices": [{"message": {"content": "HI"}, "finish_reason": "stop"}]}

    shapes = [shout, read_reply]
    reader = ResponseReader(shapes=shapes)
    shapes.clear()
    assert send_message(lambda: Reply("Hi"), reader=reader).text == "HI"
    assert asked == ["shout"]


def test_the_reader_of_a_guard_makes_objects_known_and_serves_who_reads_them() -> None:
    replies = [Reply(""), Reply("Hi"), Reply(""), Reply("Ho"), Reply("")]
    ask = resilient(env=Bench().env, reader=READER)(lambda: replies.pop(0))
    assert ask().said == "Hi"
    result = send_message(ask)
    assert (result.text, result.attempts) == ("Ho", 2)
    assert resilient(env=Bench().env)(lambda: replies.pop(0))().said == ""


@pytest.mark.parametrize("wrong", [Reply, 5, None, "shape"])
def test_what_is_no_function_is_refused(wrong: Any) -> None:
    with pytest.raises(
        ConfigurationError, match=r"reader\.shapes\[0\]: (must be|is the class Reply)"
    ):
        ResponseReader(shapes=[wrong])


def test_a_shape_that_fails_or_returns_something_else_is_a_failed_call() -> None:
    def broken(response: object) -> Any:
        return "text" if isinstance(response, list) else 1 / 0

    reader = ResponseReader(shapes=[broken])
    raised = send_message(lambda: Reply("Hi"), reader=reader)
    returned = send_message(lambda: [1], reader=reader)
    assert isinstance(raised.error, ZeroDivisionError)
    assert (raised.ok, returned.ok) == (False, False)
    assert "broken returned str" in str(returned.error)
