"""The frame of a decoder whose wire streams typed events, and answers whole with one object.

It knows when a body begins and ends, and what to do with an event that is no JSON; what an event
means is its wire's. This module must never raise on any bytes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Generic, Protocol, TypeVar

from holdfast.codecs.body_reader import BodyReader
from holdfast.codecs.call_arguments import spoil_mended
from holdfast.codecs.json_text import UNREADABLE, json_kind
from holdfast.codecs.sse import LARGEST_EVENT, SseEvent
from holdfast.core.deltas import Delta, EndMissing, NotAReply

_NOTHING = (b"", b"[DONE]", b'"[DONE]"')
_LONGEST_TEXT = 2000


class EventReader(Protocol):
    """What a wire makes of its objects."""

    ended: bool
    unknown_counts: dict[str, int]

    def read_event(self, event: dict[str, object], name: str, out: list[Delta]) -> None:
        """One event; `name` is that of the event stream."""
        ...

    def read_whole(self, body: dict[str, object], out: list[Delta], /) -> None:
        """A whole body."""
        ...

    def close(self, out: list[Delta]) -> None:
        """Nothing more comes: give what was collected."""
        ...


P = TypeVar("P", bound=EventReader)


class EventDecoder(ABC, Generic[P]):
    """One response body in, deltas out; a wire adds its quick reading of the commonest events.

    Args:
        content_type: the header's value, or "".
        provider: the preset's name, for the words of errors inside the body.
        limit: the largest event or whole body, in bytes.
    """

    __slots__ = ("_body", "_is_over", "_mended", "_reader")

    def __init__(
        self, content_type: str = "", provider: str = "", limit: int = LARGEST_EVENT
    ) -> None:
        self._body = BodyReader(limit, content_type)
        self._reader = self._make_reader(provider)
        self._is_over = False
        # Whether something was mended: pieces may keep a part of an event for a later delta.
        self._mended = False

    @property
    def unknown_counts(self) -> dict[str, int]:
        """How often each unknown kind of event came."""
        return self._reader.unknown_counts

    def feed(self, data: bytes) -> list[Delta]:
        """The deltas that these bytes complete."""
        out: list[Delta] = []
        self._handle_events(self._body.feed(data), out)
        return out

    def close(self) -> list[Delta]:
        """What was held back: a whole body, or what a cut stream left open."""
        out: list[Delta] = []
        if self._is_over:
            return out
        if self._body.is_stream:
            self._handle_events(self._body.close(), out)
            start = len(out)
            self._reader.close(out)
            self._spoil(out, start)
            if not self._reader.ended:
                out.append(EndMissing())
        else:
            value = self._body.read_value()
            if isinstance(value, dict):
                self._reader.read_whole(value, out)
                self._spoil(out, 0)
            elif self._body.problem is not None:
                out.append(self._body.problem)
        self._is_over = True
        return out

    @abstractmethod
    def _make_reader(self, provider: str) -> P:
        """What reads the objects of this reply."""

    @abstractmethod
    def _read_events(self, events: list[SseEvent], out: list[Delta]) -> None:
        """Read events, each the quick way or by `_read_carefully`."""

    def _handle_events(self, events: list[SseEvent], out: list[Delta]) -> None:
        if events:
            self._read_events(events, out)
        if self._body.problem is not None and not self._is_over:
            self._is_over = True
            out.append(self._body.problem)

    def _read_carefully(self, name: bytes, payload: bytes, out: list[Delta]) -> None:
        value = self._body.json.read(payload)
        if isinstance(value, dict):
            start = len(out)
            self._reader.read_event(value, name.decode("ascii", "replace"), out)
            self._spoil(out, start)
        elif self._reader.ended or value is None or payload.strip() in _NOTHING:
            return
        elif value is UNREADABLE and name == b"error":
            self._reader.read_event(wrap_error_text(payload), "error", out)
        elif value is UNREADABLE and b"\n" in payload:
            # Events that lack the blank line between them: one object a line.
            for line in payload.split(b"\n"):
                self._read_carefully(b"", line, out)
        else:
            got = "cut or malformed JSON" if value is UNREADABLE else json_kind(value)
            out.append(NotAReply("event object", got))

    def _spoil(self, out: list[Delta], start: int) -> None:
        self._mended |= self._body.json.has_mended
        if self._mended:
            spoil_mended(out, start)


def wrap_error_text(payload: bytes) -> dict[str, object]:
    """The object that an event of errors should have been, when it is only words.

    >>> wrap_error_text(b"overloaded")
    {'type': 'error', 'error': {'message': 'overloaded'}}
    """
    words = payload[:_LONGEST_TEXT].decode("utf-8", "replace").strip()
    return {"type": "error", "error": {"message": words}}
