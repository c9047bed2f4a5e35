"""Every numbering and split of a streamed text gives the text once."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.codecs.anthropic.codec import AnthropicCodec
from holdfast.codecs.assemble import AssembledReply, Assembler
from holdfast.codecs.endpoint_profile import EndpointProfile
from holdfast.codecs.gemini.codec import Gemini
from holdfast.codecs.openai_chat.codec import OpenAIChat
from holdfast.codecs.openai_responses.codec import ResponsesCodec
from holdfast.codecs.wire import Codec
from holdfast.core.deltas import Delta, ReasoningDelta, RefusalDelta, TextDelta
from holdfast.core.messages import ReplyKind
from holdfast.models.resolve import load_codec

# The Responses wire sends a text in pieces, at the end of its item and in the final response, and
# providers number these copies differently.


def read(wire: str, *events: dict[str, Any], end: bytes = b"") -> AssembledReply:
    codec = load_codec(wire, EndpointProfile())
    decoder, assembler = (
        codec.make_decoder("text/event-stream", ""),
        Assembler(EndpointProfile(), wire),
    )
    body = b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events) + end
    for delta in [*decoder.feed(body), *decoder.close()]:
        assembler.feed(delta)
    return assembler.finish()


def delta(text: str, part: int, **more: Any) -> dict[str, Any]:
    event = {"type": "response.output_text.delta", "output_index": 0, "delta": text}
    return {**event, "content_index": part, **more}


def message(*texts: str, name: str = "m1") -> dict[str, Any]:
    content = [{"type": "output_text", "text": text} for text in texts]
    return {"type": "message", "id": name, "role": "assistant", "content": content}


def completed(*items: dict[str, Any]) -> dict[str, Any]:
    response = {"id": "r", "model": "m", "status": "completed", "output": list(items)}
    return {"type": "response.completed", "response": response}


ADDED = {"type": "response.output_item.added", "output_index": 0, "item": message()}


def ended(item: dict[str, Any], at: int = 0) -> dict[str, Any]:
    return {"type": "response.output_item.done", "output_index": at, "item": item}


def test_pieces_of_part_1_whose_final_form_is_part_0() -> None:
    done = {"type": "response.output_text.done", "output_index": 0, "content_index": 0}
    result = read(
        "openai_responses",
        ADDED,
        delta("Hel", 1),
        delta("lo", 1),
        {**done, "text": "Hello"},
        ended(message("Hello")),
        completed(message("Hello")),
    )
    assert (result.reply.text, result.reply.kind) == ("Hello", ReplyKind.COMPLETE)


def test_reasoning_of_part_1_whose_final_form_is_part_0() -> None:
    thought = {"type": "response.reasoning_text.delta", "output_index": 0, "content_index": 1}
    item = {"type": "reasoning", "id": "r1", "content": [{"type": "reasoning_text", "text": "Hm."}]}
    result = read(
        "openai_responses",
        {**thought, "delta": "Hm."},
        ended(item),
        delta("Hi", 0, output_index=1),
        completed(item, message("Hi")),
    )
    assert [part.text for part in result.reply.parts] == ["Hm.", "Hi"]  # type: ignore[union-attr]


def test_reasoning_that_comes_as_a_summary_and_in_full_is_shown_once() -> None:
    piece = {"type": "response.reasoning_summary_text.delta", "output_index": 0, "summary_index": 0}
    item = {
        "type": "reasoning",
        "id": "r1",
        "summary": [{"type": "summary_text", "text": "Hm."}],
        "content": [{"type": "reasoning_text", "text": "Hm."}],
    }
    for events in ([{**piece, "delta": "Hm."}, ended(item)], [ended(item)]):
        result = read("openai_responses", *events, delta("Hi", 0, output_index=1), completed(item))
        assert [part.text for part in result.reply.parts] == ["Hm.", "Hi"]  # type: ignore[union-attr]


def test_an_item_that_ends_at_another_place_is_the_same_item() -> None:
    result = read(
        "openai_responses", ADDED, delta("Hello", 0), ended(message("Hello"), at=1), completed()
    )
    assert result.reply.text == "Hello"


def test_a_call_that_ends_at_another_place_is_one_call() -> None:
    call = {"type": "function_call", "id": "f1", "call_id": "c1", "name": "pay", "arguments": ""}
    whole = {**call, "arguments": '{"euros": 5}'}
    event = {"type": "response.function_call_arguments.delta", "output_index": 0}
    result = read(
        "openai_responses",
        {"type": "response.output_item.added", "output_index": 0, "item": call},
        {**event, "delta": '{"euros": 5}'},
        ended(whole, at=1),
        completed(whole),
    )
    assert [call.arguments for call in result.reply.calls] == ['{"euros": 5}']


def test_an_item_that_is_announced_twice_is_one_item() -> None:
    call = {"type": "function_call", "id": "f1", "call_id": "c1", "name": "pay", "arguments": ""}
    added = {"type": "response.output_item.added", "output_index": 0, "item": call}
    whole = {**call, "arguments": "{}"}
    result = read("openai_responses", added, added, ended(whole), completed(whole))
    assert len(result.reply.calls) == 1


def cut(text: str, at: list[int]) -> list[str]:
    places = [0, *sorted({min(one, len(text)) for one in at}), len(text)]
    return [text[begin:end] for begin, end in itertools.pairwise(places) if begin < end]


CUTS = st.lists(st.integers(1, 30), max_size=4)


@given(
    text=st.text("ab ", min_size=1, max_size=30),
    pieces=CUTS,
    parts=CUTS,
    final=CUTS,
    shift=st.integers(0, 3),
    items=st.booleans(),
    ends=st.booleans(),
)
def test_every_split_and_numbering_gives_the_text_once(  # noqa: PLR0917
    text: str,
    pieces: list[int],
    parts: list[int],
    final: list[int],
    shift: int,
    items: bool,
    ends: bool,
) -> None:
    events = [ADDED]
    for number, part in enumerate(cut(text, parts)):
        events += [delta(piece, number + shift) for piece in cut(part, pieces)]
    texts = cut(text, final)
    if ends:
        events.append(ended(message(*texts)))
    whole = [message(one, name=f"m{at}") for at, one in enumerate(texts)]
    events.append(completed(*(whole if items else [message(*texts)])))
    assert read("openai_responses", *events).reply.text == text


# Two replies in one body.


def anthropic_start(name: str) -> dict[str, Any]:
    return {"type": "message_start", "message": {"id": name, "model": "m", "content": []}}


def anthropic_text(text: str) -> list[dict[str, Any]]:
    begin = {"type": "content_block_start", "index": 0, "content_block": {"type": "text"}}
    piece = {"type": "text_delta", "text": text}
    return [
        begin,
        {"type": "content_block_delta", "index": 0, "delta": piece},
        {"type": "content_block_stop", "index": 0},
    ]


ANTHROPIC_END = [
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {}},
    {"type": "message_stop"},
]


def chat(name: str, text: str) -> list[dict[str, Any]]:
    deltas: list[tuple[Any, Any]] = [({"role": "assistant", "content": text}, None), ({}, "stop")]
    return [
        {"id": name, "model": "m", "choices": [{"index": 0, "delta": one, "finish_reason": why}]}
        for one, why in deltas
    ]


def gemini(name: str, text: str) -> dict[str, Any]:
    candidate = {"content": {"parts": [{"text": text}]}, "finishReason": "STOP"}
    return {"responseId": name, "modelVersion": "m", "candidates": [candidate]}


TWO: dict[str, list[dict[str, Any]]] = {
    "anthropic": [
        anthropic_start("1"),
        *anthropic_text("Hel"),
        anthropic_start("2"),
        *anthropic_text("Hello"),
        *ANTHROPIC_END,
    ],
    "openai_responses": [
        {"type": "response.created", "response": {"id": "1", "model": "m"}},
        ADDED,
        delta("Hel", 0),
        {"type": "response.created", "response": {"id": "2", "model": "m"}},
        ADDED,
        delta("Hello", 0),
        completed(message("Hello")),
    ],
    "openai_chat": [*chat("1", "Hel"), *chat("2", "Hello")],
    "gemini": [gemini("1", "Hel"), gemini("2", "Hello")],
}


@pytest.mark.parametrize("wire", TWO)
def test_two_replies_in_one_body_are_asked_for_again(wire: str) -> None:
    error = read(wire, *TWO[wire]).error
    assert error is not None
    assert error.info.category.is_retryable
    assert "second" in str(error)


def test_a_start_that_is_repeated_before_any_content_begins_anew() -> None:
    start = anthropic_start("1")
    result = read("anthropic", start, start, *anthropic_text("Hello"), *ANTHROPIC_END)
    assert (result.reply.text, result.error) == ("Hello", None)


def test_a_whole_message_at_the_end_of_a_stream_repeats_its_deltas() -> None:
    first, last = chat("1", "Hello")
    whole = {"index": 0, "message": {"role": "assistant", "content": "Hello"}}
    copy = {"id": "1", "model": "m", "choices": [{**whole, "finish_reason": "stop"}]}
    for events in ([first, copy], [first, last, copy]):
        result = read("openai_chat", *events, end=b"data: [DONE]\n\n")
        assert (result.reply.text, result.error) == ("Hello", None)


# Empty pieces, with which some wires begin each block of text or reasoning.

PIECES = ("", "Hel", "", "lo", "")


def anthropic_events() -> list[object]:
    events: list[object] = [{"type": "message_start", "message": {"content": []}}]
    for index, (kind, field) in enumerate((("thinking", "thinking"), ("text", "text"))):
        block = {"type": kind, field: ""}
        events.append({"type": "content_block_start", "index": index, "content_block": block})
        for piece in PIECES:
            delta = {"type": f"{kind}_delta", field: piece}
            events.append({"type": "content_block_delta", "index": index, "delta": delta})
        if kind == "thinking":
            delta = {"type": "signature_delta", "signature": ""}
            events.append({"type": "content_block_delta", "index": index, "delta": delta})
        events.append({"type": "content_block_stop", "index": index})
    end = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}}
    return [*events, end, {"type": "message_stop"}]


def chat_events() -> list[object]:
    fields = ("reasoning_content", "content", "refusal")
    pieces = [{field: piece} for field in fields for piece in PIECES]
    return [{"id": "c", "model": "m", "choices": [{"delta": piece}]} for piece in pieces]


def responses_events() -> list[object]:
    first = {"type": "response.output_item.added", "output_index": 0, "item": {"type": "message"}}
    pieces = [
        {"type": f"response.{section}.delta", "output_index": 0, "content_index": 0, "delta": piece}
        for section in ("output_text", "refusal")
        for piece in PIECES
    ]
    return [{"type": "response.created", "response": {"id": "r"}}, first, *pieces]


def gemini_events() -> list[object]:
    parts = [{"text": piece, **extra} for extra in ({"thought": True}, {}) for piece in PIECES]
    return [{"candidates": [{"content": {"parts": [part]}}]} for part in parts]


def text_of(delta: Delta) -> str | None:
    return delta.text if isinstance(delta, TextDelta | ReasoningDelta | RefusalDelta) else None


@pytest.mark.parametrize(
    ("codec", "events"),
    [
        (AnthropicCodec(), anthropic_events()),
        (OpenAIChat(), chat_events()),
        (ResponsesCodec(), responses_events()),
        (Gemini(), gemini_events()),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_an_empty_piece_of_text_is_not_shown(codec: Codec, events: list[object]) -> None:
    decoder = codec.make_decoder("text/event-stream")
    texts = []
    for event in events:
        body = b"data: " + json.dumps(event).encode() + b"\n\n"
        texts += [text for text in map(text_of, decoder.feed(body)) if text is not None]
    assert "".join(texts).startswith("Hello")
    assert "" not in texts
