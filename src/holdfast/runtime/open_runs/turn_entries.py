"""Finds the entry of the inbox that the last turn of a session belongs to.

Only the inbox continues a turn that it knows, whatever became of its entry: a turn that was parked or
dropped must not be begun by a worker that starts, by `recover()`, or by the next message. This module must
never change the inbox or drive a turn.
"""

from __future__ import annotations

from holdfast.core.effects import turn_key
from holdfast.core.errors import ConfigurationError
from holdfast.core.events import TurnOpened
from holdfast.event_log.text_fold import turn_of_key
from holdfast.journal.inbox.entries import InboxEntry
from holdfast.journal.inbox.inbox import Inbox
from holdfast.journal.inbox.opening_inbox import open_inbox
from holdfast.journal.port import Journal
from holdfast.sessions.session_index import SessionIndex, to_index


async def find_entry_of_turn(
    inbox: Inbox, journal: SessionIndex, session: str, turn: int
) -> InboxEntry | None:
    """Return the entry of a turn, or of the turn that it tries again; None if the inbox has none.

    Args:
        inbox: the inbox.
        journal: the journal of the tenant.
        session: the session.
        turn: the number of the turn.

    Raises:
        JournalError: the journal or the inbox cannot be read.
    """
    request = await _read_request(journal, session, turn)
    return await inbox.find_request(journal.tenant, request) if request else None


async def _read_request(journal: SessionIndex, session: str, turn: int) -> str:
    """Return the idempotency key of a turn, or of the turn that it tries again; "" if it has none."""
    while turn > 0:
        records = await journal.read_by_keys(session, [turn_key(turn)])
        event = records[0].event if records else None
        if not isinstance(event, TurnOpened) or event.message is not None or event.request:
            return event.request if isinstance(event, TurnOpened) else ""
        turn -= 1
    return ""


async def find_entry_of_last_turn(
    inbox: Inbox, journal: SessionIndex, session: str
) -> InboxEntry | None:
    """Return the entry of the last turn of a session; None if the inbox does not know it.

    Raises:
        JournalError: the journal or the inbox cannot be read.
    """
    return await find_entry_of_turn(inbox, journal, session, await _read_number(journal, session))


async def _read_number(journal: SessionIndex, session: str) -> int:
    return max(map(turn_of_key, await journal.keys(session)), default=0)


async def is_queued_turn(journal: Journal, session: str) -> bool:
    """Whether the inbox of a journal knows the last turn of a session; no if the journal has no inbox.

    Raises:
        JournalError: the journal or the inbox cannot be read.
    """
    index = to_index(journal)
    request = await _read_request(index, session, await _read_number(index, session))
    if not request:
        return False
    try:
        inbox = open_inbox(journal)
    except ConfigurationError:
        return False
    return await inbox.find_request(index.tenant, request) is not None
