"""Bytes of a messages body, streamed or whole, to deltas; never raises on any bytes.

A whole body is read as the events that a stream of it would have had, so that both give the same
reply. This module must never decide whether a reply is acceptable; `codecs.assemble` does.
"""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec import Struct

from holdfast.codecs.anthropic.pieces import Pieces
from holdfast.codecs.events import EventDecoder
from holdfast.codecs.sse import SseEvent
from holdfast.core.deltas import Delta, ReasoningDelta, TextDelta, ToolCallDelta


# The three commonest deltas, and nothing else: any other event fails to fit, and is read with care
# by `Pieces`.
class _Text(Struct, tag="text_delta", gc=False):
    text: str


class _Thinking(Struct, tag="thinking_delta", gc=False):
    thinking: str


class _Json(Struct, tag="input_json_delta", gc=False):
    partial_json: str


class _Quick(Struct, gc=False):
    type: Literal["content_block_delta"]
    index: int
    delta: _Text | _Thinking | _Json


_read_quick = msgspec.json.Decoder(_Quick).decode


class AnthropicDecoder(EventDecoder[Pieces]):
    """One response body in, deltas out."""

    __slots__ = ()

    def _begin(self, provider: str) -> Pieces:
        return Pieces(provider)

    def _read(self, events: list[SseEvent], out: list[Delta]) -> None:
        pieces = self._pieces
        for name, payload in events:
            try:
                event = _read_quick(payload)
            except (ValueError, RecursionError):
                self._read_carefully(name, payload, out)
                continue
            kind = pieces.plain.get(event.index)
            delta = event.delta
            if type(delta) is _Text and kind == "text":
                out.append(TextDelta(delta.text, event.index))
            elif type(delta) is _Thinking and kind == "thinking":
                out.append(ReasoningDelta(delta.thinking, event.index))
            elif type(delta) is _Json and kind == "tool_use" and delta.partial_json:
                pieces.fill(event.index)
                out.append(ToolCallDelta(event.index, arguments=delta.partial_json))
            else:
                self._read_carefully(name, payload, out)
