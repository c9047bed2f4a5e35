"""Arguments of calls that were repaired, or that JSON cannot express."""

from __future__ import annotations

import json
import time
from itertools import accumulate, combinations, pairwise, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.linear import is_linear

from holdfast.codecs.assemble import Assembler
from holdfast.codecs.call_arguments import arguments_text, drop_repetitions, spoil_mended
from holdfast.codecs.endpoint_profile import EndpointProfile
from holdfast.codecs.gemini.codec import Gemini
from holdfast.codecs.json_text import UNREADABLE, JsonReader, read_strict_json
from holdfast.codecs.openai_chat.codec import OpenAIChat
from holdfast.codecs.openai_responses.codec import ResponsesCodec
from holdfast.codecs.wire import Decoder
from holdfast.core.deltas import Delta, ReplyFinished, TextDelta, ToolCallDelta
from holdfast.core.messages import FinishReason, ReplyKind


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
    (text,) = arguments(Gemini(EndpointProfile()).make_decoder("text/event-stream"), body)
    assert (read_strict_json(text) is not UNREADABLE) is whole


@pytest.mark.parametrize(("text", "whole"), [(b"caf\xff", False), ("caf\ufffd".encode(), True)])
def test_the_plain_text_of_a_custom_tool(text: bytes, whole: bool) -> None:
    item = b'{"type":"custom_tool_call","call_id":"c","name":"f","input":"%b"}' % text
    body = b'{"id":"r","object":"response","status":"completed","output":[%b]}' % item
    (found,) = arguments(ResponsesCodec(EndpointProfile()).make_decoder("application/json"), body)
    assert (read_strict_json(found) is not UNREADABLE) is whole


def test_only_the_call_whose_bytes_were_mended_is_spoiled() -> None:
    calls = b",".join(
        b'{"id":"c%d","function":{"name":"f","arguments":"{\\"a\\":\\"%b\\"}"}}' % (n, text)
        for n, text in enumerate((b"ok", b"caf\xff", "caf\u00e9".encode()))
    )
    message = b'{"content":"Hi \xff","tool_calls":[%b]}' % calls
    body = b'{"choices":[{"message":%b,"finish_reason":"tool_calls"}]}' % message
    found = arguments(OpenAIChat(EndpointProfile()).make_decoder("application/json"), body)
    assert found == ['{"a":"ok"}', '{"a":"caf\x1a"}', '{"a":"café"}']


# Where each form was reported. In all of them the joined pieces are no JSON.
REPEATED = {
    # NousResearch/hermes-agent#35592: DeepSeek behind Baidu Qianfan sends all that came so far.
    "cumulative": (['{"q', '{"query": "a', '{"query": "a"}'], '{"query": "a"}'),
    # openclaw/openclaw#88439: llama.cpp does so with nested objects.
    "cumulative, nested": (
        ['{"job": {"name": "x"', '{"job": {"name": "x", "at": 1}}'],
        '{"job": {"name": "x", "at": 1}}',
    ),
    # vllm-project/vllm#51697, parser xlam: a bracket, then the object.
    "the beginning, then the whole": (["{", '{"city": "Orlando"}'], '{"city": "Orlando"}'),
    # vllm-project/vllm#42167, GLM: the last piece of the stream is the whole.
    "cut, then the whole": (['{"a": ', "1, ", '"b": 2', '{"a": 1, "b": 2}'], '{"a": 1, "b": 2}'),
    # vllm-project/vllm#51697 and lidge-jun/opencodex#361.
    "twice": (['{"city": ', '"Seattle"}', '{"city": "Seattle"}'], '{"city": "Seattle"}'),
    # elizaOS/eliza#16973: written again by another program.
    "twice, other blanks": (['{"command": "ls"}', '{"command":"ls"}'], '{"command": "ls"}'),
    # Soju06/codex-lb#284: in a response that is not streamed.
    "three times in one": (['{"city":"Zurich"}' * 3], '{"city":"Zurich"}'),
}

UNPROVED = {
    "another object": ['{"a": 1}', '{"a": 2}'],
    "the same object with another number": ['{"a": 1}', '{"a": 1.0}'],
    "true is not 1": ['{"a": 1}{"a": true}'],
    "a placeholder before": ["{}", '{"stock": "MSFT"}'],  # microsoft/autogen#6843
    "empty objects": ["{}", "{}"],
    "cut": ['{"a', '{"a": 1', '{"a": 1, "b'],
    "once and a half": ['{"a": 1}{"a"'],
    "two keys": ['{"a": 1, "a": 1}{"a": 1, "a": 1}'],
    "arrays": ["[1]", "[1]"],
    "words": ["go", "go"],
    "garbage between": ['{"a": 1};{"a": 1}'],
    "a jump": ['{"a": 1', '{"b": 1', '{"b": 1, "c": 2}'],
    "an open string": ['{"a": "', '{"a": "'],
    "too deep": ['{"a":' * 100_000] * 2,
    "nothing": [],
}


@pytest.mark.parametrize(("pieces", "once"), REPEATED.values(), ids=REPEATED)
def test_repetitions_that_are_proved_are_dropped(pieces: list[str], once: str) -> None:
    assert read_strict_json("".join(pieces)) is UNREADABLE
    assert drop_repetitions(pieces) == once


@pytest.mark.parametrize("pieces", UNPROVED.values(), ids=UNPROVED)
def test_without_a_proof_nothing_is_dropped(pieces: list[str]) -> None:
    assert drop_repetitions(pieces) is None


def test_pieces_that_are_json_are_never_read_in_another_way() -> None:
    """Also of `{"a":` and `{"a":1}}`, whose second piece begins with the first."""
    tried = 0
    for text in map("".join, product('{}":a1', repeat=7)):
        if text[0] != "{" or not isinstance(read_strict_json(text), dict):
            continue
        for cuts in combinations(range(1, 7), 2):
            bounds = (0, *cuts, 7)
            pieces = [text[begin:end] for begin, end in pairwise(bounds)]
            assert drop_repetitions(pieces) is None
            tried += 1
    assert tried > 100
    assert drop_repetitions(['{"a":', '{"a":1}}']) is None


@pytest.mark.slow  # takes half a second or more
@settings(max_examples=30)
@given(st.dictionaries(st.text(), st.integers() | st.text(), min_size=1), st.data())
def test_any_object_is_read_once_however_it_repeats(value: object, data: st.DataObject) -> None:
    text = json.dumps(value)
    cuts = sorted(data.draw(st.sets(st.integers(1, len(text) - 1), max_size=4)))
    bounds = (0, *cuts, len(text))
    pieces = [text[begin:end] for begin, end in pairwise(bounds)]
    assert drop_repetitions(pieces) is None
    assert drop_repetitions([*pieces, text]) == text
    if cuts:
        assert drop_repetitions([*accumulate(pieces)]) == text


@pytest.mark.slow  # takes half a second or more
def test_repetitions_are_found_in_linear_time() -> None:
    def seconds(copies: int) -> float:
        texts = ['{"a": 1}' * copies, '{"a": 1}' * copies + "{"]
        pieces = [[text[:at] for at in range(0, copies, copies // 10)] for text in texts]
        began = time.process_time()
        for text, grown in zip(texts, pieces, strict=True):
            drop_repetitions([text])
            drop_repetitions(grown)
        return time.process_time() - began

    assert is_linear(seconds, 1_000, 20_000)


def test_measuring_a_reply_keeps_the_proof_and_joins_other_pieces() -> None:
    grown, plain = Assembler(EndpointProfile()), Assembler(EndpointProfile())
    text = json.dumps({"a": "x" * 20})
    for at in range(1, len(text) + 1):
        grown.feed(ToolCallDelta(0, "c", "f", text[:at]))
        plain.feed(ToolCallDelta(0, "c", "f", text[at - 1 : at]))
        assert grown.measure()[1] == at * (at + 1) // 2
        assert plain.measure()[1] == at
    for assembler in (grown, plain):
        assembler.feed(ReplyFinished(FinishReason.TOOL_CALLS, "tool_calls"))
        assert assembler.finish().reply.calls[0].arguments == text
        assert assembler.finish().reply.kind is ReplyKind.COMPLETE
    assert (grown.has_dropped, plain.has_dropped) == (True, False)


def test_arguments_that_a_decoder_rewrote_are_not_mended() -> None:
    """The repetition has the names of the wire, and not those of the tool."""
    assembler = Assembler(EndpointProfile())
    assembler.rewritten_tools = {"f"}
    for arguments in ("{", '{"a": 1}'):
        assembler.feed(ToolCallDelta(0, "c", "f", arguments))
    assembler.feed(ReplyFinished(FinishReason.TOOL_CALLS, "tool_calls"))
    assert assembler.finish().reply.kind is ReplyKind.MALFORMED_CALL
