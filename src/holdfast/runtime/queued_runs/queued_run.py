"""A submitted turn as its submitter sees it, in any process.

It reads the inbox and the journal, and cancels through the inbox. This module must never drive a turn.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import Generic

from typing_extensions import TypeVar

from holdfast.core.argument_checks import check_value
from holdfast.core.constraints import PositiveFloat
from holdfast.core.errors import ConfigurationError, HoldfastBug, HoldfastError
from holdfast.core.events import Status
from holdfast.event_log.live.session_follower import SessionFollower
from holdfast.event_log.positions import Position, parse_position
from holdfast.event_log.stream_items import StreamItem
from holdfast.event_log.text_fold import turn_of_key
from holdfast.journal.inbox.entries import EntryState, InboxEntry
from holdfast.journal.inbox.inbox import Inbox
from holdfast.journal.inbox.inbox_errors import QueuedTurnError
from holdfast.journal.journal_names import check_text
from holdfast.journal.port import Journal
from holdfast.runtime.result import Result
from holdfast.sessions.session_index import to_index

T = TypeVar("T", default=str)

_POLL_SECONDS = 1.0
"""Seconds after which the inbox is read again, should a message be lost."""


class QueuedRun(Generic[T]):
    """A turn that was submitted; `agent.submit(...)` returns it.

    Args:
        entry: the entry of the inbox.
        inbox: the inbox.
        journal: the journal of its tenant.
        read_result: reads the result of a turn by its request; None if the journal has no such turn.
    """

    def __init__(
        self,
        entry: InboxEntry,
        inbox: Inbox,
        journal: Journal,
        read_result: Callable[[str], Awaitable[Result[T] | None]],
    ) -> None:
        self._entry = entry
        self._inbox = inbox
        self._journal = journal
        self._read_result = read_result

    @property
    def id(self) -> int:
        """The number of the turn in the inbox."""
        return self._entry.id

    @property
    def tenant(self) -> str:
        """The tenant of the turn."""
        return self._entry.tenant

    @property
    def session(self) -> str:
        """The session of the turn."""
        return self._entry.session

    @property
    def request(self) -> str:
        """The idempotency key of the turn."""
        return self._entry.request

    @property
    def entry(self) -> InboxEntry:
        """The entry of the turn when the inbox was read last."""
        return self._entry

    async def read_state(self) -> EntryState:
        """Return the state of the turn. Raises JournalError."""
        return (await self.read_entry()).state

    async def read_entry(self) -> InboxEntry:
        """Return the entry of the turn. Raises JournalError."""
        entry = await self._inbox.find(self.id)
        if entry is None:  # it was over long ago
            raise ConfigurationError("run", f"the inbox has no turn {self.id} any more")
        self._entry = entry
        return entry

    async def wait(self, seconds: float | None = None) -> Result[T]:
        """Return the result once the turn has ended or waits for an answer.

        Args:
            seconds: the longest time to wait; None waits without limit.

        Raises:
            QueuedTurnError: it was dropped or parked, or did not begin and never will; `.state` and
                `.why` say so.
            TimeoutError: the time is over. The turn goes on.
            HoldfastError: the turn did not complete; `.result` has its messages, usage and status.
        """
        entry = await self.wait_for_rest(seconds)
        is_given_up = entry.state in (EntryState.DROPPED, EntryState.PARKED)
        refused = QueuedTurnError(self.request, entry.state.value, entry.error)
        try:
            result = await self._read_result(self.request)
        except HoldfastError as error:
            if not is_given_up:
                raise
            refused.result = error.result
            raise refused from error
        if entry.state is EntryState.FAILED and result is not None:
            # It would have raised if the turn had ended: the journal has it open, and nobody drives it.
            is_given_up = result.status in (Status.RUNNING, Status.WAITING)
        if result is not None and not is_given_up:
            return result
        refused.result = result
        raise refused

    async def wait_for_rest(self, seconds: float | None = None) -> InboxEntry:
        """Return the entry of the inbox once the turn has ended or waits for an answer.

        Args:
            seconds: the longest time to wait; None waits without limit.

        Raises:
            TimeoutError: the time is over. The turn goes on.
        """
        check_value("seconds", seconds, PositiveFloat | None)
        async with asyncio.timeout(seconds):
            return await self._watch_until_rest()

    async def _watch_until_rest(self) -> InboxEntry:
        async with aclosing(self._watch_changes()) as changes:
            async for _ in changes:
                entry = await self.read_entry()
                if entry.state.is_over or entry.state is EntryState.WAITING:
                    return entry
        raise HoldfastBug("the inbox is watched without end")

    async def _watch_changes(self) -> AsyncGenerator[None]:
        """Yield at once, whenever the inbox may have changed, and each second."""
        with self._inbox.watch() as changes:
            while True:
                yield
                await changes.wait(_POLL_SECONDS)

    async def events(self, position: str = "") -> AsyncGenerator[tuple[str, StreamItem]]:
        """Yield the items of the session from the turn's begin to its end, each with a position.

        A reader that comes back with the last position, in any process, misses nothing.

        Args:
            position: the position of the reader; "" for the beginning of the turn.

        Raises:
            ConfigurationError: it is not a position.
            QueuedTurnError: it did not begin and never will.
        """
        begin = parse_position(position, "position") if position else None
        turn, first = await self._wait_for_begin()
        follower = SessionFollower(self._journal)
        try:
            async with aclosing(follower.follow(self.session, begin or first, turn)) as entries:
                async for entry in entries:
                    yield str(entry.position), entry.item
        finally:
            follower.close()

    async def _wait_for_begin(self) -> tuple[int, Position]:
        """Return the number of the turn, and the position before its first record."""
        async with aclosing(self._watch_changes()) as changes:
            async for _ in changes:
                begin = await self._find_begin()
                if begin is not None:
                    return begin
                entry = await self.read_entry()
                if not entry.state.is_over:
                    continue
                # It may have begun and ended since the journal was read.
                begin = await self._find_begin()
                if begin is not None:
                    return begin
                raise QueuedTurnError(self.request, entry.state.value, entry.error)
        raise HoldfastBug("the inbox is watched without end")

    async def _find_begin(self) -> tuple[int, Position] | None:
        """Return the same as `_wait_for_begin`; None if the journal has no such turn."""
        found = await self._journal.find_request(self.request)
        if found is None:
            return None
        keys = await to_index(self._journal).keys(self.session)
        return turn_of_key(found[1]), Position(list(keys).index(found[1]))

    async def cancel(self, *, by: str = "") -> None:
        """Cancel the turn, wherever it is driven; a turn that has not begun is dropped.

        Args:
            by: who cancels it, for the journal.

        Raises:
            ConfigurationError: `by` is not valid Unicode, or has a NUL character.
        """
        await self._inbox.cancel(self.id, check_text(by, "by"))

    def __repr__(self) -> str:
        return f"QueuedRun(id={self.id}, session={self.session!r}, request={self.request!r})"
