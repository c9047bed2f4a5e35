"""Reads the event log of a session from a position: the journal first, then what is live.

One path serves a reader that begins, one that comes back, and one that follows a session for days.
This module must never hold a truth that the journal does not have.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Protocol

from msgspec import Struct

from holdfast.core.events import TurnClosed
from holdfast.server.event_log.encoding import encode_item
from holdfast.server.event_log.positions import START, Position
from holdfast.server.event_log.reader_state import ReaderState
from holdfast.server.event_log.stream_items import (
    EndItem,
    EventItem,
    SessionState,
    StatusItem,
    StreamItem,
)
from holdfast.server.event_log.text_fold import TextFold
from holdfast.server.live.last_turn import LastTurn, read_last_turn
from holdfast.server.live.live_run import Entry, LiveRun, Subscription
from holdfast.server.live.session_watch import SessionWatch
from holdfast.sessions.session_index import SessionIndex

TURN_ENDED: frozenset[SessionState] = frozenset(
    {"completed", "failed", "limit", "cancelled", "stopped", "idle"}
)
"""The states in which a turn has ended."""

TURN_RESTS: frozenset[SessionState] = TURN_ENDED | {"waiting"}
"""The states in which nothing happens until somebody acts."""


class LiveRuns(Protocol):
    """Finds the run in progress of a session."""

    def is_driven(self, session: str) -> bool:
        """Whether this process drives the last turn of a session."""
        ...

    def find_live(self, session: str) -> LiveRun | None:
        """Return the run in progress; None if there is none."""
        ...

    def want(self, session: str) -> None:
        """Ask to be told of a run that another process drives."""
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

    async def read_saved(self, session: str, position: Position) -> AsyncIterator[Entry]:
        """Yield what the journal has after a position, and do not wait for more."""
        fold = TextFold(position)
        async for entry in self._read_journal(session, fold, None):
            yield entry

    async def follow(
        self, session: str, position: Position = START, end: ReadingEnd | None = None
    ) -> AsyncIterator[Entry]:
        """Yield what a reader at a position misses, and then what happens.

        Args:
            session: the session.
            position: the place of the reader.
            end: when the stream ends; None follows the session until the reader leaves.
        """
        status: LastTurn | None = None
        while True:
            changed = self._watch.prepare(session)
            try:
                fold, latest = TextFold(position), await self.find_last_turn(session)
                if latest is not None and _differs(latest, status):
                    status = latest
                    yield _make_entry(_to_item(latest, position), position)
                async for entry in self._read_page(session, fold):
                    position = entry.position
                    yield entry
                    if isinstance(entry.item, EndItem):
                        return
                    if _ends(entry, end):
                        yield _make_entry(EndItem(str(position), "turn_ended"), position)
                        return
                if end is not None and latest is not None and _is_over(latest, end, position):
                    yield _make_entry(EndItem(str(position), "turn_ended"), position)
                    return
                if self._watch.is_closed:
                    yield _make_entry(EndItem(str(position), "shutting_down"), position)
                    return
                if await self._has_news(session, position):
                    continue
                if latest is not None and latest.status == "running":
                    self._live.want(session)
                await asyncio.wait([changed], timeout=self._live.poll)
            finally:
                self._watch.forget(session, changed)

    async def _has_news(self, session: str, position: Position) -> bool:
        """Whether something happened since the page was read."""
        live = self._live.find_live(session)
        if live is not None and not live.is_closed:
            return True
        entries = await self._journal.find_runs(session, session)
        return bool(entries) and entries[0].records > position.sequence

    async def _read_page(self, session: str, fold: TextFold) -> AsyncIterator[Entry]:
        """Yield what the journal has, and then the items of the run in progress to its end."""
        live = self._live.find_live(session)
        if live is None:
            async for entry in self._read_journal(session, fold, None):
                yield entry
            return
        subscription, seen = live.subscribe()
        try:
            # Made at the same moment as the subscription begins.
            sequence, state = seen.position.sequence, ReaderState(fold, seen)
            if fold.position.sequence > sequence:
                await _wait_for_sequence(subscription, fold.position.sequence)
                return
            async for entry in self._read_journal(session, fold, sequence):
                yield entry
            last = fold.position
            async for entry in _join(state, subscription):
                last = entry.position
                yield entry
            if subscription.is_too_slow:
                yield _make_entry(EndItem(str(last), "too_slow"), last)
        finally:
            subscription.leave()

    async def _read_journal(
        self, session: str, fold: TextFold, sequence: int | None
    ) -> AsyncIterator[Entry]:
        """Yield the items of the records after the place of a fold, up to a sequence."""
        after = fold.position.sequence
        records = await self._journal.read(session, after)
        if sequence is not None:
            records = records[: max(0, sequence - after)]
        for record in records:
            for entry in _make_entries(fold, fold.feed(record.event)):
                yield entry


async def _wait_for_sequence(subscription: Subscription, sequence: int) -> None:
    """Wait until a run has shown what a reader has read in the journal already."""
    async for entry in subscription:
        if entry.position.sequence >= sequence:
            return


async def _join(state: ReaderState, subscription: Subscription) -> AsyncIterator[Entry]:
    """Yield what a reader misses of the reply in progress, and then the items of the run."""
    for item, position in state.begin():
        yield _make_entry(item, position)
    async for entry in subscription:
        if not state.is_behind:
            yield entry
            continue
        for item, position in state.catch_up(entry.item, entry.position):
            yield _make_entry(item, position)


def _make_entries(fold: TextFold, items: Iterator[StreamItem]) -> Iterator[Entry]:
    for item in items:
        yield _make_entry(item, fold.position)


def _make_entry(item: StreamItem, position: Position) -> Entry:
    return Entry(item, position, encode_item(item))


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


def _ends(entry: Entry, end: ReadingEnd | None) -> bool:
    """Whether this entry is the end of the turn that was asked for."""
    item = entry.item
    return (
        end is not None
        and isinstance(item, EventItem)
        and isinstance(item.event, TurnClosed)
        and item.turn == end.turn
    )


def _is_over(status: LastTurn, end: ReadingEnd, position: Position) -> bool:
    """Whether a reader that has read everything waits for nothing more of its turn."""
    if status.records > position.sequence:
        return False
    return status.turn > end.turn or status.status in end.states
