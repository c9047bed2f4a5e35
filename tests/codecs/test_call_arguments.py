"""Arguments of calls that were repaired, or that JSON cannot express."""

from __future__ import annotations

import json

import pytest

from holdfast.codecs.call_arguments import arguments_text, spoil_mended
from holdfast.codecs.gemini.codec import Gemini
from holdfast.codecs.json_text import UNREADABLE, JsonReader, read_strict_json
from holdfast.codecs.openai_chat.codec import OpenAIChat
from holdfast.codecs.openai_responses.codec import ResponsesCodec
from holdfast.codecs.wire import Decoder, Quirks
from holdfast.core.deltas import Delta, TextDelta, ToolCallDelta


@pytest.mark.parametrize("value", [{}, {"a": None}, {"a": [1, 2.5, "null"]}, "null", None, [True]])
def test_what_json_can_hold_is_written(value: object) -> None:
    assert json.loads(arguments_text(value)) == value


@pytest.mark.parametrize("value", [{"a": float("inf")}, {"a": [{"b": float("nan")}, None]}])
def test_what_json_cannot_hold_is_malformed(value: object) -> None:
    assert read_strict_json(arguments_text(value)) is UNREADABLE


def test_only_repaired_arguments_become_invalid() -> None:
    calls = [
        ToolCallDelta(n, arguments=text) for n, text in enumerate(('"a\ufffd"', '"b"', '"\ufffd"'))
    ]
    out: list[Delta] = [calls[0], TextDelta("\ufffd"), calls[1], calls[2]]
    spoil_mended(out, 1)
    assert out == [calls[0], TextDelta("\ufffd"), calls[1], ToolCallDelta(2, arguments='"\x1a"')]
    assert read_strict_json('"\x1a"') is UNREADABLE


@pytest.mark.parametrize(
    ("data", "mended"),
    [
        (b'"a"', False),
        ('"\ufffd"'.encode(), False),
        (b'"\\ufffd"', False),
        (b'{"a": 1e400}', False),
        (b'{"a": NaN, "b": "\\ud83d\\ude00"}', False),
        (b'"\xff"', True),
        (b'"\\ud83d"', True),
        (b'{"a": NaN, "b": "\\ude00"}', True),
    ],
)
def test_a_reader_says_whether_it_mended(data: bytes, mended: bool) -> None:
    reader = JsonReader()
    assert reader.read(data) is not UNREADABLE
    assert reader.has_mended is mended


def arguments(decoder: Decoder, body: bytes) -> list[str]:
    deltas = [*decoder.feed(body), *decoder.close()]
    joined: dict[int, str] = {}
    for delta in deltas:
        if isinstance(delta, ToolCallDelta):
            joined[delta.index] = joined.get(delta.index, "") + delta.arguments
    return list(joined.values())


def gemini_parts(*parts: bytes) -> bytes:
    begin = b'data: {"candidates":[{"content":{"parts":[{"functionCall":'
    ends = [b"}]}}]}\n\n"] * (len(parts) - 1) + [b'}]},"finishReason":"STOP"}]}\n\n']
    return b"".join(begin + part + end for part, end in zip(parts, ends, strict=True))


@pytest.mark.parametrize(
    ("value", "whole"),
    [
        (b'"stringValue":"caf\xff"', False),
        (b'"stringValue":"\\ud83d"', False),
        (b'"numberValue":1e400', False),
        (b'"structValue":{"a":[NaN]}', False),
        ('"stringValue":"caf\ufffd"'.encode(), True),
        (b'"numberValue":5', True),
    ],
)
def test_values_that_come_one_by_one_on_gemini(value: bytes, whole: bool) -> None:
    body = gemini_parts(
        b'{"name":"f","willContinue":true}',
        b'{"partialArgs":[{"jsonPath":"$.a",%b}],"willContinue":true}' % value,
        b"{}",
    )
    (text,) = arguments(Gemini(Quirks()).make_decoder("text/event-stream"), body)
    assert (read_strict_json(text) is not UNREADABLE) is whole


@pytest.mark.parametrize(("text", "whole"), [(b"caf\xff", False), ("caf\ufffd".encode(), True)])
def test_the_plain_text_of_a_custom_tool(text: bytes, whole: bool) -> None:
    item = b'{"type":"custom_tool_call","call_id":"c","name":"f","input":"%b"}' % text
    body = b'{"id":"r","object":"response","status":"completed","output":[%b]}' % item
    (found,) = arguments(ResponsesCodec(Quirks()).make_decoder("application/json"), body)
    assert (read_strict_json(found) is not UNREADABLE) is whole


def test_only_the_call_whose_bytes_were_mended_is_spoiled() -> None:
    calls = b",".join(
        b'{"id":"c%d","function":{"name":"f","arguments":"{\\"a\\":\\"%b\\"}"}}' % (n, text)
        for n, text in enumerate((b"ok", b"caf\xff", "caf\u00e9".encode()))
    )
    message = b'{"content":"Hi \xff","tool_calls":[%b]}' % calls
    body = b'{"choices":[{"message":%b,"finish_reason":"tool_calls"}]}' % message
    found = arguments(OpenAIChat(Quirks()).make_decoder("application/json"), body)
    assert found == ['{"a":"ok"}', '{"a":"caf\x1a"}', '{"a":"café"}']
