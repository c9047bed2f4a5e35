"""Responses of HTTP clients, as objects with their attributes: status, body, wire, and what is not shown."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from itertools import product
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.calls.replies import STREAMS, WHOLE

from holdfast.calls import (
    CallResult,
    ResponseReader,
    ResultKind,
    asend_message,
    asend_message_streaming,
    send_message,
    send_message_streaming,
)
from holdfast.calls.http_responses import HttpBody, HttpReply
from holdfast.codecs.assemble import Assembler
from holdfast.codecs.endpoint_profile import EndpointProfile
from holdfast.compat import async_retry_ai_call_with_parsing, retry_ai_call_with_parsing
from holdfast.core.errors import ErrorCategory, UnexpectedTypeError

each_wire = pytest.mark.parametrize("wire", WHOLE)


def response(body: Any, status: int = 200, **fields: Any) -> Any:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return SimpleNamespace(status_code=status, headers={}, content=content, **fields)


def events(wire: str) -> bytes:
    return b"".join(
        f"event: {one['type']}\ndata: {json.dumps(one)}\n\n".encode()
        if "type" in one
        else f"data: {json.dumps(one)}\n\n".encode()
        for one in STREAMS[wire]
    )


def send(value: Any) -> CallResult:
    return send_message(lambda: value)


class Unread:
    """The response of an asynchronous client whose body has not come yet."""

    def __init__(self, *pieces: bytes, status: int = 200, error: Exception | None = None) -> None:
        self.status = status
        self.headers = {"content-type": "application/json"}
        self._pieces, self._error = pieces, error
        self._body: bytes | None = None
        self.closed = 0

    async def read(self) -> bytes:
        if self._error is not None:
            raise self._error
        self._body = b"".join(self._pieces)
        return self._body

    async def aiter_bytes(self) -> AsyncIterator[bytes]:
        for piece in self._pieces:
            yield piece
        if self._error is not None:
            raise self._error

    def close(self) -> None:
        self.closed += 1


class Blocking:
    """The response of a blocking client whose body has not come yet."""

    def __init__(self, *pieces: bytes, error: Exception | None = None) -> None:
        self.status_code, self.headers = 200, {"content-type": "text/event-stream"}
        self._pieces, self._error = pieces, error
        self.closed = 0

    def iter_content(self, _size: int | None) -> Iterator[bytes]:
        yield from self._pieces
        if self._error is not None:
            raise self._error

    def close(self) -> None:
        self.closed += 1


@each_wire
def test_the_body_is_read_by_its_wire_whatever_the_address_is(wire: str) -> None:
    for body in (WHOLE[wire], events(wire)):
        result = send(response(body))
        assert (result.ok, result.text) == (True, "Hello, world")
        streamed = send_message_streaming(lambda body=body: response(body))
        assert (streamed.ok, streamed.text) == (True, "Hello, world")


@each_wire
@given(data=st.data())
def test_a_stream_in_any_pieces_is_the_same(wire: str, data: st.DataObject) -> None:
    body = events(wire)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(body)), max_size=5)))
    pieces = [body[a:b] for a, b in zip([0, *cuts], [*cuts, len(body)], strict=True)]
    blocking = Blocking(*pieces)
    result = send_message_streaming(lambda: blocking)
    assert (result.ok, result.text, blocking.closed) == (True, "Hello, world", 1)


@pytest.mark.slow  # takes half a second or more
@each_wire
def test_a_status_that_is_no_success_is_an_error_whatever_the_body_is(wire: str) -> None:
    statuses = (100, 199, 300, 301, 400, 401, 404, 429, 500, 503, 529, 600)
    bodies = (WHOLE[wire], b"<html>Porto</html>", b"", {"text": "Porto"}, events(wire))
    for status, body in product(statuses, bodies):
        for result in (
            send(response(body, status)),
            send_message_streaming(lambda body=body, status=status: response(body, status)),
        ):
            assert (result.ok, result.text, result.partial_text) == (False, "", "")
            assert result.info is not None
            assert result.info.status == status


def test_the_category_is_that_of_the_status_and_the_provider() -> None:
    limited = response(b"{}", 429, url="https://api.openai.com/v1/chat/completions")
    limited.headers = {"Retry-After": "7"}
    info = send(limited).info
    assert info is not None
    assert (info.category, info.retry_after) == (ErrorCategory.RATE_LIMIT_RETRYABLE, 7.0)
    assert info.provider == "openai"


@pytest.mark.slow  # takes half a second or more
@each_wire
def test_a_body_that_is_cut_anywhere_is_no_answer(wire: str) -> None:
    whole = json.dumps(WHOLE[wire]).encode()
    for end in range(len(whole)):
        assert not send(response(whole[:end])).ok


NOT_REPLIES = [b"", b"null", b"true", b"7", b'"Porto"', b"[]", b'["Porto"]', b"{}", b'{"text": "P"}',
    b'{"message": "Porto"}', b'{"content": "Porto"}', b"Porto is in Portugal.", b"<p>Porto</p>",
    b"data: Porto\n\n", b"data: [DONE]\n\n", b": ping\n\n", b"\x1f\x8b\x08", b"\xff\xfe",
]  # fmt: skip


@pytest.mark.parametrize("body", NOT_REPLIES)
def test_a_body_that_is_no_reply_is_no_answer(body: bytes) -> None:
    result = send(response(body))
    assert (result.ok, result.text) == (False, "")
    assert result.error is not None
    assert not send_message_streaming(lambda: response(body)).ok


@given(st.binary(max_size=200), st.sampled_from(["", "/v1/messages", "/responses"]))
def test_no_bytes_raise_or_are_an_answer(body: bytes, path: str) -> None:
    reader = HttpBody(HttpReply(status=200, url=f"https://x.example{path}"), EndpointProfile())
    assembler = Assembler(EndpointProfile())
    for delta in [*reader.feed(body[:7]), *reader.feed(body[7:]), *reader.close()]:
        assembler.feed(delta)
    assert assembler.finish().error is not None


def test_no_error_shows_the_key_of_the_request() -> None:
    key = "0123456789abcdef0123456789abcdef"
    request = SimpleNamespace(
        url="https://x.example/v1", headers={"authorization": f"Bearer {key}"}
    )
    for status in (200, 401):
        refused = response({"error": {"message": f"bad key {key}"}}, status, request=request)
        result = send(refused)
        assert not result.ok
        assert key not in repr(result) + str(result) + str(result.error) + str(result.info)


class Page:
    """An object of an unknown library, with a text."""

    text = "Porto is in Portugal."


@pytest.mark.parametrize("value", [Page(), SimpleNamespace(text="Porto"), {"text": "Porto"}, Page])
def test_an_unknown_object_with_a_text_is_named_and_no_answer(value: Any) -> None:
    result = send(value)
    assert (result.kind, result.text) == (ResultKind.INVALID, "")
    assert type(value).__name__ in str(result)
    assert not send_message_streaming(lambda: iter([value])).ok


def test_a_text_beside_other_fields_of_a_response_is_no_answer() -> None:
    for name in ("usage_metadata", "promptFeedback", "output", "choices", "stop_reason"):
        assert not send(SimpleNamespace(**{"text": "Porto", name: {}})).ok


def test_a_shape_of_the_user_is_asked_before() -> None:
    def read(value: object) -> dict[str, object] | None:
        known = isinstance(value, SimpleNamespace) and hasattr(value, "status_code")
        answer = {"message": {"content": "read"}, "finish_reason": "stop"}
        return {"choices": [answer]} if known else None

    reader = ResponseReader(shapes=[read])
    assert send_message(lambda: response(b"own format"), reader=reader).text == "read"


async def test_the_body_of_an_asynchronous_client_is_awaited() -> None:
    body = json.dumps(WHOLE["openai_chat"]).encode()

    async def answer(unread: Unread) -> Unread:
        return unread

    unread = Unread(body[:9], body[9:])
    assert (await asend_message(answer, unread)).text == "Hello, world"
    assert unread.closed == 1
    streamed = Unread(body[:9], body[9:])
    assert (await asend_message_streaming(answer, streamed)).text == "Hello, world"
    assert streamed.closed == 1
    broken = Unread(error=ConnectionResetError("cut"))
    assert (await asend_message(answer, broken)).category is ErrorCategory.TRANSIENT
    assert broken.closed == 1
    refused = send(Unread(body))
    assert isinstance(refused.error, UnexpectedTypeError) or "async" in str(refused)


async def test_a_blocking_body_is_not_read_in_an_event_loop() -> None:
    result = await asend_message(lambda: Blocking(b"{}"))
    assert isinstance(result.error, UnexpectedTypeError)
    assert "Blocking" in str(result.error)


def test_a_body_that_breaks_keeps_what_came_and_is_closed() -> None:
    broken = Blocking(events("openai_chat")[:-60], error=ConnectionResetError("cut"))
    result = send_message_streaming(lambda: broken)
    assert (result.ok, result.kind, result.partial_text[:5]) == (False, ResultKind.ERROR, "Hello")
    assert broken.closed == 1
    whole = Blocking(b"{", error=ConnectionResetError("cut"))
    assert (send(whole).ok, whole.closed) == (False, 1)


def test_the_functions_that_repeat_read_responses_too() -> None:
    answer = '{"agent_final_response": "Hi", "routine_number": 2}'
    good = response({"choices": [{"message": {"content": answer}, "finish_reason": "stop"}]})
    bad = [response(answer.encode(), 500), response({"text": answer}), response(answer.encode())]
    replies = [good, *bad]
    ok, got, text, routine = retry_ai_call_with_parsing(replies.pop, delay=0)
    assert (ok, got, text, routine) == (True, good, "Hi", 2)


async def test_the_asynchronous_functions_that_repeat_read_responses_too() -> None:
    answer = '{"agent_final_response": "Hi", "routine_number": 2}'
    message = {"message": {"content": answer}, "finish_reason": "stop"}
    unread = Unread(json.dumps({"choices": [message]}).encode())

    async def call() -> Unread:
        return unread

    ok, _, text, _ = await async_retry_ai_call_with_parsing(call, max_retries=0)
    assert (ok, text) == (True, "Hi")


def test_the_start_of_a_body_is_not_read_again_for_each_piece(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks: list[int] = []

    def look(data: bytes) -> str:
        looks.append(len(data))
        return ""

    monkeypatch.setattr("holdfast.calls.http_responses._detect_stream_wire", look)
    monkeypatch.setattr("holdfast.calls.http_responses.LARGEST_EVENT", 100_000)
    body = HttpBody(HttpReply(status=200), EndpointProfile())
    for _ in range(12_000):
        body.feed(b": wait\n\n.")
    assert sum(looks) <= 2 * 64 * 1024
    assert body.wire, "it is not buffered without end"
