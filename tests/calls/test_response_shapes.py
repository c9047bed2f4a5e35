"""Response shapes of the user: whole and streamed, with the retry functions, wrong and withdrawn."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from holdfast.calls import (
    ResponseHandler,
    ResultKind,
    asend_message_streaming,
    register_response_shape,
    send_message,
    send_message_streaming,
    unregister_response_shape,
)
from holdfast.compat import retry_ai_call_with_parsing
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


@pytest.fixture(autouse=True)
def _shape() -> Iterator[None]:
    register_response_shape(read_reply)
    yield
    unregister_response_shape(read_reply)


def test_a_whole_response_is_read_with_its_calls_and_its_end() -> None:
    assert send_message(lambda: Reply("Hi")).text == "Hi"
    assert send_message(lambda: Reply("Hi", "length")).kind is ResultKind.TRUNCATED
    calling = send_message(lambda: Reply("", "tool_calls", "look"))
    assert [call.name for call in calling.tool_calls] == ["look"]
    ResponseHandler().validate_response(Reply("Hi"))


async def test_a_stream_is_read_chunk_by_chunk() -> None:
    def stream() -> Iterator[Part]:
        yield Part("Hel", None)
        yield Part("lo")

    assert send_message_streaming(stream).text == "Hello"

    async def astream() -> Any:
        for part in stream():
            yield part

    assert (await asend_message_streaming(astream)).text == "Hello"
    cut = send_message_streaming(lambda: iter([Part("Hel", None)]))
    assert (cut.kind, cut.partial_text) == (ResultKind.UNTERMINATED, "Hel")


def test_the_functions_that_repeat_read_it_too() -> None:
    replies = [Reply('{"agent_final_response": "Hi", "routine_number": 2}')]
    assert retry_ai_call_with_parsing(replies.pop)[2] == "Hi"


def test_objects_that_no_shape_knows_are_read_as_before() -> None:
    known = {"choices": [{"message": {"content": "Hi"}, "finish_reason": "stop"}]}
    assert send_message(lambda: known).text == "Hi"
    assert send_message(object).kind is ResultKind.INVALID


def test_the_latest_shape_is_asked_first_and_each_is_asked_once() -> None:
    asked: list[str] = []

    def shout(response: object) -> dict[str, object] | None:
        asked.append("shout")
        found = read_reply(response)
        return found and {"choices": [{"message": {"content": "HI"}, "finish_reason": "stop"}]}

    for _ in range(2):
        assert register_response_shape(shout) is shout
    assert send_message(lambda: Reply("Hi")).text == "HI"
    assert asked == ["shout"]
    unregister_response_shape(shout)
    unregister_response_shape(shout)
    assert send_message(lambda: Reply("Hi")).text == "Hi"


@pytest.mark.parametrize("wrong", [Reply, 5, None, "shape"])
def test_what_is_no_function_is_refused(wrong: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"shape: (must be|is the class Reply)"):
        register_response_shape(wrong)


def test_a_shape_that_fails_or_returns_something_else_is_a_failed_call() -> None:
    def broken(response: object) -> Any:
        return "text" if isinstance(response, list) else 1 / 0

    register_response_shape(broken)
    try:
        raised = send_message(lambda: Reply("Hi"))
        returned = send_message(lambda: [1])
    finally:
        unregister_response_shape(broken)
    assert isinstance(raised.error, ZeroDivisionError)
    assert (raised.ok, returned.ok) == (False, False)
    assert "broken returned str" in str(returned.error)
