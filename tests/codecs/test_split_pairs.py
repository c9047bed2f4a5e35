"""A character whose halves came in two events, on every wire: joined, and nothing else is changed."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.codecs.anthropic import bodies as anthropic
from tests.codecs.openai_chat import bodies as chat
from tests.codecs.openai_responses import bodies as responses
from tests.codecs.reading import assemble_deltas, read_deltas
from tests.codecs.test_is_complete import CODECS
from tests.corpus import at_random, byte_by_byte
from tests.linear import is_linear

from holdfast.codecs.body_reader import PairJoiner
from holdfast.codecs.endpoint_profile import EndpointProfile
from holdfast.core.deltas import CharactersReplaced, Delta
from holdfast.core.messages import ReplyKind

Pieces = tuple[str, ...]


def chat_text(pieces: Pieces) -> bytes:
    return chat.stream(
        *(chat.chunk({"content": piece}) for piece in pieces), chat.chunk({}, "stop")
    )


def anthropic_text(pieces: Pieces) -> bytes:
    return anthropic.started() + anthropic.text(0, *pieces) + anthropic.ended("end_turn")


def responses_text(pieces: Pieces) -> bytes:
    grows = [responses.grown("output_text", 0, piece, content_index=0) for piece in pieces]
    return responses.created() + b"".join(grows) + responses.completed()


def gemini_chunks(pieces: Pieces) -> list[Any]:
    values = [{"candidates": [{"content": {"parts": [{"text": piece}]}}]} for piece in pieces]
    return [*values, {"candidates": [{"finishReason": "STOP"}]}]


def gemini_text(pieces: Pieces) -> bytes:
    return b"".join(f"data: {json.dumps(value)}\n\n".encode() for value in gemini_chunks(pieces))


def gemini_array(pieces: Pieces) -> bytes:
    return json.dumps(gemini_chunks(pieces)).encode()


WIRES: dict[str, tuple[str, Callable[[Pieces], bytes]]] = {
    "chat": ("openai_chat", chat_text),
    "anthropic": ("anthropic_messages", anthropic_text),
    "responses": ("openai_responses", responses_text),
    "gemini": ("gemini", gemini_text),
    "gemini array": ("gemini", gemini_array),
}


def read(wire: str, pieces: Pieces) -> tuple[str, bool]:
    """The text, and whether a character was replaced; the same however the body arrives."""
    dialect, write = WIRES[wire]
    body = write(pieces)
    found: list[tuple[str, bool]] = []
    for form in (body, byte_by_byte(body), at_random(body, wire)):
        deltas: list[Delta] = read_deltas(CODECS[dialect], form)
        reply = assemble_deltas(deltas, dialect, EndpointProfile()).reply
        assert reply.kind is ReplyKind.COMPLETE
        found.append((reply.text, any(isinstance(one, CharactersReplaced) for one in deltas)))
    assert found[0] == found[1] == found[2]
    return found[0]


@pytest.mark.parametrize(
    ("pieces", "text", "is_replaced"),
    [
        (("Hi \ud83d", "\ude00!"), "Hi 😀!", False),
        (("\ud83d", "\ude00"), "😀", False),
        (("a", "b\ud83d", "\ude00\ud83d", "\ude01", "c"), "ab😀😁c", False),
        (("a\\\\\ud83d", "\ude00"), "a\\\\😀", False),
        # These halves belong to no pair.
        (("a\ud83d", "b", "\ude00"), "a\ufffdb\ufffd", True),
        (("a\ud83d", "\ud83d", "\ude00"), "a\ufffd😀", True),
        (("a\ud83d", "b"), "a\ufffdb", True),
        (("a", "b\ud83d"), "ab\ufffd", True),
        (("\ude00", "a"), "\ufffda", True),
        # These are no escapes.
        (("a\\ud83d", "\\ude00"), "a\\ud83d\\ude00", False),
        (('a"\\ud83d"', '"\\ude00'), 'a"\\ud83d""\\ude00', False),
    ],
)
def test_the_halves_of_a_character(pieces: Pieces, text: str, is_replaced: bool) -> None:
    assert {wire: read(wire, pieces) for wire in WIRES} == dict.fromkeys(WIRES, (text, is_replaced))


def test_arguments_that_were_joined_are_not_spoiled() -> None:
    parts = ['{"a": "\ud83d', '\ude00"}']
    calls = [chat.call("f" if not at else "", part, index=0) for at, part in enumerate(parts)]
    body = chat.stream(
        *(chat.chunk({"tool_calls": [one]}) for one in calls), chat.chunk({}, "stop")
    )
    assert chat.read(body).reply.calls[0].arguments == '{"a": "😀"}'


def test_a_stream_that_ends_behind_a_half_loses_nothing() -> None:
    body = chat.event(chat.chunk({"content": "a\ud83d"}))
    reply = chat.read(body).reply
    assert (reply.text, reply.kind) == ("a\ufffd", ReplyKind.UNTERMINATED)


@given(st.lists(st.binary(max_size=9) | st.sampled_from([b'{"a":"\\ud83d"}', b'{"a":"\\ude00"}'])))
def test_no_event_is_lost_or_waits_for_more_than_the_next(payloads: list[bytes]) -> None:
    joiner = PairJoiner()
    count = 0
    for number, payload in enumerate(payloads, 1):
        count += len(joiner.feed(b"", payload))
        assert number - count == joiner.waiting
    assert count + len(joiner.close()) == len(payloads)
    assert not joiner.waiting


@pytest.mark.slow  # takes half a second or more
@pytest.mark.parametrize("unit", [b"\\", b'"\\u', b"\\ud83d", b'\\ud83d"', b'"\\ude00'])
def test_hostile_events_take_linear_time(unit: bytes) -> None:
    import time

    def seconds(count: int) -> float:
        begun = time.process_time()
        joiner = PairJoiner()
        for _ in range(2):
            joiner.feed(b"", b'\\u"' + unit * count)
        return time.process_time() - begun

    assert is_linear(seconds, 100_000, 800_000)
