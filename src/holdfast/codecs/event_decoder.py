"""The base class of decoders for wires that stream typed events or send one whole object.

It finds the events of a body and handles events that are not JSON. The `EventReader` of the wire
interprets the events. This module never raises on any bytes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Generic, Protocol, TypeVar

from holdfast.codecs.body_reader import BodyReader, PairJoiner
from holdfast.codecs.call_arguments import spoil_mended
from holdfast.codecs.error_body import holds_message, unwrap_error_array
from holdfast.codecs.json_text import UNREADABLE, json_kind
from holdfast.codecs.sse import LARGEST_EVENT, SseEvent
from holdfast.core.deltas import CharactersReplaced, Delta, EndMissing, NotAReply

_NOTHING = (b"", b"[DONE]", b'"[DONE]"')
_LONGEST_TEXT = 2000
# Events and whole replies have one of these fields.
_CONTENT_FIELDS = frozenset({"type", "object", "content", "output"})


class EventReader(Protocol):
    """Interprets the objects of one wire."""

    ended: bool
    unknown_counts: dict[str, int]

    def read_event(self, event: dict[str, object], name: str, out: list[Delta]) -> None:
        """Read one event; `name` is its name in the event stream."""
        ...

    def read_whole(self, body: dict[str, object], out: list[Delta], /) -> None:
        """Read a whole body."""
        ...

    def close(self, out: list[Delta]) -> None:
        """End the reply, and add the collected deltas."""
        ...


P = TypeVar("P", bound=EventReader)


class EventDecoder(ABC, Generic[P]):
    """Decodes one response body into deltas; a wire adds a fast path for its most frequent events.

    Args:
        content_type: the header's value, or "".
        provider: the preset's name, for the messages of errors inside the body.
        limit: the largest event or whole body, in bytes.
    """

    __slots__ = ("_body", "_is_over", "_joiner", "_mended", "_reader")

    def __init__(
        self, content_type: str = "", provider: str = "", limit: int = LARGEST_EVENT
    ) -> None:
        self._body = BodyReader(limit, content_type)
        self._reader = self._make_reader(provider)
        self._is_over = False
        self._joiner = PairJoiner()
        # Whether any event was repaired. It stays set: the reader may emit text of that event in a later delta.
        self._mended = False

    @property
    def unknown_counts(self) -> dict[str, int]:
        """The number of events of each unknown kind."""
        return self._reader.unknown_counts

    def feed(self, data: bytes) -> list[Delta]:
        """Return the deltas that these bytes complete."""
        out: list[Delta] = []
        self._handle_events(self._body.feed(data), out)
        return out

    def close(self) -> list[Delta]:
        """Return the remaining deltas: of a whole body, or of a stream that was cut."""
        out: list[Delta] = []
        if self._is_over:
            return out
        if self._body.is_stream:
            self._handle_events(self._body.close(), out)
            for name, payload in self._joiner.close():
                self._read_payload(name, payload, out)
            start = len(out)
            self._reader.close(out)
            self._spoil(out, start)
            if not self._reader.ended:
                out.append(EndMissing())
        else:
            value = unwrap_error_array(self._body.read_value())
            if isinstance(value, dict):
                self._reader.read_whole(_wrap_bare_error(value, is_error=False), out)
                self._spoil(out, 0)
            elif self._body.problem is not None:
                out.append(self._body.problem)
        self._is_over = True
        return out

    @abstractmethod
    def _make_reader(self, provider: str) -> P:
        """Return the reader for the objects of one reply."""

    @abstractmethod
    def _read_events(self, events: list[SseEvent], out: list[Delta]) -> None:
        """Read events, each on the fast path or by `_read_carefully`."""

    def _handle_events(self, events: list[SseEvent], out: list[Delta]) -> None:
        if events:
            self._read_events(events, out)
        if self._body.problem is not None and not self._is_over:
            self._is_over = True
            out.append(self._body.problem)

    def _read_carefully(self, name: bytes, payload: bytes, out: list[Delta]) -> None:
        for event_name, text in self._joiner.feed(name, payload):
            self._read_payload(event_name, text, out)

    def _read_payload(self, name: bytes, payload: bytes, out: list[Delta]) -> None:
        value = unwrap_error_array(self._body.json.read(payload))
        if isinstance(value, dict):
            value = _wrap_bare_error(value, is_error=name == b"error")
            start = len(out)
            self._reader.read_event(value, name.decode("ascii", "replace"), out)
            self._spoil(out, start)
        elif self._reader.ended or value is None or payload.strip() in _NOTHING:
            return
        elif value is UNREADABLE and name == b"error":
            self._reader.read_event(wrap_error_text(payload), "error", out)
        elif value is UNREADABLE and b"\n" in payload:
            # The blank lines between the events are missing: each line is one object.
            for line in payload.split(b"\n"):
                self._read_payload(b"", line, out)
        else:
            kind = "cut or malformed JSON" if value is UNREADABLE else json_kind(value)
            out.append(NotAReply("event object", kind))

    def _spoil(self, out: list[Delta], start: int) -> None:
        if self._body.json.has_mended and not self._mended:
            self._mended = True
            out.append(CharactersReplaced())
        if self._mended:
            spoil_mended(out, start)


def _wrap_bare_error(value: dict[str, object], *, is_error: bool) -> dict[str, object]:
    """Wrap an error without its envelope into the documented object; any other event is unchanged."""
    if value.get("error") or value.get("type") == "error":
        return value
    has_content = any(value.get(name) for name in _CONTENT_FIELDS)
    if is_error or (not has_content and holds_message(value)):
        return {"type": "error", "error": value}
    return value


def wrap_error_text(payload: bytes) -> dict[str, object]:
    """Wrap an error event that is plain text into the documented object.

    >>> wrap_error_text(b"overloaded")
    {'type': 'error', 'error': {'message': 'overloaded'}}
    """
    message = payload[:_LONGEST_TEXT].decode("utf-8", "replace").strip()
    return {"type": "error", "error": {"message": message}}
