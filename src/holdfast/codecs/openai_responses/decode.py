"""Bytes of a responses body, streamed or whole, to deltas; never raises on any bytes.

A whole body is read as the items that a stream of it would have had, so that both give the same
reply. This module must never decide whether a reply is acceptable; `codecs.assemble` does.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec
from msgspec import Struct, field

from holdfast.codecs.body import Body
from holdfast.codecs.json_text import UNREADABLE, kind_of, read_json
from holdfast.codecs.openai_responses.pieces import Pieces
from holdfast.codecs.sse import LARGEST_EVENT, SseEvent
from holdfast.core.deltas import Delta, NotAReply, ReasoningDelta, TextDelta, ToolCallDelta


# The commonest events, and nothing else: any other fails to fit, and is read with care by `Pieces`.
class _Text(Struct, tag_field="type", tag="response.output_text.delta", gc=False):
    delta: str
    output_index: int
    part: int = field(name="content_index")
    section = "text"


class _Summary(Struct, tag_field="type", tag="response.reasoning_summary_text.delta", gc=False):
    delta: str
    output_index: int
    part: int = field(name="summary_index")
    section = "summary"


class _Thought(Struct, tag_field="type", tag="response.reasoning_text.delta", gc=False):
    delta: str
    output_index: int
    part: int = field(name="content_index")
    section = "thought"


class _Arguments(Struct, tag_field="type", tag="response.function_call_arguments.delta", gc=False):
    delta: str
    output_index: int
    part = 0
    section = "arguments"


_Quick: TypeAlias = _Text | _Summary | _Thought | _Arguments
_read_quick = msgspec.json.Decoder(_Quick).decode
_DONE = b"[DONE]"


class ResponsesDecoder:
    """One response body in, deltas out.

    Args:
        content_type: the header's value, or "".
        provider: the preset's name, for the words of errors inside the body.
        limit: the largest event or whole body, in bytes.

    Attributes:
        passed_over: how often each unknown kind of event came.
    """

    __slots__ = ("_body", "_pieces", "_refused")

    def __init__(
        self, content_type: str = "", provider: str = "", limit: int = LARGEST_EVENT
    ) -> None:
        self._body = Body(limit, content_type)
        self._pieces = Pieces(provider)
        self._refused = False

    @property
    def passed_over(self) -> dict[str, int]:
        """How often each unknown kind of event came."""
        return self._pieces.passed_over

    def feed(self, data: bytes) -> list[Delta]:
        """The deltas that these bytes complete."""
        out: list[Delta] = []
        self._read(self._body.feed(data), out)
        return out

    def close(self) -> list[Delta]:
        """What was held back: a whole body, or what a cut stream left open."""
        out: list[Delta] = []
        if self._refused:
            return out
        if self._body.streamed:
            self._read(self._body.close(), out)
            self._pieces.cut(out)
        else:
            value = self._body.value()
            if isinstance(value, dict):
                self._pieces.take_whole(value, out)
            elif self._body.problem is not None:
                out.append(self._body.problem)
        self._refused = True
        return out

    def _read(self, events: list[SseEvent], out: list[Delta]) -> None:
        running = self._pieces.running
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
            if type(event) is _Text:
                out.append(TextDelta(event.delta, track.index))
            elif type(event) is _Arguments:
                out.append(ToolCallDelta(track.index, arguments=event.delta))
            else:
                out.append(ReasoningDelta(event.delta, track.index))
        if self._body.problem is not None and not self._refused:
            self._refused = True
            out.append(self._body.problem)

    def _read_carefully(self, name: bytes, payload: bytes, out: list[Delta]) -> None:
        value = read_json(payload)
        if isinstance(value, dict):
            self._pieces.take(value, name.decode("ascii", "replace"), out)
        elif payload.strip() != _DONE and not self._pieces.ended:
            got = "cut or malformed JSON" if value is UNREADABLE else kind_of(value)
            out.append(NotAReply("event object", got))
