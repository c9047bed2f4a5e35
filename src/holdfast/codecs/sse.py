"""Parses server-sent events from bytes that arrive in any pieces.

It works on bytes and never decodes text, so a character may be split between two pieces. Each byte
is examined a bounded number of times, so a hostile server cannot cause quadratic work. Some servers
write a JSON text between the events without `data:`, for example an error; it is an event too. This
module never interprets an event.
"""

from __future__ import annotations

from operator import methodcaller
from typing import TypeAlias

SseEvent: TypeAlias = tuple[bytes, bytes]
"""The event's name (empty for the default, "message") and its data; a plain tuple, for speed."""

LARGEST_EVENT = 64 * 1024 * 1024
"""The default size limit of one event, in bytes."""

_BOM = b"\xef\xbb\xbf"
# Numbers, because searching for a number is twice as fast as searching for a bytes object.
_LF, _CR = 10, 13
_FIELDS = frozenset({b"data", b"event", b"id", b"retry", b"error"})
_JSON_OPENINGS = frozenset({b"{", b"["})
_IS_NAME = methodcaller("startswith", b"event: ")
_IS_DATA = methodcaller("startswith", b"data: ")


class EventTooLargeError(ValueError):
    """An event is larger than the limit; `.events` are the complete events before it."""

    def __init__(self, limit: int, events: list[SseEvent]) -> None:
        super().__init__(f"one event is larger than {limit} bytes")
        self.events = events


class SseDecoder:
    r"""Parses one event stream.

    Lines end in LF, CR or CRLF. Comments and lines with unknown fields are counted and dropped. An
    event without data is dropped too. A line `error: ...` is an event named `error`.

    Args:
        limit: the largest event, in bytes.

    Attributes:
        comments: the number of lines that begin with a colon; servers send them to keep a connection open.
        unknown_lines: the number of lines with unknown fields; many of them suggest another format.
        last_id: the last `id` field.
        retry: the last `retry` field, in milliseconds.

    >>> decoder = SseDecoder()
    >>> decoder.feed(b"event: ping\r\ndata: 1\r")
    []
    >>> decoder.feed(b"\n\r\ndata: 2")
    [(b'ping', b'1')]
    >>> decoder.close()
    [(b'', b'2')]
    """

    __slots__ = (
        "_after_cr",
        "_buffer",
        "_limit",
        "_past_bom",
        "comments",
        "last_id",
        "retry",
        "unknown_lines",
    )

    def __init__(self, limit: int = LARGEST_EVENT) -> None:
        self._limit = limit
        self._buffer = bytearray()
        self._after_cr = False
        self._past_bom = False
        self.comments = 0
        self.unknown_lines = 0
        self.last_id = b""
        self.retry: int | None = None

    def feed(self, data: bytes) -> list[SseEvent]:
        """Return the events that these bytes complete.

        Raises:
            EventTooLargeError: an event is larger than the limit; the decoder cannot be used any more.
        """
        # Nearly every read holds complete events of one `data:` line each, ended by two LF.
        if self._buffer or not self._past_bom or self._after_cr or len(data) > self._limit:
            return self._feed_any(data)
        if data[-2:] == b"\n\n" and _CR not in data:
            line, end = data.find(_LF), len(data) - 2
            if line == end and data[:6] == b"data: ":
                return [(b"", data[6:-2])]
            # The other common form: the name on one line, the data on the next.
            if (
                data[:7] == b"event: "
                and data[line + 1 : line + 7] == b"data: "
                and data.find(_LF, line + 1) == end
            ):
                return [(data[7:line], data[line + 7 : -2])]
            return _split_plain_events(data) or self._parse_blocks(data[:-2].split(b"\n\n"))
        if data[-4:] == b"\r\n\r\n":
            end = len(data) - 4
            if data.find(_CR) == end and data.find(_LF) == end + 1 and data[:6] == b"data: ":
                return [(b"", data[6:-4])]
            # A search for one byte is many times faster than one for two.
            pieces = data.split(b"\r")
            if {piece[:1] for piece in pieces[1:]} == {b"\n"}:
                return self._parse_blocks(b"".join(pieces)[:-2].split(b"\n\n"))
        return self._feed_any(data)

    def close(self) -> list[SseEvent]:
        """Return the last event if its blank line is missing."""
        block = bytes(self._buffer)
        self._buffer.clear()
        if block.startswith(_BOM) and not self._past_bom:
            block = block[3:]
        return self._parse_blocks([block])

    def _feed_any(self, data: bytes) -> list[SseEvent]:
        data = self._normalise_newlines(data)
        if not self._past_bom and not (data := self._skip_bom(data)):
            return []
        buffer = self._buffer
        # A large piece is copied as seldom as possible, which costs as much as reading its events.
        end = data.rfind(b"\n\n") + 2
        if end < 2:
            # The two LF may be in different pieces.
            end = 1 if buffer[-1:] == data[:1] == b"\n" else 0
        if not end:
            buffer += data
            if len(buffer) > self._limit:
                raise EventTooLargeError(self._limit, [])
            return []
        text = b"".join((buffer, data[:end])) if buffer else data[:end]
        buffer[:] = data[end:]
        if len(text) <= self._limit and (events := _split_plain_events(text)) is not None:
            return events
        return self._parse_blocks(text.split(b"\n\n")[:-1])

    def _skip_bom(self, data: bytes) -> bytes:
        """Drop a byte order mark at the start; return nothing while more bytes are needed to decide."""
        if self._buffer:
            data = bytes(self._buffer) + data
            self._buffer.clear()
        if len(data) < len(_BOM) and _BOM.startswith(data):
            self._buffer += data
            return b""
        self._past_bom = True
        return data.removeprefix(_BOM)

    def _normalise_newlines(self, data: bytes) -> bytes:
        if self._after_cr and data:
            self._after_cr = False
            if data[:1] == b"\n":
                data = data[1:]
        if b"\r" in data:
            self._after_cr = data[-1:] == b"\r"
            data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        return data

    def _parse_blocks(self, blocks: list[bytes]) -> list[SseEvent]:
        events: list[SseEvent] = []
        for block in blocks:
            if len(block) > self._limit:
                raise EventTooLargeError(self._limit, events)
            if block[:6] == b"data: " and b"\n" not in block:
                events.append((b"", block[6:]))
            elif block[:7] == b"event: " and block.count(b"\n") == 1:
                name, _, data = block.partition(b"\n")
                if data[:6] == b"data: ":
                    events.append((name[7:], data[6:]))
                else:
                    events += self._parse_block(block)
            elif block:
                events += self._parse_block(block)
        return events

    def _parse_block(self, block: bytes) -> list[SseEvent]:
        name = b""
        data: list[bytes] = []
        unframed: list[bytes] = []
        for line in block.split(b"\n"):
            field, colon, value = line.partition(b":")
            if line[:1] in _JSON_OPENINGS or (unframed and field not in _FIELDS):
                unframed.append(line)
                continue
            if value[:1] == b" ":
                value = value[1:]
            if field == b"data":
                data.append(value)
            elif field == b"event":
                name = value
            elif field == b"error" and colon:
                # Not a standard field, but some servers end a failed reply with it.
                name = b"error"
                data.append(value)
            elif not field:
                self.comments += bool(colon)
            else:
                self._note_field(field, value)
        events = [(name, b"\n".join(data))] if data else []
        if unframed:
            events.append((b"", b"\n".join(unframed)))
        return events

    def _note_field(self, field: bytes, value: bytes) -> None:
        if field == b"id":
            if b"\0" not in value:
                self.last_id = value
        elif field == b"retry":
            # A longer value is not a plausible time, and int() of a long text takes more than linear time.
            if value.isdigit() and len(value) < 16:
                self.retry = int(value)
        else:
            self.unknown_lines += 1


def _split_plain_events(text: bytes) -> list[SseEvent] | None:
    """Split a text in which all events have one of the two usual forms; None for any other text.

    An event is one `data:` line, or a line with its name and a `data:` line, and a blank line.
    """
    if text[-2:] != b"\n\n":
        return None
    if text[:6] == b"data: ":
        payloads = text[6:-2].split(b"\n\ndata: ")
        events = [(b"", payload) for payload in payloads if _LF not in payload]
        return events if len(events) == len(payloads) else None
    # A split at one byte is many times faster than one at the blank lines.
    lines = text[:-1].split(b"\n")
    names, payloads = lines[:-1:3], lines[1::3]
    if (
        len(lines) % 3
        or any(lines[2::3])
        or not all(map(_IS_NAME, names))
        or not all(map(_IS_DATA, payloads))
    ):
        return None
    return [(name[7:], payload[6:]) for name, payload in zip(names, payloads, strict=True)]
