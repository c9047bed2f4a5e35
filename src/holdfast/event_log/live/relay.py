"""Tells other processes what a run of this process shows, and shows runs that others tell of.

A relay reads its run as any reader does, and so costs a run nothing else. What is lost on the way is read
in the journal, or told again when it is wanted again.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator

import msgspec

from holdfast.event_log.item_encoding import encode_item
from holdfast.event_log.live.link_messages import (
    ItemsShown,
    LinkMessage,
    RunBegun,
    RunEnded,
    TextTold,
    pack_entries,
    split_text,
)
from holdfast.event_log.live.live_run import Entry, LiveRun
from holdfast.event_log.positions import Position, TextDigest, parse_position
from holdfast.event_log.stream_items import (
    NoticeItem,
    ReasoningItem,
    TextItem,
    WithdrawnItem,
)
from holdfast.resilience.system_clock import new_run_id
from holdfast.sessions.session_index import SessionIndex

SECONDS_BETWEEN_MESSAGES = 0.05
"""Seconds between two messages about one run; what happens meanwhile is in the next one."""

_ITEMS: msgspec.json.Decoder[TextItem | ReasoningItem | WithdrawnItem | NoticeItem | None]
_ITEMS = msgspec.json.Decoder(TextItem | ReasoningItem | WithdrawnItem | NoticeItem | None)


class Relay:
    """Tells other processes what one run in progress shows.

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

    def tell_all(self) -> None:
        """Tell what the run shows now, for a process that does not know it."""
        self._tell(self._subscription.take_ready())
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
        """Tell what happens, until the run ends."""
        try:
            while entries := await self._subscription.take_all():
                self._tell(entries)
                await asyncio.sleep(SECONDS_BETWEEN_MESSAGES)
        finally:
            self._subscription.leave()
            self._send(RunEnded(*self._name, self._run))

    def _tell(self, entries: list[Entry]) -> None:
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
    """A run that another process drives, as this process was told of it.

    Args:
        begun: what it shows at first.
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
        """Add a piece of what the run showed at first."""
        if len(self.live.reply_in_progress.text) < self._size:
            self._show(message.position, message.item)
            self._size = self._size if len(self.live.reply_in_progress.text) < self._size else 0

    def add_items(self, message: ItemsShown) -> None:
        """Show what happens next; a message that is missing breaks the mirror."""
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
        """Show the records up to a place, which are in the journal before anybody tells of them."""
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
