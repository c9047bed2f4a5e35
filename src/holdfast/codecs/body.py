"""One response body, in any pieces: an event stream, or a whole JSON text, judged by its first bytes.

Servers send JSON under the name of an event stream, and the reverse; the content type is therefore
not asked. This module must never know what an event or a body means, and never raise on any bytes.
"""

from __future__ import annotations

from holdfast.codecs.json_text import UNREADABLE, kind_of, read_json
from holdfast.codecs.sse import LARGEST_EVENT, EventTooLargeError, SseDecoder, SseEvent
from holdfast.codecs.wire import RESPONSE_OBJECT
from holdfast.core.deltas import NotAReply

_FIELDS = (b"data", b"event", b"id", b"retry", b":")
_ENOUGH = 6
_BLANK = b" \t\r\n"
_BOM = b"\xef\xbb\xbf"


class Body:
    r"""Gives the events of a stream as they come, and a whole body at its end.

    Args:
        limit: the largest event or whole body, in bytes.

    Attributes:
        problem: why the bytes are no body of this kind; nothing is read after it.
        streamed: the body is an event stream.

    >>> body = Body()
    >>> body.feed(b'data: {"a": 1}\n\n')
    [(b'', b'{"a": 1}')]
    >>> whole = Body()
    >>> whole.feed(b'{"a": 1}'), whole.close(), whole.value()
    ([], [], {'a': 1})
    """

    __slots__ = ("_held", "_limit", "_sse", "problem", "streamed")

    def __init__(self, limit: int = LARGEST_EVENT) -> None:
        self._limit = limit
        self._held = bytearray()
        self._sse: SseDecoder | None = None
        self.problem: NotAReply | None = None
        self.streamed = False

    def feed(self, data: bytes) -> list[SseEvent]:
        """The events that these bytes complete; none for a whole body."""
        if self.problem is not None:
            return []
        if self._sse is None:
            self._held += data
            if not self._begins_a_stream():
                if len(self._held) > self._limit:
                    self._held.clear()
                    self.problem = NotAReply("body", f"more than {self._limit} bytes")
                return []
            self._sse, data = SseDecoder(self._limit), bytes(self._held)
            self._held.clear()
            self.streamed = True
        try:
            return self._sse.feed(data)
        except EventTooLargeError as error:
            self.problem = NotAReply("event", f"more than {self._limit} bytes")
            return error.events

    def close(self) -> list[SseEvent]:
        """The event that lacked its blank line, if one was under way."""
        if self._sse is None or self.problem is not None:
            return []
        try:
            return self._sse.close()
        except EventTooLargeError as error:
            self.problem = NotAReply("event", f"more than {self._limit} bytes")
            return error.events

    def value(self) -> object:
        """The value of a whole body, at its end; UNREADABLE sets `problem`."""
        text = bytes(self._held).removeprefix(_BOM)
        self._held.clear()
        value = read_json(text)
        if not isinstance(value, dict):
            got = _looks_like(text) if value is UNREADABLE else kind_of(value)
            self.problem = self.problem or NotAReply(RESPONSE_OBJECT, got)
        return value

    def _begins_a_stream(self) -> bool:
        start = bytes(self._held[:64]).removeprefix(_BOM).lstrip(_BLANK)
        if len(start) < _ENOUGH:
            return start[:1] == b":" or any(start.startswith(name + b":") for name in _FIELDS[:4])
        name = start.partition(b":")[0] if b":" in start else b""
        return start[:1] == b":" or name in _FIELDS


def _looks_like(text: bytes) -> str:
    """What a text that is no JSON seems to be; never a part of it, since that may hold secrets."""
    first = text.lstrip(_BLANK)[:1]
    if not first:
        return "empty body"
    if first == b"<":
        return "HTML page"
    return "cut or malformed JSON" if first in (b"{", b"[") else "plain text"
