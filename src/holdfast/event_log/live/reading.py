"""Reads the event log of a session from a position: the journal first, then the run in progress.

One path serves a reader that begins, one that comes back, and one that follows a session for days. A
reader that comes back may have text of an attempt of another process, which died. It learns that with
the first item that begins another attempt. This module must never hold a truth that the journal does
not have.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from contextlib import aclosing
from typing import Literal, Protocol, TypeAlias

from msgspec import Struct

from holdfast.core.events import TurnClosed, TurnOpened
from holdfast.event_log.item_encoding import encode_item
from holdfast.event_log.live.last_turn import LastTurn, read_last_turn
from holdfast.event_log.live.live_run import Entry, LiveRun, Subscription
from holdfast.event_log.live.session_watch import SessionWatch
from holdfast.event_log.positions import START, Position
from holdfast.event_log.stream_items import (
    EndItem,
    EventItem,
    NoticeItem,
    SessionState,
    StatusItem,
    StreamItem,
    TextItem,
)
from holdfast.event_log.text_fold import TextFold
from holdfast.journal.port import Record
from holdfast.sessions.session_index import SessionIndex

TURN_ENDED: frozenset[SessionState] = frozenset(
    {"completed", "failed", "limit", "cancelled", "stopped", "idle"}
)
"""The states in which a turn has ended."""

TURN_RESTS: frozenset[SessionState] = TURN_ENDED | {"waiting"}
"""The states in which nothing happens until somebody acts."""

_RECORDS_AT_ONCE = 200

Place: TypeAlias = tuple[StreamItem, Position]
"""An item, and the place after it."""


class LiveRuns(Protocol):
    """Finds the run in progress of a session."""

    def is_driven(self, session: str) -> bool:
        """Whether this process drives the last turn of a session."""
        ...

    def find_live(self, session: str) -> LiveRun | None:
        """Return the run in progress; None if there is none."""
        ...

    def want(self, session: str) -> None:
        """Ask for the items of a run that another process drives."""
        ...

    @property
    def poll(self) -> float | None:
        """Seconds after which a reader looks again by itself; None if somebody wakes it."""
        ...


class ReadingEnd(Struct, frozen=True):
    """When a stream of one turn ends.

    Args:
        turn: the number of the turn.
        states: the states of the turn that end the stream.
    """

    turn: int
    states: frozenset[SessionState] = TURN_ENDED


class QuietTime:
    """How long a stream has sent nothing, on the event loop.

    Args:
        seconds: after how many seconds its reader gets a sign that it is still there; None for never.
    """

    def __init__(self, seconds: float | None) -> None:
        self.seconds = seconds
        self._monotonic = asyncio.get_running_loop().time
        self._since = self._monotonic()

    def restart(self) -> None:
        """Begin again: something was sent."""
        self._since = self._monotonic()

    def take_due(self) -> bool:
        """Return whether it was too long; the time begins again then."""
        if self.seconds is None or self._monotonic() - self._since < self.seconds:
            return False
        self._since = self._monotonic()
        return True


class SessionReader:
    """Reads the sessions of one tenant.

    Args:
        journal: the journal of the tenant.
        live: the runs in progress.
        watch: wakes readers.
    """

    def __init__(self, journal: SessionIndex, live: LiveRuns, watch: SessionWatch) -> None:
        self._journal = journal
        self._live = live
        self._watch = watch

    async def find_last_turn(self, session: str) -> LastTurn | None:
        """Return the last turn of a session; None if the session does not exist."""
        is_driven = self._live.is_driven(session)
        return await read_last_turn(self._journal, session, is_driven=is_driven)

    async def wait_for_rest(self, session: str, turn: int, seconds: float | None) -> None:
        """Wait until a turn has ended or asks a question, if it is the last of its session.

        Args:
            session: the session.
            turn: the number of the turn.
            seconds: the longest time to wait; None waits without limit.
        """
        last = await self.find_last_turn(session)
        if last is None or last.turn != turn or last.status in TURN_RESTS:
            return
        entries = self.follow(session, Position(last.records), ReadingEnd(turn, TURN_RESTS))
        try:
            async with asyncio.timeout(seconds):
                async for _ in entries:
                    pass
        except TimeoutError:
            return

    async def read_saved(self, session: str, position: Position) -> AsyncIterator[Entry]:
        """Yield the items of the journal after a position, and do not wait for more."""
        fold = TextFold(position)
        for batch in await self._read_journal(session, fold, None):
            for entry in batch:
                yield entry

    async def follow(
        self, session: str, position: Position = START, end: ReadingEnd | None = None
    ) -> AsyncGenerator[Entry]:
        """Yield the items that a reader at a position misses, and then the new ones.

        Args:
            session: the session.
            position: the place of the reader.
            end: when the stream ends; None follows the session until the reader leaves.
        """
        async with aclosing(self.follow_batches(session, position, end)) as batches:
            async for batch in batches:
                for entry in batch:
                    yield entry

    async def follow_batches(
        self,
        session: str,
        position: Position = START,
        end: ReadingEnd | None = None,
        idle: float | None = None,
    ) -> AsyncGenerator[list[Entry]]:
        """Yield the same as `follow`, in lists of the items that are there at once.

        Args:
            session: the session.
            position: the place of the reader.
            end: when the stream ends.
            idle: yield an empty list after this many seconds without an entry.
        """
        status: LastTurn | None = None
        quiet = QuietTime(idle)
        while True:
            changed = self._watch.prepare(session)
            try:
                fold, latest = TextFold(position), await self.find_last_turn(session)
                if _is_deleted(latest, position):
                    yield [_make_entry(EndItem(str(position), "deleted"), position)]
                    return
                ready: list[Entry] = []
                if latest is not None and _differs(latest, status):
                    status = latest
                    ready = [_make_entry(_to_item(latest, position), position)]
                async with aclosing(self._read_page(session, fold, idle, ready)) as page:
                    async for batch in page:
                        found, is_last = _end_batch(batch, end)
                        position = found[-1].position if found else position
                        status, found = _send_new_turn(status, found)
                        yield found
                        quiet.restart()
                        if is_last:
                            return
                ended = self._find_end(session, latest, end, position)
                if ended is not None:
                    yield [ended]
                    return
                if await self._has_news(session, position):
                    continue
                if latest is not None and latest.status == "running":
                    self._live.want(session)
                while not await self._wait_for_change(changed, quiet):
                    yield []
            finally:
                self._watch.forget(session, changed)

    def _find_end(
        self, session: str, latest: LastTurn | None, end: ReadingEnd | None, position: Position
    ) -> Entry | None:
        """Return the last entry of a stream that ends here; None if it goes on."""
        if end is not None and latest is not None and _is_over(latest, end, position):
            return _make_end(position, "turn_ended")
        return _make_end(position, "shutting_down") if self._watch.has_ended(session) else None

    async def _wait_for_change(self, changed: asyncio.Future[None], quiet: QuietTime) -> bool:
        """Wait until it is time to look again; return False if the stream was idle meanwhile."""
        poll = self._live.poll
        await asyncio.wait([changed], timeout=quiet.seconds if poll is None else poll)
        return changed.done() or (poll is not None and not quiet.take_due())

    async def _has_news(self, session: str, position: Position) -> bool:
        """Whether something happened since the page was read."""
        live = self._live.find_live(session)
        if live is not None and not live.is_closed:
            return True
        entries = await self._journal.find_runs(session, session)
        return bool(entries) and entries[0].records > position.sequence

    async def _read_page(
        self, session: str, fold: TextFold, idle: float | None, ready: list[Entry]
    ) -> AsyncGenerator[list[Entry]]:
        """Yield the ready items and those of the journal, then the run in progress to its end."""
        live = self._live.find_live(session)
        if live is None:
            for batch in _join(ready, await self._read_journal(session, fold, None)):
                yield batch
            return
        subscription, seen = live.subscribe()
        try:
            # Made at the same moment as the subscription begins.
            sequence, state = seen.position.sequence, ReaderState(fold, seen)
            if fold.position.sequence > sequence:
                if ready:
                    yield ready
                await _wait_for_sequence(subscription, fold.position.sequence)
                return
            records = await self._read_journal(session, fold, sequence)
            for batch in _join(ready, records, state):
                yield batch
            last = fold.position
            while not subscription.is_over:
                batch = await subscription.take_all(idle)
                if batch or not subscription.is_over:
                    batch = _catch_up(state, batch) if state.is_behind else batch
                    last = batch[-1].position if batch else last
                    yield batch
            if subscription.is_too_slow:
                yield [_make_end(last, "too_slow")]
        finally:
            subscription.leave()

    async def _read_journal(
        self, session: str, fold: TextFold, sequence: int | None
    ) -> Iterator[list[Entry]]:
        """Return the items of the records after the place of a fold, up to a sequence."""
        after = fold.position.sequence
        records = await self._journal.read(session, after)
        if sequence is not None:
            records = records[: max(0, sequence - after)]
        return _fold_records(fold, records)


def _fold_records(fold: TextFold, records: Sequence[Record]) -> Iterator[list[Entry]]:
    for start in range(0, len(records), _RECORDS_AT_ONCE):
        page = records[start : start + _RECORDS_AT_ONCE]
        yield [
            _make_entry(item, fold.position) for record in page for item in fold.feed(record.event)
        ]


def _join(
    ready: list[Entry], pages: Iterator[list[Entry]], state: ReaderState | None = None
) -> Iterator[list[Entry]]:
    """Yield the ready items, those of records, and the rest of the reply in progress."""
    for page in pages:
        ready = [*ready, *page]
        if len(ready) >= _RECORDS_AT_ONCE:
            yield ready
            ready = []
    if state is not None:
        ready = [*ready, *(_make_entry(item, position) for item, position in state.begin())]
    if ready:
        yield ready


async def _wait_for_sequence(subscription: Subscription, sequence: int) -> None:
    """Wait until a run has shown the records that a reader has read in the journal already."""
    async for entry in subscription:
        if entry.position.sequence >= sequence:
            return


def _catch_up(state: ReaderState, batch: list[Entry]) -> list[Entry]:
    """Return entries as they are for a reader that is behind, until it is not."""
    found: list[Entry] = []
    for entry in batch:
        if state.is_behind:
            found += (_make_entry(*place) for place in state.catch_up(entry.item, entry.position))
        else:
            found.append(entry)
    return found


def _send_new_turn(
    status: LastTurn | None, batch: list[Entry]
) -> tuple[LastTurn | None, list[Entry]]:
    """Return the last turn that a reader knows, and a batch that says when another one begins."""
    known = 0 if status is None else status.turn
    for number, entry in enumerate(batch):
        item = entry.item
        if type(item) is EventItem and type(item.event) is TurnOpened and item.turn > known:
            begun = LastTurn(item.turn, "running", (), item.sequence)
            told = _make_entry(_to_item(begun, entry.position), entry.position)
            return begun, [*batch[: number + 1], told, *batch[number + 1 :]]
    return status, batch


def _end_batch(batch: list[Entry], end: ReadingEnd | None) -> tuple[list[Entry], bool]:
    """Return the entries up to the end of a stream, with the last one, and whether it is there."""
    for number, entry in enumerate(batch):
        item = entry.item
        if type(item) is EndItem:
            return batch[: number + 1], True
        if end is not None and type(item) is EventItem and _ends(item, end):
            return [*batch[: number + 1], _make_end(entry.position, "turn_ended")], True
    return batch, False


def _make_entry(item: StreamItem, position: Position) -> Entry:
    return Entry(item, position, encode_item(item))


def _make_end(
    position: Position, reason: Literal["turn_ended", "too_slow", "shutting_down"]
) -> Entry:
    return _make_entry(EndItem(str(position), reason), position)


def _to_item(status: LastTurn, position: Position) -> StatusItem:
    return StatusItem(str(position), status.turn, status.status, status.questions)


def _differs(status: LastTurn, before: LastTurn | None) -> bool:
    if before is None:
        return True
    return (status.turn, status.status, status.questions) != (
        before.turn,
        before.status,
        before.questions,
    )


def _is_deleted(latest: LastTurn | None, position: Position) -> bool:
    """Whether the session that a reader has read is gone: a journal never takes back a record."""
    return position.sequence > (0 if latest is None else latest.records)


def _ends(item: EventItem, end: ReadingEnd) -> bool:
    """Whether this item is the end of the turn that was asked for."""
    return isinstance(item.event, TurnClosed) and item.turn == end.turn


def _is_over(status: LastTurn, end: ReadingEnd, position: Position) -> bool:
    """Whether a reader that has read everything waits for nothing more of its turn."""
    if status.records > position.sequence:
        return False
    return status.turn > end.turn or status.status in end.states


class ReaderState:
    """Joins a reader with a run in progress that has saved as many records as the reader has seen.

    Args:
        fold: the place of the reader.
        seen: the text that the run has shown; it must not change before `begin` was read.
    """

    __slots__ = ("_attempt", "_fold", "_key", "_text", "is_behind")

    def __init__(self, fold: TextFold, seen: TextFold) -> None:
        self._fold = fold
        self._key, self._attempt, self._text = seen.key, seen.attempt, seen.text
        self.is_behind = False
        """Whether the reader has text of an attempt that is not in progress."""

    def begin(self) -> Iterator[Place]:
        """Yield the part of the reply in progress that the reader misses."""
        fold = self._fold
        if self._key or self._text:
            for item in fold.show_live(self._key, self._attempt, self._text):
                yield item, fold.position
        elif fold.position.offset:
            self.is_behind = True  # its text is void as soon as an attempt begins

    def catch_up(self, item: StreamItem, position: Position) -> Iterator[Place]:
        """Yield the next item of the run as a reader that is behind gets it.

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
