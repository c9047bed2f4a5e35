"""Turns the events and notices of a session into the items of its event log.

The same fold serves the live stream and the records of a journal, so a reader sees the same text
either way. It must never hold more than the reply in progress.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import get_args

import msgspec
from msgspec import UNSET
from typing_extensions import TypeIs

from holdfast.codecs.hosted_calls import find_citations, find_hosted_calls
from holdfast.core.deltas import ReasoningDelta, TextDelta
from holdfast.core.events import (
    Event,
    ModelFailed,
    ModelReplied,
    OutputChecked,
    TurnInterrupted,
    TurnStopped,
)
from holdfast.core.messages import Opaque, Reply
from holdfast.core.notices import (
    AttemptAbandoned,
    AttemptStarted,
    CustomNotice,
    FromAgent,
    Notice,
    ReplyReplaced,
    RetryScheduled,
)
from holdfast.event_log.positions import START, Position, TextDigest, begins_with
from holdfast.event_log.stream_items import (
    EventItem,
    NoticeItem,
    ReasoningItem,
    StreamItem,
    TextItem,
    WithdrawnItem,
)
from holdfast.journal.encoding import to_json

_EVENTS = frozenset(get_args(Event))

ASKED_AGAIN = "The model is asked again for this reply."
NOT_ACCEPTED = "The text belongs to an attempt that was not accepted."
NOT_FITTING = "The output does not fit its type."


class TextFold:
    """The text of a session that one reader, or one run in progress, has shown.

    Args:
        position: the place of the reader; the items that follow are those after it.
    """

    __slots__ = (
        "_abandoned",
        "_attempt",
        "_digest",
        "_is_replaced",
        "_is_stopped",
        "_parts",
        "_reasoned",
        "key",
        "position",
    )

    def __init__(self, position: Position = START) -> None:
        self.position = position
        self.key = ""
        """The model call in progress; "" if there is none."""
        self._attempt = 0
        self._parts: list[str] = []
        self._digest: TextDigest | None = None  # None while the shown text is not known
        self._reasoned = 0
        self._abandoned = ""
        self._is_replaced = False
        self._is_stopped = False

    @property
    def text(self) -> str:
        """The text of the reply in progress, as far as this fold has seen it."""
        return "".join(self._parts)

    @property
    def attempt(self) -> int:
        """The attempt in progress; 0 if there is none."""
        return self._attempt

    def set_attempt(self, attempt: int) -> None:
        """Set the attempt in progress."""
        self._attempt = attempt

    def follow(self, item: StreamItem, position: Position) -> None:
        """Take over an item that another fold has shown, and that is no record.

        Args:
            item: the item.
            position: the place after it.
        """
        if isinstance(item, TextItem):
            if not item.offset:
                self._parts = []
            self._parts.append(item.text)
            self.key, self._attempt = item.key, item.attempt
        elif isinstance(item, WithdrawnItem):
            self._parts = []
        elif isinstance(item, NoticeItem) and item.name == "attempt_started":
            key, attempt = item.fields.get("key"), item.fields.get("attempt")
            if isinstance(key, str) and key.endswith(".model") and isinstance(attempt, int):
                self.key, self._attempt = key, attempt
        self.position = position

    def feed(self, item: Event | Notice) -> Iterator[StreamItem]:
        """Yield the items that an event or notice becomes."""
        if isinstance(item, TextDelta):
            if not self._is_stopped:  # the words of a stopped turn are in its event
                yield from self._add_text(item.text)
        elif is_event(item):
            yield from self._add_event(item)
        elif isinstance(item, ReasoningDelta):
            yield from self._add_reasoning(item.text)
        else:
            yield from self._add_notice(item)

    def show_live(self, key: str, attempt: int, text: str) -> Iterator[StreamItem]:
        """Yield the part of a reply in progress that a reader at this place misses.

        Args:
            key: the model call.
            attempt: its attempt.
            text: its text so far.
        """
        for item in self._show(key, text, NOT_ACCEPTED):
            yield msgspec.structs.replace(item, attempt=attempt)
        self.key, self._attempt = key, attempt

    def forget_text(self, key: str, attempt: int = 0) -> Iterator[StreamItem]:
        """Yield the withdrawal of the text that a reader has, if it has any.

        Args:
            key: the model call that begins again.
            attempt: its attempt.
        """
        self._attempt = attempt
        yield from self._withdraw(key, NOT_ACCEPTED)

    def _add_text(self, text: str) -> Iterator[StreamItem]:
        if self._is_replaced or not text:
            return  # it is part of the reply that follows
        if self._digest is None:
            if self.position.offset:  # another attempt, whose beginning was not seen
                yield from self._withdraw(self.key, NOT_ACCEPTED)
            self._digest = TextDigest()
        offset = self.position.offset
        self._digest.add(text)
        self._parts.append(text)
        self.position = Position(self.position.sequence, offset + len(text), str(self._digest))
        yield TextItem(str(self.position), self.key, offset, text, self._attempt)

    def _add_reasoning(self, text: str) -> Iterator[StreamItem]:
        if text:
            yield ReasoningItem(self.key, self._reasoned, text, self._attempt)
            self._reasoned += len(text)

    def _add_notice(self, notice: Notice) -> Iterator[StreamItem]:
        if isinstance(notice, AttemptAbandoned):
            self._abandoned = notice.error.safe
        elif isinstance(notice, RetryScheduled) and notice.key == self.key and self._abandoned:
            # Otherwise the next attempt may continue the text.
            yield from self._withdraw(notice.key, self._abandoned)
        elif isinstance(notice, AttemptStarted) and notice.key.endswith(".model"):
            if not notice.continues:
                yield from self._withdraw(self.key or notice.key, self._abandoned or ASKED_AGAIN)
                self._reasoned = 0
            self._abandoned = ""
            self.key, self._attempt = notice.key, notice.attempt
        elif isinstance(notice, ReplyReplaced):
            self._is_replaced = True
        yield to_notice_item(notice)

    def _add_event(self, event: Event) -> Iterator[StreamItem]:
        text = find_text(event)
        if text is not None:
            yield from self._show(self.key or event.key, text, NOT_ACCEPTED)
        self._is_stopped = isinstance(event, TurnStopped)
        sequence, turn = self.position.sequence + 1, turn_of_key(event.key)
        if text is not None:
            self._end_reply()
        self.position = Position(sequence, self.position.offset, self.position.digest)
        item = EventItem(str(self.position), sequence, turn, event)
        yield _add_provider(item, event.reply) if isinstance(event, ModelReplied) else item
        if isinstance(event, OutputChecked) and not event.parsed_by:
            key = event.key.removesuffix(".output") + ".model"
            yield WithdrawnItem(str(self.position), key, NOT_FITTING)

    def _show(self, key: str, text: str, reason: str) -> Iterator[StreamItem]:
        """Yield the rest of a text, after a withdrawal if another one was shown."""
        if not begins_with(text, self.position):
            yield from self._withdraw(key, reason)
        offset, sequence = self.position.offset, self.position.sequence
        self._digest, self._parts = TextDigest(text), [text]
        if rest := text[offset:]:
            self.position = Position(sequence, len(text), str(self._digest))
            yield TextItem(str(self.position), key, offset, rest, self._attempt)

    def _withdraw(self, key: str, reason: str) -> Iterator[StreamItem]:
        if self.position.offset:
            self._forget_text()
            yield WithdrawnItem(str(self.position), key, reason, self._attempt)

    def _end_reply(self) -> None:
        self._forget_text()
        self.key, self._attempt, self._reasoned = "", 0, 0
        self._abandoned, self._is_replaced = "", False

    def _forget_text(self) -> None:
        self.position = Position(self.position.sequence)
        self._parts, self._digest = [], None


def _add_provider(item: EventItem, reply: Reply) -> EventItem:
    """Return the item of a reply with the calls and citations of the provider."""
    if not any(isinstance(part, Opaque) or getattr(part, "extra", None) for part in reply.parts):
        return item
    hosted, citations = find_hosted_calls(reply.message), find_citations(reply.message)
    return msgspec.structs.replace(item, hosted=hosted or UNSET, citations=citations or UNSET)


def find_text(event: Event) -> str | None:
    """Return the text that stays of the reply in progress; None if the event does not end it."""
    if isinstance(event, ModelReplied):
        return event.reply.text
    if isinstance(event, (ModelFailed, TurnInterrupted)):
        return event.partial.text if event.partial is not None else ""
    return event.text if isinstance(event, TurnStopped) else None


def is_event(item: Event | Notice) -> TypeIs[Event]:
    """Whether an item of a run is saved in the journal."""
    return type(item) in _EVENTS


def turn_of_key(key: str) -> int:
    """Return the number of the turn to which a key belongs.

    >>> turn_of_key("t12.i0.model")
    12
    """
    number = key.partition(".")[0].removeprefix("t")
    return int(number) if number.isdecimal() else 0


def to_notice_item(notice: Notice) -> NoticeItem:
    """Return the item of a notice that has no item of its own.

    >>> to_notice_item(ReplyReplaced("t1.i0.model"))
    NoticeItem(name='reply_replaced', fields={'key': 't1.i0.model'})
    """
    if isinstance(notice, FromAgent):
        inner = notice.item
        shown: object = (
            {"name": "event", "fields": _to_fields(inner)}
            if is_event(inner)
            else msgspec.to_builtins(to_notice_item(inner))
        )
        return NoticeItem(
            "from_agent", {"key": notice.key, "chain": list(notice.chain), "item": shown}
        )
    return NoticeItem(notice_name(type(notice)), _to_fields(notice))


def _to_fields(item: Event | Notice) -> dict[str, object]:
    """Return the fields as JSON values; none of a user's own notice that JSON cannot express."""
    if not isinstance(item, CustomNotice):
        fields: dict[str, object] = msgspec.to_builtins(item)
        return fields
    try:
        own: dict[str, object] = msgspec.json.decode(to_json(item))
    except (TypeError, ValueError, OverflowError, RecursionError):
        return {}
    return own


@cache
def notice_name(kind: type) -> str:
    """Return the name of a class of notices.

    >>> notice_name(RetryScheduled)
    'retry_scheduled'
    """
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", kind.__name__).lower()
