"""Decodes the body of a Messages response, streamed or whole, into deltas.

A whole body is read as if it had been streamed, so that both give the same reply. This module never
raises on any bytes. `codecs.reply_checks` decides whether the reply is accepted.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

import msgspec
from msgspec import Meta, Struct

from holdfast.codecs.anthropic.chunk_reader import AnthropicChunkReader
from holdfast.codecs.event_decoder import EventDecoder
from holdfast.codecs.sse import SseEvent
from holdfast.core.deltas import Delta, ReasoningDelta, TextDelta, ToolCallDelta

_Filled: TypeAlias = Annotated[str, Meta(min_length=1)]


# These types match only the three most frequent deltas, with text. Decoding any other event fails,
# and `AnthropicChunkReader` reads it.
class _QuickTextDelta(Struct, tag="text_delta", gc=False):
    text: _Filled


class _QuickThinkingDelta(Struct, tag="thinking_delta", gc=False):
    thinking: _Filled


class _QuickJsonDelta(Struct, tag="input_json_delta", gc=False):
    partial_json: _Filled


class _QuickEvent(Struct, gc=False):
    type: Literal["content_block_delta"]
    index: int
    delta: _QuickTextDelta | _QuickThinkingDelta | _QuickJsonDelta


_read_quick = msgspec.json.Decoder(_QuickEvent).decode


class AnthropicDecoder(EventDecoder[AnthropicChunkReader]):
    """Decodes one response body into deltas."""

    __slots__ = ()

    def _make_reader(self, provider: str) -> AnthropicChunkReader:
        return AnthropicChunkReader(provider)

    def _read_events(self, events: list[SseEvent], out: list[Delta]) -> None:
        reader = self._reader
        joiner = self._joiner
        for name, payload in events:
            if joiner.waiting:
                self._read_carefully(name, payload, out)
                continue
            try:
                event = _read_quick(payload)
            except (ValueError, RecursionError):
                self._read_carefully(name, payload, out)
                continue
            kind = reader.plain_kinds.get(event.index)
            delta = event.delta
            if type(delta) is _QuickTextDelta and kind == "text":
                out.append(TextDelta(delta.text, event.index))
            elif type(delta) is _QuickThinkingDelta and kind == "thinking":
                out.append(ReasoningDelta(delta.thinking, event.index))
            elif type(delta) is _QuickJsonDelta and kind == "tool_use":
                reader.note_arguments(event.index)
                out.append(ToolCallDelta(event.index, arguments=delta.partial_json))
            else:
                self._read_carefully(name, payload, out)
