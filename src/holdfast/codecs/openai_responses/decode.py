"""Decodes the body of a Responses response, streamed or whole, into deltas.

A whole body is read as if it had been streamed, so that both give the same reply. This module never
raises on any bytes. `codecs.reply_checks` decides whether the reply is accepted.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec
from msgspec import Struct, field

from holdfast.codecs.event_decoder import EventDecoder
from holdfast.codecs.openai_responses.chunk_reader import ResponsesChunkReader
from holdfast.codecs.sse import SseEvent
from holdfast.core.deltas import Delta, ReasoningDelta, TextDelta, ToolCallDelta


# These types match only the most frequent events. Decoding any other event fails, and
# `ResponsesChunkReader` reads it.
class _TextEvent(Struct, tag_field="type", tag="response.output_text.delta", gc=False):
    delta: str
    output_index: int
    part: int = field(name="content_index")
    section = "text"


class _SummaryEvent(
    Struct, tag_field="type", tag="response.reasoning_summary_text.delta", gc=False
):
    delta: str
    output_index: int
    part: int = field(name="summary_index")
    section = "summary"


class _ThoughtEvent(Struct, tag_field="type", tag="response.reasoning_text.delta", gc=False):
    delta: str
    output_index: int
    part: int = field(name="content_index")
    section = "thought"


class _ArgumentsEvent(
    Struct, tag_field="type", tag="response.function_call_arguments.delta", gc=False
):
    delta: str
    output_index: int
    part = 0
    section = "arguments"


_Quick: TypeAlias = _TextEvent | _SummaryEvent | _ThoughtEvent | _ArgumentsEvent
_read_quick = msgspec.json.Decoder(_Quick).decode


class ResponsesDecoder(EventDecoder[ResponsesChunkReader]):
    """Decodes one response body into deltas."""

    __slots__ = ()

    def _make_reader(self, provider: str) -> ResponsesChunkReader:
        return ResponsesChunkReader(provider)

    def _read_events(self, events: list[SseEvent], out: list[Delta]) -> None:
        open_tracks = self._reader.open_tracks
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
            track = open_tracks.get((event.output_index, event.section, event.part))
            if track is None:
                self._read_carefully(name, payload, out)
                continue
            if not event.delta:
                continue
            track.pieces.append(event.delta)
            if type(event) is _TextEvent:
                out.append(TextDelta(event.delta, track.index))
            elif type(event) is _ArgumentsEvent:
                out.append(ToolCallDelta(track.index, arguments=event.delta))
            else:
                out.append(ReasoningDelta(event.delta, track.index))
