"""A decoder emits no delta for an empty piece of text, on any wire.

Anthropic's wire begins each block of text or reasoning with an empty piece. It became a delta, so
that every reader of a stream received one notice without content for each block.
"""

from __future__ import annotations

import json

import pytest

from holdfast.codecs.anthropic.codec import AnthropicCodec
from holdfast.codecs.gemini.codec import Gemini
from holdfast.codecs.openai_chat.codec import OpenAIChat
from holdfast.codecs.openai_responses.codec import ResponsesCodec
from holdfast.codecs.wire import Codec
from holdfast.core.deltas import Delta, ReasoningDelta, RefusalDelta, TextDelta

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
