r"""Reads one response body: an event stream or one JSON text.

The first bytes decide which of the two it is. Some servers declare JSON as an event stream, or the
reverse, so the content type decides only when the first bytes allow both. This module never
interprets an event or a body, and never raises on any bytes.

Programs that cut text by UTF-16 units send half a character at the end of one event and the other half
at the beginning of the next, as `"\ud83d"` and `"\ude00"`. Alone, each half would be replaced. So the
first half moves into the later event. No other event is changed, and at most one event waits.
"""

from __future__ import annotations

import re

from holdfast.codecs.json_text import UNREADABLE, JsonReader, json_kind
from holdfast.codecs.sse import LARGEST_EVENT, EventTooLargeError, SseDecoder, SseEvent
from holdfast.codecs.wire import RESPONSE_OBJECT
from holdfast.core.deltas import NotAReply

_FIELDS = (b"data", b"event", b"id", b"retry", b":")
_WHOLE = (b"{", b"[", b"<")
_ENOUGH = 6
_BLANK = b" \t\r\n"
_BOM = b"\xef\xbb\xbf"
_COMPRESSED = {b"\x28\xb5\x2f\xfd": "zstd", b"\x1f\x8b": "gzip"}

# An escape has an odd number of backslashes. A quote behind which an escape follows opens a string.
_FIRST_HALF = re.compile(rb'(?<!\\)(?:\\\\)*(\\u[dD][89abAB][0-9a-fA-F]{2})"')

_SECOND_HALF = re.compile(rb'(?<!\\)"(\\u[dD][c-fC-F][0-9a-fA-F]{2})')


class BodyReader:
    r"""Returns the events of a stream as they arrive, or a whole body at its end.

    Args:
        limit: the largest event or whole body, in bytes.
        content_type: the header's value, or "".

    Attributes:
        json: reads the JSON texts of this body.
        problem: why the body is invalid; nothing is read after it.
        sse: the decoder of the event stream; None until the body proves to be one.

    >>> body = BodyReader()
    >>> body.feed(b'data: {"a": 1}\n\n')
    [(b'', b'{"a": 1}')]
    >>> whole = BodyReader()
    >>> whole.feed(b'{"a": 1}'), whole.close(), whole.read_value()
    ([], [], {'a': 1})
    """

    __slots__ = ("_buffer", "_declared_stream", "_limit", "json", "problem", "sse")

    def __init__(self, limit: int = LARGEST_EVENT, content_type: str = "") -> None:
        self._limit = limit
        self._declared_stream = "event-stream" in content_type.lower()
        self._buffer = bytearray()
        self.json = JsonReader()
        self.sse: SseDecoder | None = None
        self.problem: NotAReply | None = None

    @property
    def is_stream(self) -> bool:
        """Whether the body is an event stream."""
        return self.sse is not None

    def feed(self, data: bytes) -> list[SseEvent]:
        """Return the events that these bytes complete; none for a whole body."""
        if self.problem is not None:
            return []
        if self.sse is None:
            if self._buffer or not self._looks_like_stream(data):
                self._buffer += data
                if not self._looks_like_stream(self._buffer):
                    if len(self._buffer) > self._limit:
                        self._buffer.clear()
                        self.problem = NotAReply("body", f"more than {self._limit} bytes")
                    return []
                data = bytes(self._buffer)
                self._buffer.clear()
            self.sse = SseDecoder(self._limit)
        try:
            return self.sse.feed(data)
        except EventTooLargeError as error:
            return self.note_too_large(error)

    def close(self) -> list[SseEvent]:
        """Return the last event if its blank line is missing."""
        if self.sse is None or self.problem is not None:
            return []
        try:
            return self.sse.close()
        except EventTooLargeError as error:
            return self.note_too_large(error)

    def note_too_large(self, error: EventTooLargeError) -> list[SseEvent]:
        """Record that an event is larger than the limit, and return the events before it."""
        self.problem = NotAReply("event", f"more than {self._limit} bytes")
        return error.events

    def take_text(self) -> bytes:
        """Return the bytes of a whole body without a byte order mark. A second call returns nothing."""
        text = bytes(self._buffer).removeprefix(_BOM)
        self._buffer.clear()
        return text

    def read_value(self, text: bytes | None = None) -> object:
        """Return the value of a whole body; a value that is not an object sets `problem`.

        Args:
            text: the result of `take_text()`, if it was called before.
        """
        text = self.take_text() if text is None else text
        value = self.json.read(text)
        if not isinstance(value, dict):
            kind = describe_text(text) if value is UNREADABLE else json_kind(value)
            self.problem = self.problem or NotAReply(RESPONSE_OBJECT, kind)
        return value

    def _looks_like_stream(self, body: bytes | bytearray) -> bool:
        if body[:1] == b"{":
            return False
        start = bytes(body[:64]).removeprefix(_BOM).lstrip(_BLANK)
        if len(start) < _ENOUGH:
            return start[:1] == b":" or any(start.startswith(name + b":") for name in _FIELDS[:4])
        if self._declared_stream and start[:1] not in _WHOLE:
            return True
        name = start.partition(b":")[0] if b":" in start else b""
        return start[:1] == b":" or name in _FIELDS


def describe_text(text: bytes) -> str:
    """Name the kind of a text that is not JSON. The text itself is not quoted: it may hold secrets."""
    for magic, name in _COMPRESSED.items():
        if text.startswith(magic):
            return f"{name} data, which was not asked for"
    first = text.lstrip(_BLANK)[:1]
    if not first:
        return "empty body"
    if first == b"<":
        return "HTML page"
    return "cut or malformed JSON" if first in _WHOLE else "plain text"


class PairJoiner:
    r"""Passes on the events of one body, and holds one back that ends with half a character.

    It is called for the events that are not read on a fast path: none with half a character is.

    Attributes:
        waiting: an event is held back, so the next one must pass through here too.

    >>> joiner = PairJoiner()
    >>> joiner.feed(b"", b'{"text": "Hi \\ud83d"}')
    []
    >>> joiner.feed(b"", b'{"text": "\\ude00!"}')
    [(b'', b'{"text": "Hi "}'), (b'', b'{"text": "\\ud83d\\ude00!"}')]
    """

    __slots__ = ("_event", "waiting")

    def __init__(self) -> None:
        self._event: SseEvent | None = None
        self.waiting = False

    def feed(self, name: bytes, payload: bytes) -> list[SseEvent]:
        """Return the events that can be read now, in their order."""
        events = self.close()
        if events:
            joined = _join_halves(events[0][1], payload)
            if joined is not None:
                events, payload = [(events[0][0], joined[0])], joined[1]
        if b"\\u" in payload and _FIRST_HALF.search(payload) is not None:
            self._event, self.waiting = (name, payload), True
        else:
            events.append((name, payload))
        return events

    def close(self) -> list[SseEvent]:
        """Return the event that is held back, if there is one."""
        event, self._event, self.waiting = self._event, None, False
        return [] if event is None else [event]


def _join_halves(first: bytes, second: bytes) -> tuple[bytes, bytes] | None:
    """Move the only first half into the event with the only second half; None for any other events."""
    ends, starts = list(_FIRST_HALF.finditer(first)), list(_SECOND_HALF.finditer(second))
    if len(ends) != 1 or len(starts) != 1:
        return None
    half, at = ends[0], starts[0].start(1)
    rest = first[: half.start(1)] + first[half.end(1) :]
    return rest, second[:at] + half[1] + second[at:]
