"""Bytes of a Chat Completions body, streamed or whole, to deltas; never raises on any bytes.

What a body is, is judged by its first bytes and only then by its content type: servers send JSON
as an event stream, and the reverse. This module must never decide whether a reply is acceptable;
`codecs.assemble` does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import msgspec
from msgspec import Struct

from holdfast.codecs.json_text import UNREADABLE, kind_of, read_json
from holdfast.codecs.openai_chat.pieces import Pieces
from holdfast.codecs.sse import LARGEST_EVENT, EventTooLargeError, SseDecoder, SseEvent
from holdfast.codecs.wire import RESPONSE_OBJECT, Failure
from holdfast.core.deltas import Delta, NotAReply, TextDelta
from holdfast.core.errors import ErrorInfo

_FIELDS = (b"data:", b"event:", b"id:", b"retry:", b":")
_ENOUGH = 9
_WHOLE = (b"{", b"[", b"<")
# An event of another name that is no JSON is a sign of life.
_NAMES = (b"", b"message", b"error", b"completion", b"chunk")
_BLANK = b" \t\r\n"
_BOM = b"\xef\xbb\xbf"


# The commonest chunk, and nothing else: every field that could mean more must be absent or empty
# here, so that any other chunk fails to fit and is read with care by `Pieces`.
class _TextOnly(Struct, gc=False):
    content: str
    reasoning_content: None = None
    reasoning: None = None
    reasoning_text: None = None
    reasoning_details: tuple[()] | None = None
    reasoning_opaque: None = None
    reasoning_signature: None = None
    reasoning_id: None = None
    thought_signature: None = None
    tool_calls: tuple[()] | None = None
    function_call: None = None
    refusal: None = None
    audio: None = None
    images: tuple[()] | None = None
    annotations: tuple[()] | None = None


class _OnlyChoice(Struct, gc=False):
    delta: _TextOnly
    index: Literal[0] = 0
    finish_reason: None = None
    usage: None = None
    error: None = None
    message: None = None


class _TextChunk(Struct, gc=False):
    choices: tuple[_OnlyChoice]
    usage: None = None
    error: None = None
    x_groq: None = None
    object: Literal["chat.completion.chunk", "", "chat.completion"] | None = None


_read_text_chunk = msgspec.json.Decoder(_TextChunk).decode


class ChatDecoder:
    """One response body in, deltas out.

    Args:
        content_type: the header's value, or "".
        classify: what an error inside a 200 means.
        provider: the preset's name, for `classify`.
        limit: the largest event or whole body, in bytes.

    Attributes:
        bad_lines: events that were no JSON and were passed over: after the finish reason, in the
            last event of a cut stream, or under a name of their own.
    """

    __slots__ = (
        "_body",
        "_done",
        "_limit",
        "_pieces",
        "_plain",
        "_quick",
        "_sse",
        "_whole",
        "bad_lines",
    )

    def __init__(
        self,
        content_type: str,
        classify: Callable[[Failure], ErrorInfo],
        provider: str = "",
        limit: int = LARGEST_EVENT,
    ) -> None:
        self._pieces = Pieces(classify, provider)
        self._limit = limit
        self._plain = "event-stream" not in content_type.lower()
        self._body = bytearray()
        self._sse: SseDecoder | None = None
        self._whole = False
        self._done = False
        self._quick = False
        self.bad_lines = 0

    @property
    def other_choices(self) -> int:
        """Pieces of choices that were not asked for, and were dropped."""
        return self._pieces.other_choices

    def feed(self, data: bytes) -> list[Delta]:
        """The deltas that these bytes complete."""
        if self._sse is None or self._done:
            return self._open(data)
        out: list[Delta] = []
        try:
            events = self._sse.feed(data)
        except EventTooLargeError as error:
            self._read(error.events, out)
            self._refuse("event", f"more than {self._limit} bytes", out)
            return out
        for name, payload in events:
            if self._quick and not name:
                try:
                    chunk = _read_text_chunk(payload)
                except (ValueError, RecursionError):
                    pass
                else:
                    if text := chunk.choices[0].delta.content:
                        out.append(TextDelta(text))
                    continue
            self._event(name, payload, out)
        return out

    def close(self) -> list[Delta]:
        """The body is over; an event that was cut is left out."""
        out: list[Delta] = []
        if self._done:
            return out
        if self._sse is None:
            out = self._open(b"", last=True)
        if self._sse is not None:
            self._close_stream(self._sse, out)
        elif not self._done:
            self._read_whole(bytes(self._body), out)
        self._done = True
        return out

    def _open(self, data: bytes, *, last: bool = False) -> list[Delta]:
        """Take bytes of a body that is whole, or of which it is not known yet what it is."""
        body = self._body
        if self._done:
            return []
        # Blanks before anything else are dropped at once, so that they are not searched again.
        body += data if body else data.lstrip(_BLANK)
        if not self._whole:
            if len(body) < _ENOUGH and not last:
                return []
            head = bytes(body[:_ENOUGH]).removeprefix(_BOM).lstrip(_BLANK)
            self._whole = not head.startswith(_FIELDS) and (self._plain or head[:1] in _WHOLE)
            if not self._whole:
                self._sse = SseDecoder(self._limit)
                opening, self._body = bytes(body), bytearray()
                return self.feed(opening)
        out: list[Delta] = []
        if len(body) > self._limit:
            self._refuse(RESPONSE_OBJECT, f"more than {self._limit} bytes", out)
        return out

    def _read(self, events: list[SseEvent], out: list[Delta]) -> None:
        for name, payload in events:
            self._event(name, payload, out)

    def _event(self, name: bytes, payload: bytes, out: list[Delta], *, cut: bool = False) -> None:
        payload = payload.strip()
        if self._done or not payload:
            return
        if payload == b"[DONE]":
            self._pieces.end(out)
            self._done, self._quick = True, False
            return
        value = read_json(payload)
        if isinstance(value, dict):
            self._pieces.take(value, out, failed=name == b"error")
            self._quick = self._pieces.plain_text_next
        elif self._pieces.finished or cut or name not in _NAMES:
            self.bad_lines += 1
        elif value is UNREADABLE:
            self._refuse("JSON in every event", _looks_like(payload), out)
        else:
            self._refuse("chunk object", kind_of(value), out)

    def _close_stream(self, sse: SseDecoder, out: list[Delta]) -> None:
        for name, payload in sse.close():
            self._event(name, payload, out, cut=True)
        if self._done:
            return
        if self._pieces.untouched and sse.unknown:
            self._refuse("event stream", "plain text", out)
        else:
            self._pieces.cut(out)

    def _read_whole(self, body: bytes, out: list[Delta]) -> None:
        value = read_json(body.removeprefix(_BOM))
        if isinstance(value, list) and len(value) == 1 and isinstance(value[0], dict):
            # An error wrapped in an array is all that comes in this form.
            value = value[0] if "error" in value[0] else value
        if isinstance(value, dict):
            self._pieces.take(value, out)
            self._pieces.end(out)
        elif value is UNREADABLE:
            self._refuse(RESPONSE_OBJECT, _looks_like(body), out)
        else:
            self._refuse(RESPONSE_OBJECT, kind_of(value), out)

    def _refuse(self, expected: str, got: str, out: list[Delta]) -> None:
        out.append(NotAReply(expected, got))
        self._done, self._quick = True, False
        self._body.clear()


def _looks_like(body: bytes) -> str:
    """What a text that is no JSON seems to be; never a part of it, since that may hold secrets."""
    first = body.removeprefix(_BOM).lstrip(_BLANK)[:1]
    if not first:
        return "empty body"
    if first == b"<":
        return "HTML page"
    return "cut or malformed JSON" if first in _WHOLE else "plain text"
