"""What a reader has of a reply in progress, and what it must be told to have the rest.

A reader that comes back may have text of an attempt of another process, which died. It is told so with
the first item that begins another attempt. This module must never wait.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from holdfast.event_log.positions import Position
from holdfast.event_log.stream_items import EventItem, NoticeItem, StreamItem, TextItem
from holdfast.event_log.text_fold import TextFold

Place: TypeAlias = tuple[StreamItem, Position]
"""An item, and the place after it."""


class ReaderState:
    """Joins a reader with a run in progress that has saved as many records as the reader has seen.

    Args:
        fold: the place of the reader.
        seen: what was shown of the run; it must not change before `begin` was read.
    """

    __slots__ = ("_attempt", "_fold", "_key", "_text", "is_behind")

    def __init__(self, fold: TextFold, seen: TextFold) -> None:
        self._fold = fold
        self._key, self._attempt, self._text = seen.key, seen.attempt, seen.text
        self.is_behind = False
        """Whether the reader has text of an attempt that is not in progress."""

    def begin(self) -> Iterator[Place]:
        """Yield what the reader misses of the reply in progress."""
        fold = self._fold
        if self._key or self._text:
            for item in fold.show_live(self._key, self._attempt, self._text):
                yield item, fold.position
        elif fold.position.offset:
            self.is_behind = True  # its text is void as soon as an attempt begins

    def catch_up(self, item: StreamItem, position: Position) -> Iterator[Place]:
        """Yield what the next item of the run is for a reader that is behind.

        Args:
            item: the item.
            position: the place of the run after it.
        """
        fold = self._fold
        if isinstance(item, EventItem):
            for shown in fold.feed(item.event):
                yield shown, fold.position
            self.is_behind = bool(fold.position.offset)
            return
        key = _begins_attempt(item)
        if key is None:
            yield item, fold.position
            return
        self.is_behind = False
        for shown in fold.forget_text(key, item.attempt if isinstance(item, TextItem) else 0):
            yield shown, fold.position
        yield item, position


def _begins_attempt(item: StreamItem) -> str | None:
    """Return the model call of which an attempt begins with this item; None if none does."""
    if isinstance(item, TextItem):
        return item.key
    if isinstance(item, NoticeItem) and item.name == "attempt_started":
        return str(item.fields.get("key", ""))
    return None
