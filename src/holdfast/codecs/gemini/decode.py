"""Decodes the body of a Gemini response, streamed or whole, into deltas.

A stream comes as events (`alt=sse`) or as one JSON array, sent in pieces; some gateways send one
object per line. Events have no end marker, so a finish reason proves that a reply is complete. The
first bytes decide the kind of a body, and only then its content type. This module never raises on any
bytes. `codecs.reply_checks` decides whether the reply is accepted.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Literal

import msgspec
from msgspec import Struct

from holdfast.codecs.body_reader import PairJoiner, describe_text
from holdfast.codecs.call_arguments import spoil_mended
from holdfast.codecs.error_body import unwrap_error_array
from holdfast.codecs.event_decoder import wrap_error_text
from holdfast.codecs.gemini.chunk_reader import GeminiChunkReader
from holdfast.codecs.json_text import UNREADABLE, JsonReader, json_kind, read_json
from holdfast.codecs.sse import LARGEST_EVENT, EventTooLargeError, SseDecoder, SseEvent
from holdfast.codecs.wire import RESPONSE_OBJECT, Failure
from holdfast.core.deltas import CharactersReplaced, Delta, EndMissing, NotAReply, TextDelta
from holdfast.core.errors import ErrorInfo

_BLANK = b" \t\r\n"
_BOM = b"\xef\xbb\xbf"
_OPENINGS = (b"{", b"[", b"<")
_NO_USAGE = msgspec.Raw()
_OUTSIDE = re.compile(rb'["{}\[\]]')
_INSIDE = re.compile(rb'["\\]')


# These types match only the most frequent chunk: one text. Every field with another meaning must be
# absent, so that decoding any other chunk fails and `GeminiChunkReader` reads it.
class _TextPart(Struct, gc=False, forbid_unknown_fields=True):
    text: str


class _TextContent(Struct, gc=False):
    parts: tuple[_TextPart]


class _OnlyCandidate(Struct, gc=False):
    content: _TextContent
    index: Literal[0] = 0
    finishReason: None = None  # noqa: N815  # the wire's own name
    groundingMetadata: None = None  # noqa: N815
    citationMetadata: None = None  # noqa: N815
    urlContextMetadata: None = None  # noqa: N815


class _TextChunk(Struct, gc=False):
    candidates: tuple[_OnlyCandidate]
    usageMetadata: msgspec.Raw = _NO_USAGE  # noqa: N815
    promptFeedback: None = None  # noqa: N815
    error: None = None


_read_text_chunk = msgspec.json.Decoder(_TextChunk).decode


class GeminiDecoder:
    """Decodes one response body into deltas.

    Args:
        content_type: the header's value, or "".
        classify: classifies an error inside a 200 response.
        provider: the preset's name, for `classify`.
        limit: the largest event, object or whole body, in bytes.
    """

    __slots__ = (
        "_body",
        "_done",
        "_is_plain",
        "_is_whole",
        "_joiner",
        "_json",
        "_limit",
        "_mended",
        "_quick_block",
        "_reader",
        "_splitter",
        "_sse",
    )  # fmt: skip

    def __init__(
        self,
        content_type: str,
        classify: Callable[[Failure], ErrorInfo],
        provider: str = "",
        limit: int = LARGEST_EVENT,
    ) -> None:
        self._reader = GeminiChunkReader(classify, provider)
        self._limit = limit
        self._is_plain = "event-stream" not in content_type.lower()
        self._body = bytearray()
        self._json = JsonReader()
        self._joiner = PairJoiner()
        # Whether any event was repaired. It stays set: arguments that come value by value are emitted at their end.
        self._mended = False
        self._sse: SseDecoder | None = None
        self._splitter: DocumentSplitter | None = None
        self._is_whole = False
        self._done = False
        self._quick_block: int | None = None

    @property
    def other_candidates(self) -> int:
        """The number of dropped chunks of candidates other than the first."""
        return self._reader.other_candidates

    @property
    def unread_parts(self) -> int:
        """The number of skipped parts that were not objects."""
        return self._reader.unread_parts

    def feed(self, data: bytes) -> list[Delta]:
        """Return the deltas that these bytes complete."""
        if self._done:
            return []
        if self._sse is not None:
            return self._feed_events(self._sse, data)
        if self._splitter is not None:
            return self._feed_array(self._splitter, data)
        return self._feed_undecided(data)

    def close(self) -> list[Delta]:
        """End the body, and return the remaining deltas."""
        out: list[Delta] = []
        if self._done:
            return out
        if self._sse is None and self._splitter is None and not self._is_whole:
            out = self._feed_undecided(b"", last=True)
        if self._sse is not None:
            events = self._sse.close()
            for name, payload in self._joiner.close():
                self._read_named(name, payload, out)
            for at, (_, payload) in enumerate(events, 1):
                self._read_event(payload, out, cut=at == len(events))
            self._close_stream(self._sse.unknown_lines > 0, out)
        elif self._splitter is not None:
            for _, text in self._joiner.close():
                self._read_event(text, out)
            self._reader.close(out)
        elif not self._done:
            self._read_whole(bytes(self._body), out)
        self._done = True
        return out

    def _feed_events(self, sse: SseDecoder, data: bytes) -> list[Delta]:
        out: list[Delta] = []
        try:
            events = sse.feed(data)
        except EventTooLargeError as error:
            self._read_events(error.events, out)
            self._reject_body("event", f"more than {self._limit} bytes", out)
            return out
        self._read_events(events, out)
        return out

    def _read_events(self, events: list[SseEvent], out: list[Delta]) -> None:
        for name, payload in events:
            if self._quick_block is not None and not self._joiner.waiting:
                try:
                    chunk = _read_text_chunk(payload)
                except (ValueError, RecursionError):
                    pass
                else:
                    if text := chunk.candidates[0].content.parts[0].text:
                        out.append(TextDelta(text, self._quick_block))
                    if chunk.usageMetadata is not _NO_USAGE:
                        self._reader.late_usage = chunk.usageMetadata
                    continue
            for event in self._joiner.feed(name, payload):
                self._read_named(*event, out)

    def _read_named(self, name: bytes, payload: bytes, out: list[Delta]) -> None:
        if name == b"error":
            self._read_error(payload, out)
        else:
            self._read_event(payload, out)

    def _read_error(self, payload: bytes, out: list[Delta]) -> None:
        """Read an event that is named an error: an object, with or without its envelope, or text."""
        value = unwrap_error_array(read_json(payload))
        if not isinstance(value, dict):
            value = wrap_error_text(payload)
        self._read_object(value if value.get("error") else {"error": value}, out)

    def _read_event(self, payload: bytes, out: list[Delta], *, cut: bool = False) -> None:
        payload = payload.strip()
        if self._done or not payload or payload == b"[DONE]":
            return
        value = self._json.read(payload)
        if isinstance(value, dict):
            self._read_object(value, out)
        elif isinstance(value, list):
            for inner in value:
                if isinstance(inner, dict):
                    self._read_object(inner, out)
        elif value is UNREADABLE and b"\n" in payload:
            # The blank lines between the events are missing: each line is one object.
            for line in payload.split(b"\n"):
                self._read_event(line, out, cut=cut)
        elif self._reader.finished or cut:
            self._pass_over(payload, out, cut=cut)
        elif value is UNREADABLE:
            self._reject_body("JSON in every event", describe_text(payload), out)
        else:
            self._reject_body("chunk object", json_kind(value), out)

    def _pass_over(self, payload: bytes, out: list[Delta], *, cut: bool) -> None:
        if cut and (b'"parts"' in payload or not self._reader.finished):
            out.append(EndMissing(inside_event=True))

    def _read_object(self, value: dict[str, object], out: list[Delta]) -> None:
        start = len(out)
        self._reader.read_object(value, out)
        self._spoil(out, start)
        self._quick_block = self._reader.open_text_block

    def _spoil(self, out: list[Delta], start: int) -> None:
        if self._json.has_mended and not self._mended:
            self._mended = True
            out.append(CharactersReplaced())
        if self._mended:
            spoil_mended(out, start)

    def _close_stream(self, strange_lines: bool, out: list[Delta]) -> None:
        if self._done:
            return
        if self._reader.has_read_nothing and strange_lines:
            self._reject_body("event stream", "plain text", out)
        else:
            self._reader.close(out)

    def _feed_array(self, splitter: DocumentSplitter, data: bytes) -> list[Delta]:
        out: list[Delta] = []
        for document in splitter.feed(data):
            for _, text in self._joiner.feed(b"", document):
                self._read_event(text, out)
        if splitter.ended and not self._done:
            for _, text in self._joiner.close():
                self._read_event(text, out)
            self._reader.close(out)
            self._done = True
        elif splitter.buffered_bytes > self._limit:
            self._reject_body(RESPONSE_OBJECT, f"more than {self._limit} bytes", out)
        return out

    def _feed_undecided(self, data: bytes, *, last: bool = False) -> list[Delta]:
        """Add bytes to a body that is one object, or whose form is not known yet."""
        body = self._body
        # Whitespace at the beginning is dropped at once, so that it is not searched again.
        body += data if body else data.lstrip(_BLANK)
        out: list[Delta] = []
        if not self._is_whole:
            if len(body) < len(_BOM) + 1 and not last:
                return out
            if body.startswith(_BOM):
                del body[: len(_BOM)]
            head = bytes(body[:1])
            if head == b"[":
                self._splitter, self._body = DocumentSplitter(), bytearray()
                return self.feed(bytes(body[1:]))
            self._is_whole = head in _OPENINGS or (self._is_plain and not _starts_with_field(body))
            if not self._is_whole:
                self._sse, self._body = SseDecoder(self._limit), bytearray()
                return self.feed(bytes(body))
        if len(body) > self._limit:
            self._reject_body(RESPONSE_OBJECT, f"more than {self._limit} bytes", out)
        return out

    def _read_whole(self, body: bytes, out: list[Delta]) -> None:
        value = self._json.read(body)
        if isinstance(value, dict):
            self._reader.read_object(value, out)
            self._reader.end_whole_body(out)
            self._spoil(out, 0)
        elif value is UNREADABLE and b"}" in body and body[:1] == b"{":
            self._read_lines(body, out)
        elif value is UNREADABLE:
            self._reject_body(RESPONSE_OBJECT, describe_text(body), out)
        else:
            self._reject_body(RESPONSE_OBJECT, json_kind(value), out)

    def _read_lines(self, body: bytes, out: list[Delta]) -> None:
        """Read a body of several objects; some gateways stream one object per line."""
        documents = DocumentSplitter().feed(body)
        if len(documents) < 2:
            self._reject_body(RESPONSE_OBJECT, describe_text(body), out)
            return
        for document in documents:
            self._read_event(document, out)
        if not self._done:
            self._reader.close(out)

    def _reject_body(self, expected: str, kind: str, out: list[Delta]) -> None:
        out.append(NotAReply(expected, kind))
        self._done, self._quick_block = True, None
        self._body.clear()


def _starts_with_field(body: bytearray) -> bool:
    return body.startswith((b"data", b"even", b"id:", b"retr", b":"))


class DocumentSplitter:
    r"""Takes the bytes after the opening bracket of the array, and returns complete top-level objects.

    Attributes:
        ended: the bracket that closes the array came.

    >>> splitter = DocumentSplitter()
    >>> splitter.feed(b'{"a": "}"}\r\n,{"b"')
    [b'{"a": "}"}']
    >>> splitter.feed(b': 1}]')
    [b'{"b": 1}']
    >>> splitter.ended
    True
    """

    __slots__ = (
        "_brackets",
        "_buffer",
        "_depth",
        "_in_text",
        "_object_start",
        "_position",
        "ended",
    )

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._position = 0
        self._object_start = 0
        self._depth = 0
        self._brackets = 0
        self._in_text = False
        self.ended = False

    @property
    def buffered_bytes(self) -> int:
        """The number of bytes of the incomplete object."""
        return len(self._buffer)

    def feed(self, data: bytes) -> list[bytes]:
        """Return the objects that these bytes complete; none after the end."""
        if self.ended:
            return []
        buffer = self._buffer
        buffer += data
        documents: list[bytes] = []
        while (
            mark := (_INSIDE if self._in_text else _OUTSIDE).search(buffer, self._position)
        ) is not None:
            self._position = mark.end()
            if self._closes_array(buffer[mark.start()], documents):
                buffer.clear()
                return documents
        self._position = max(self._position, len(buffer))
        cut = self._object_start if self._depth else len(buffer)
        del buffer[:cut]
        self._position -= cut
        self._object_start = 0
        return documents

    def _closes_array(self, byte: int, documents: list[bytes]) -> bool:
        """Process one byte, and return whether it closes the array."""
        if byte == 0x22:  # a quote
            self._in_text = not self._in_text
        elif byte == 0x5C:  # a backslash hides the next byte, which may be in the next piece
            self._position += 1
        elif byte == 0x7B:
            if not self._depth:
                self._object_start = self._position - 1
            self._depth += 1
        elif byte == 0x7D:
            if self._depth == 1:
                documents.append(bytes(self._buffer[self._object_start : self._position]))
            self._depth = max(self._depth - 1, 0)
        elif not self._depth:
            # An array inside the outer one is ignored, and its end is not the end of the outer one.
            self._brackets += 1 if byte == 0x5B else -1
            self.ended = self._brackets < 0
        return self.ended
