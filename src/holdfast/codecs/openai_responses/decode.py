"""Bytes of a responses body, streamed or whole, to deltas; never raises on any bytes.

A whole body is read as the items that a stream of it would have had, so that both give the same
reply. This module must never decide whether a reply is acceptable; `codecs.assemble` does.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec
from msgspec import Struct, field

from holdfast.codecs.event_decoder import EventDecoder
from holdfast.codecs.openai_responses.chunk_reader import ResponsesChunkReader
from holdfast.codecs.sse import SseEvent
from holdfast.core.deltas import Delta, ReasoningDelta, TextDelta, ToolCallDelta


# The commonest events, and nothing else: any other fails to fit, and is read with care by `Pieces`.
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
    """One response body in, deltas out."""

    __slots__ = ()

    def _make_reader(self, provider: str) -> ResponsesChunkReader:
        return ResponsesChunkReader(provider)

    def _read_events(self, events: list[SseEvent], out: list[Delta]) -> None:
        running = self._reader.open_tracks
        for name, payload in events:
            try:
                event = _read_quick(payload)
            except (ValueError, RecursionError):
                self._read_carefully(name, payload, out)
                continue
            track = running.get((event.output_index, event.section, event.part))
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
