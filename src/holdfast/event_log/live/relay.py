"""Shows the run of this process to other processes, and their runs here, by messages.

A relay reads its run as any reader does, and so costs a run nothing else. A message that is lost on the
way is read in the journal, or sent again when it is wanted again. Each fits into a NOTIFY of PostgreSQL.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

import msgspec
from msgspec import Raw, Struct

from holdfast.event_log.item_encoding import encode_item
from holdfast.event_log.live.live_run import Entry, LiveRun
from holdfast.event_log.positions import Position, TextDigest, parse_position
from holdfast.event_log.stream_items import (
    EventItem,
    NoticeItem,
    ReasoningItem,
    TextItem,
    WithdrawnItem,
)
from holdfast.journal.encoding import to_json
from holdfast.journal.live_link import LARGEST_MESSAGE
from holdfast.resilience.system_clock import new_run_id
from holdfast.sessions.session_index import SessionIndex

SECONDS_BETWEEN_MESSAGES = 0.05
"""Seconds between two messages about one run; the items of this time are in the next one."""

_ITEMS: msgspec.json.Decoder[TextItem | ReasoningItem | WithdrawnItem | NoticeItem | None]
_ITEMS = msgspec.json.Decoder(TextItem | ReasoningItem | WithdrawnItem | NoticeItem | None)
_LONGEST_TEXT = 1_000  # characters; a character takes at most 6 bytes
_ROOM = LARGEST_MESSAGE - 1_200  # for the rest of a message, with the name of the session


class Relay:
    """Sends the items of one run in progress to other processes.

    Args:
        name: the sender, the tenant and the session.
        live: the run.
        send: sends a message to all processes.
    """

    def __init__(
        self, name: tuple[str, str, str], live: LiveRun, send: Callable[[LinkMessage], None]
    ) -> None:
        self._name = name
        self._run = new_run_id()
        self._live = live
        self._send = send
        self._number = 0
        self._subscription, seen = live.subscribe()
        self._digest = TextDigest(seen.text)

    @property
    def is_over(self) -> bool:
        """Whether the run shows nothing more."""
        return self._live.is_closed

    def send_all(self) -> None:
        """Send the text that the run shows now, for a process that does not know it."""
        self._send_items(self._subscription.take_ready())
        seen = self._live.reply_in_progress
        sequence, key, attempt, text = seen.position.sequence, seen.key, seen.attempt, seen.text
        begun = RunBegun(
            *self._name,
            run=self._run,
            number=self._number,
            sequence=sequence,
            key=key,
            attempt=attempt,
            size=len(text),
        )
        self._send(begun)
        item = TextItem("", key, 0, text, attempt)
        for entry in split_text(item, sequence, TextDigest()) if text else ():
            encoded = msgspec.Raw(entry.encoded)
            self._send(TextTold(*self._name, self._run, str(entry.position), encoded))

    async def run(self) -> None:
        """Send the items until the run ends."""
        try:
            while entries := await self._subscription.take_all():
                self._send_items(entries)
                await asyncio.sleep(SECONDS_BETWEEN_MESSAGES)
        finally:
            self._subscription.leave()
            self._send(RunEnded(*self._name, self._run))

    def _send_items(self, entries: list[Entry]) -> None:
        for group in pack_entries(self._split_long(entries)):
            self._send(ItemsShown(*self._name, self._run, self._number, group))
            self._number += 1

    def _split_long(self, entries: list[Entry]) -> Iterator[Entry]:
        """Yield the entries, with texts in pieces that fit into messages."""
        for entry in entries:
            item = entry.item
            if not isinstance(item, TextItem):
                yield entry
                continue
            if not item.offset:
                self._digest = TextDigest()
            yield from split_text(item, entry.position.sequence, self._digest)


class Mirror:
    """A run that another process drives, made from its messages.

    Args:
        begun: its state at first.
        journal: the journal of its tenant.
    """

    def __init__(self, begun: RunBegun, journal: SessionIndex) -> None:
        self.run = begun.run
        self._session = begun.session
        self._journal = journal
        self._number = begun.number
        self._size = begun.size
        self.live = LiveRun(begun.sequence, encode_item)
        self.live.reply_in_progress.key = begun.key
        self.live.reply_in_progress.set_attempt(begun.attempt)
        self._waiting: deque[ItemsShown] = deque()
        self._task: asyncio.Task[None] | None = None
        self.is_broken = False
        """Whether a message was lost."""

    @property
    def is_ready(self) -> bool:
        """Whether everything that the run showed at first has arrived."""
        return len(self.live.reply_in_progress.text) >= self._size

    def add_text(self, message: TextTold) -> None:
        """Add a piece of the text that the run showed at first."""
        if len(self.live.reply_in_progress.text) < self._size:
            self._show(message.position, message.item)
            self._size = self._size if len(self.live.reply_in_progress.text) < self._size else 0

    def add_items(self, message: ItemsShown) -> None:
        """Show the next items; a message that is missing breaks the mirror."""
        if message.number != self._number or not self.is_ready:
            self.is_broken = True
            self.close()
            return
        self._number += 1
        self._waiting.append(message)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._show_waiting())

    async def _show_waiting(self) -> None:
        while self._waiting and not self.is_broken:
            for position, item in self._waiting.popleft().items:
                if bytes(item) == b"null":
                    await self._show_records(parse_position(position))
                else:
                    self._show(position, item)

    async def _show_records(self, position: Position) -> None:
        """Show the records up to a place, which are in the journal before anybody sends them."""
        sequence = self.live.sequence
        if sequence < position.sequence:
            records = await self._journal.read(self._session, sequence)
            for record in records[: position.sequence - sequence]:
                self.live.publish(record.event)

    def _show(self, position: str, encoded: msgspec.Raw) -> None:
        item = _ITEMS.decode(encoded)
        if item is not None:
            self.live.relay(Entry(item, parse_position(position), bytes(encoded)))

    def close(self) -> None:
        """Show nothing more."""
        self.live.close()
        if self._task is not None and self.is_broken:
            self._task.cancel()


class _Message(Struct, frozen=True, array_like=True, tag=True):
    sender: str
    tenant: str
    session: str


class Present(_Message, frozen=True, array_like=True, tag="p"):
    """There is such a process. It is of no tenant."""


class Wanted(_Message, frozen=True, array_like=True, tag="w"):
    """A process has readers of a run that it does not drive."""


class Woken(_Message, frozen=True, array_like=True, tag="c"):
    """Something about a session has changed."""


class ListWanted(_Message, frozen=True, array_like=True, tag="m"):
    """A process has readers of the lists of a tenant. It is of no session."""


class Changed(_Message, frozen=True, array_like=True, tag="h"):
    """Records of a session were saved, or of more than can be named if it is ""; only for readers of lists."""


class ActAsked(_Message, frozen=True, array_like=True, tag="a"):
    """There is an act for the driver of a run."""


class ActDone(_Message, frozen=True, array_like=True, tag="d"):
    """An act has a result."""

    act: str


class LimitsTold(_Message, frozen=True, array_like=True, tag="l"):
    """How a process uses the endpoints of models. It is of no tenant."""

    uses: tuple[Raw, ...]


class RunBegun(_Message, frozen=True, array_like=True, tag="b"):
    """The text that a run shows at this moment: `size` characters, which follow in `TextTold`.

    `run` names the run in progress, and `number` is the number of the next `ItemsShown`.
    """

    run: str
    number: int
    sequence: int
    key: str
    attempt: int
    size: int


class TextTold(_Message, frozen=True, array_like=True, tag="t"):
    """A piece of the text that a run shows at the moment of its `RunBegun`."""

    run: str
    position: str
    item: Raw


class ItemsShown(_Message, frozen=True, array_like=True, tag="i"):
    """The next items of a run, with their positions; an item that is null is a record of the journal."""

    run: str
    number: int
    items: tuple[tuple[str, Raw], ...]


class RunEnded(_Message, frozen=True, array_like=True, tag="e"):
    """A run shows nothing more."""

    run: str


LinkMessage: TypeAlias = (
    Present
    | Wanted
    | Woken
    | ListWanted
    | Changed
    | ActAsked
    | ActDone
    | LimitsTold
    | RunBegun
    | TextTold
    | ItemsShown
    | RunEnded
)

_decoder: msgspec.json.Decoder[LinkMessage] = msgspec.json.Decoder(LinkMessage)


def encode_message(message: LinkMessage) -> str:
    """Return a message as text."""
    return to_json(message).decode()


def decode_message(text: str) -> LinkMessage | None:
    """Return the message; None for one of another version."""
    try:
        return _decoder.decode(text)
    except msgspec.DecodeError:
        return None


def split_text(item: TextItem, sequence: int, digest: TextDigest) -> Iterator[Entry]:
    """Yield a text in pieces that fit into messages.

    Args:
        item: the text.
        sequence: the number of records before the reply.
        digest: of the text of the reply before the item; the item is added to it.
    """
    for start in range(0, len(item.text), _LONGEST_TEXT):
        piece, offset = item.text[start : start + _LONGEST_TEXT], item.offset + start
        digest.add(piece)
        place = Position(sequence, offset + len(piece), str(digest))
        part = TextItem(str(place), item.key, offset, piece, item.attempt)
        yield Entry(part, place, to_json(part))


def pack_entries(entries: Iterable[Entry]) -> Iterator[tuple[tuple[str, Raw], ...]]:
    """Yield entries in groups that fit into messages. A notice that is too large is left out.

    Args:
        entries: the entries; long texts were split before.
    """
    group: list[tuple[str, Raw]] = []
    size = 0
    for entry in entries:
        is_event = isinstance(entry.item, EventItem)
        encoded = b"null" if is_event else entry.encoded
        if len(encoded) > _ROOM:
            continue
        if size + len(encoded) > _ROOM:
            yield tuple(group)
            group, size = [], 0
        group.append((str(entry.position), Raw(encoded)))
        size += len(encoded) + 60
    if group:
        yield tuple(group)
