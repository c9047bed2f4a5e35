"""Decodes the body of a Responses response, streamed or whole, into deltas.

A whole body is read as if it had been streamed, so that both give the same reply. This module never
raises on any bytes. `codecs.reply_checks` decides whether the reply is accepted.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec
from msgspec import Struct, field
from msgspec.structs import asdict

from holdfast.codecs.event_decoder import EventDecoder
from holdfast.codecs.openai_responses.chunk_reader import ResponsesChunkReader
from holdfast.codecs.sse import SseEvent
from holdfast.core.deltas import Delta, ReasoningDelta, TextDelta, ToolCallDelta


# These types match only the usual forms of the usual events. Decoding any other event fails, and it is
# decoded again with all its fields.
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


class _Start(Struct):
    id: str
    model: str


class _Final(_Start):
    """A complete response, without the copies of instructions and tools that it holds too."""

    status: Literal["completed"]
    output: list[dict[str, object]]
    usage: dict[str, object]
    error: None = None
    service_tier: str | None = None


class _StartEvent(Struct, tag_field="type", tag="response.created"):
    response: _Start
    section = ""


class _InProgressEvent(Struct, tag_field="type", tag="response.in_progress"):
    response: _Start
    section = ""


class _CompletedEvent(Struct, tag_field="type", tag="response.completed"):
    response: _Final
    section = ""


class _ItemAddedEvent(Struct, tag_field="type", tag="response.output_item.added"):
    output_index: int
    item: dict[str, object]
    section = ""


class _ItemDoneEvent(Struct, tag_field="type", tag="response.output_item.done"):
    output_index: int
    item: dict[str, object]
    section = ""


class _PartAddedEvent(Struct, tag_field="type", tag="response.content_part.added", gc=False):
    section = ""


class _PartDoneEvent(Struct, tag_field="type", tag="response.content_part.done", gc=False):
    section = ""


class _TextDoneEvent(Struct, tag_field="type", tag="response.output_text.done", gc=False):
    text: str
    output_index: int
    content_index: int
    item_id: str = ""
    section = ""


_DeltaEvent: TypeAlias = _TextEvent | _SummaryEvent | _ThoughtEvent | _ArgumentsEvent
_UsualEvent: TypeAlias = (
    _StartEvent
    | _InProgressEvent
    | _CompletedEvent
    | _ItemAddedEvent
    | _ItemDoneEvent
    | _PartAddedEvent
    | _PartDoneEvent
    | _TextDoneEvent
)
_Quick: TypeAlias = _DeltaEvent | _UsualEvent
_read_quick = msgspec.json.Decoder(_Quick).decode
_SAYING_NOTHING = (_PartAddedEvent, _PartDoneEvent)
_OF_RESPONSE = (_StartEvent, _InProgressEvent, _CompletedEvent)


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
            if not event.section:
                self._read_usual(event, name, payload, out)
                continue
            track = open_tracks.get((event.output_index, event.section, event.part))
            if track is None:
                self._read_carefully(name, payload, out)
                continue
            text = event.delta
            if not text:
                continue
            track.pieces.append(text)
            if type(event) is _TextEvent:
                out.append(TextDelta(text, track.index))
            elif type(event) is _ArgumentsEvent:
                out.append(ToolCallDelta(track.index, arguments=text))
            else:
                out.append(ReasoningDelta(text, track.index))

    def _read_usual(
        self, event: _UsualEvent, name: bytes, payload: bytes, out: list[Delta]
    ) -> None:
        """Read an event of the usual form: its type is known, and so are the fields that count."""
        kind = type(event)
        if name == b"error" or self._reader.ended:
            self._read_carefully(name, payload, out)
        elif kind not in _SAYING_NOTHING:
            fields = {"type": kind.__struct_config__.tag, **asdict(event)}
            if isinstance(event, _OF_RESPONSE):
                fields["response"] = asdict(event.response)
            start = len(out)
            self._reader.read_event(fields, "", out)
            self._spoil(out, start)
