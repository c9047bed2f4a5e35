"""The inbox as the turns of one tenant use it: submit one, wait for its begin, cancel and retry it.

A process that drives no turns serves people in this way alone. This module must never drive a turn, and
must never say that one has begun which the journal does not have.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from holdfast.core.errors import ConflictError, SessionBusyError
from holdfast.core.json_schema import JsonSchema
from holdfast.event_log.live.last_turn import LastTurn
from holdfast.event_log.live.session_watch import SessionWatch
from holdfast.hosting.bound_agents import AnyAgent
from holdfast.hosting.turns.turn_runner import AcceptedTurn, ShuttingDownError, find_accepted
from holdfast.journal.inbox.entries import LETTERS, QUEUED, EntryState, InboxEntry
from holdfast.journal.inbox.inbox import Inbox
from holdfast.journal.inbox.inbox_errors import QueuedTurnError, SubmissionError
from holdfast.journal.inbox.opening_inbox import open_inbox
from holdfast.journal.port import Journal
from holdfast.runtime.arguments.run_keywords import RunKeywords
from holdfast.runtime.open_runs.turn_entries import (
    find_entry_of_last_turn,
    find_entry_of_turn,
    is_queued_turn,
)
from holdfast.runtime.turn_state.turn_input import Prompt
from holdfast.sessions.session_index import SessionIndex, to_index

_SECONDS_BETWEEN_LOOKS = 2.0
"""Seconds after which a turn that has not begun is looked at, should nothing be heard of it."""

_MOST_LOOKS, _PAUSE = 50, 0.1
"""How often, and after how many seconds, it is looked whether a worker has saved the end of a turn."""

_UNBEGUN = (*QUEUED, EntryState.ADMITTED, EntryState.POSTPONED)


class TurnQueue:
    """The submitted turns of one tenant.

    Args:
        tenant: the tenant.
        inbox: the inbox.
        journal: the journal of the tenant.
        watch: wakes whoever waits for a session.
    """

    def __init__(
        self, tenant: str, inbox: Inbox, journal: SessionIndex, watch: SessionWatch
    ) -> None:
        self._tenant = tenant
        self.inbox = inbox
        self._journal = journal
        self._watch = watch

    async def submit(
        self,
        agent: AnyAgent,
        message: Prompt,
        output: JsonSchema | None,
        keywords: RunKeywords[Any],
    ) -> InboxEntry:
        """Save a turn in the inbox, or return the one that was saved with its request.

        Args:
            agent: the agent, bound to the journal of the tenant.
            message: the message.
            output: the type of the output; None for that of the agent.
            keywords: as for `Agent.submit`.

        Raises:
            QueueFullError: the queue is full or closed.
            QuotaReachedError: the tenant has used up its turns or tokens of this day.
            ConfigurationError: an argument is wrong.
        """
        request = keywords.get("request")
        known = await self.inbox.find_request(self._tenant, request) if request else None
        if known is not None:
            return known
        given: dict[str, Any] = {**keywords, **({} if output is None else {"output": output})}
        try:
            run = await agent.submit(message, **given)
        except SubmissionError:  # another call with the request was first
            known = await self.inbox.find_request(self._tenant, request or "")
            if known is None:
                raise
            return known
        return run.entry

    async def wait_for_begin(
        self, entry: InboxEntry, seconds: float | None = None
    ) -> AcceptedTurn | None:
        """Return a turn once its first record is saved; None if it has not begun after some seconds.

        Args:
            entry: its entry.
            seconds: the longest time to wait; None waits without limit.

        Raises:
            QueuedTurnError: it did not begin and never will.
            ShuttingDownError: this process stops. The turn stays in the inbox.
        """
        try:
            async with asyncio.timeout(seconds):
                return await self._wait_for_begin(entry)
        except TimeoutError:
            return None

    async def _wait_for_begin(self, entry: InboxEntry) -> AcceptedTurn:
        while True:
            changed = self._watch.prepare(entry.session)
            try:
                begun = await find_accepted(self._journal, entry.request)
                if begun is not None:
                    return begun
                latest = await self.inbox.find(entry.id)
                if latest is not None and latest.state.is_over:
                    begun = await find_accepted(self._journal, entry.request)
                    if begun is not None:
                        return begun
                    raise QueuedTurnError(entry.request, latest.state.value, latest.error)
                if self._watch.has_ended(entry.session):
                    raise ShuttingDownError
                await asyncio.wait([changed], timeout=_SECONDS_BETWEEN_LOOKS)
            finally:
                self._watch.forget(entry.session, changed)

    async def has_open_turn(self, session: str) -> bool:
        """Whether the open turn of a session is in the inbox."""
        return await self.inbox.find_active(self._tenant, session) is not None

    async def find_unbegun(self, session: str) -> InboxEntry | None:
        """Return the turn of a session that begins next, and has not begun; None if there is none."""
        async for entry in self._list_unbegun(session):
            return entry
        return None

    async def _list_unbegun(self, session: str) -> AsyncIterator[InboxEntry]:
        """Yield the turns of a session that have not begun, the next one first."""
        entries = await self.inbox.list_entries(
            tenant=self._tenant, session=session, states=_UNBEGUN, limit=1000
        )
        for entry in reversed(entries):
            if not entry.turn and await self._journal.find_request(entry.request) is None:
                yield entry

    async def cancel_all_unbegun(self, session: str, by: str) -> None:
        """Cancel every turn of a session that has not begun: the session is to be deleted.

        The last one goes first, since a turn may begin as soon as the one before it is taken out.
        """
        for entry in reversed([entry async for entry in self._list_unbegun(session)]):
            await self.inbox.cancel(entry.id, by)

    async def cancel_entry(self, session: str, entry_id: int, by: str) -> bool:
        """Cancel a turn of a session; return whether it is out of the queue, so that it never begins."""
        state = await self.inbox.cancel(entry_id, by)
        self._watch.wake(session)
        return state is EntryState.DROPPED

    async def cancel_active(self, session: str, by: str) -> None:
        """Note that the open turn of a session is cancelled, if it is in the queue, so that nobody drives it."""
        await _cancel_active(self.inbox, self._journal, session, by)

    async def retry(self, session: str, last: LastTurn) -> bool:
        """Let a worker try the last turn of a session again; return whether the inbox has it.

        Args:
            session: the session.
            last: its last turn; one that has not failed stays as it is.

        Raises:
            SessionBusyError: its worker is about to save that it has ended.
        """
        entry = await find_entry_of_turn(self.inbox, self._journal, session, last.turn)
        if entry is None or last.status not in ("failed", "limit"):
            return entry is not None
        for _ in range(_MOST_LOOKS):
            entry = await self.inbox.find(entry.id) or entry
            if entry.state in LETTERS:
                await self.inbox.retry(entry.id)
            if entry.state is not EntryState.ADMITTED:
                return True
            await asyncio.sleep(_PAUSE)
        raise SessionBusyError(session, "the end of its turn is being saved")


async def _cancel_active(inbox: Inbox, journal: SessionIndex, session: str, by: str) -> None:
    entry = await find_entry_of_last_turn(inbox, journal, session)
    if entry is not None and not entry.state.is_over:
        await inbox.cancel(entry.id, by)


async def cancel_in_queue(journal: Journal, session: str, by: str) -> None:
    """Note that the open turn of a session is cancelled, if the inbox of a journal has it.

    Raises:
        JournalError: the journal cannot be used.
    """
    if await is_queued_turn(journal, session):
        await _cancel_active(open_inbox(journal), to_index(journal), session, by)


def refuse_resume(session: str) -> ConflictError:
    """Return the error for a turn that this process cannot continue, since it drives none."""
    return ConflictError(
        f"the turn of {session!r} was not queued, and this process drives no turns:"
        " resume it where turns are driven"
    )
