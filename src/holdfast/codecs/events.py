"""The frame of a decoder whose wire streams typed events, and answers whole with one object.

It knows when a body begins and ends, and what to do with an event that is no JSON; what an event
means is its wire's. This module must never raise on any bytes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Generic, Protocol, TypeVar

from holdfast.codecs.body import Body
from holdfast.codecs.call_arguments import spoil_mended
from holdfast.codecs.json_text import UNREADABLE, kind_of
from holdfast.codecs.sse import LARGEST_EVENT, SseEvent
from holdfast.core.deltas import Delta, EndMissing, NotAReply

_NOTHING = (b"", b"[DONE]", b'"[DONE]"')
_LONGEST_TEXT = 2000


class EventPieces(Protocol):
    """What a wire makes of its objects."""

    ended: bool
    passed_over: dict[str, int]

    def take(self, event: dict[str, object], name: str, out: list[Delta]) -> None:
        """One event; `name` is that of the event stream."""
        ...

    def take_whole(self, body: dict[str, object], out: list[Delta], /) -> None:
        """A whole body."""
        ...

    def cut(self, out: list[Delta]) -> None:
        """Nothing more comes: give what was collected."""
        ...


P = TypeVar("P", bound=EventPieces)


class EventDecoder(ABC, Generic[P]):
    """One response body in, deltas out; a wire adds its quick reading of the commonest events.

    Args:
        content_type: the header's value, or "".
        provider: the preset's name, for the words of errors inside the body.
        limit: the largest event or whole body, in bytes.
    """

    __slots__ = ("_body", "_mended", "_over", "_pieces")

    def __init__(
        self, content_type: str = "", provider: str = "", limit: int = LARGEST_EVENT
    ) -> None:
        self._body = Body(limit, content_type)
        self._pieces = self._begin(provider)
        self._over = False
        # Whether something was mended: pieces may keep a part of an event for a later delta.
        self._mended = False

    @property
    def passed_over(self) -> dict[str, int]:
        """How often each unknown kind of event came."""
        return self._pieces.passed_over

    def feed(self, data: bytes) -> list[Delta]:
        """The deltas that these bytes complete."""
        out: list[Delta] = []
        self._take(self._body.feed(data), out)
        return out

    def close(self) -> list[Delta]:
        """What was held back: a whole body, or what a cut stream left open."""
        out: list[Delta] = []
        if self._over:
            return out
        if self._body.streamed:
            self._take(self._body.close(), out)
            start = len(out)
            self._pieces.cut(out)
            self._spoil(out, start)
            if not self._pieces.ended:
                out.append(EndMissing())
        else:
            value = self._body.value()
            if isinstance(value, dict):
                self._pieces.take_whole(value, out)
                self._spoil(out, 0)
            elif self._body.problem is not None:
                out.append(self._body.problem)
        self._over = True
        return out

    @abstractmethod
    def _begin(self, provider: str) -> P:
        """What reads the objects of this reply."""

    @abstractmethod
    def _read(self, events: list[SseEvent], out: list[Delta]) -> None:
        """Read events, each the quick way or by `_read_carefully`."""

    def _take(self, events: list[SseEvent], out: list[Delta]) -> None:
        if events:
            self._read(events, out)
        if self._body.problem is not None and not self._over:
            self._over = True
            out.append(self._body.problem)

    def _read_carefully(self, name: bytes, payload: bytes, out: list[Delta]) -> None:
        value = self._body.json.read(payload)
        if isinstance(value, dict):
            start = len(out)
            self._pieces.take(value, name.decode("ascii", "replace"), out)
            self._spoil(out, start)
        elif self._pieces.ended or value is None or payload.strip() in _NOTHING:
            return
        elif value is UNREADABLE and name == b"error":
            self._pieces.take(error_of(payload), "error", out)
        elif value is UNREADABLE and b"\n" in payload:
            # Events that lack the blank line between them: one object a line.
            for line in payload.split(b"\n"):
                self._read_carefully(b"", line, out)
        else:
            got = "cut or malformed JSON" if value is UNREADABLE else kind_of(value)
            out.append(NotAReply("event object", got))

    def _spoil(self, out: list[Delta], start: int) -> None:
        self._mended |= self._body.json.has_mended
        if self._mended:
            spoil_mended(out, start)


def error_of(payload: bytes) -> dict[str, object]:
    """The object that an event of errors should have been, when it is only words.

    >>> error_of(b"overloaded")
    {'type': 'error', 'error': {'message': 'overloaded'}}
    """
    words = payload[:_LONGEST_TEXT].decode("utf-8", "replace").strip()
    return {"type": "error", "error": {"message": words}}
