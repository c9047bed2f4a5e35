"""Describes each session for a list, from the row that a journal has of it.

It reads the records of a session only if the journal has no such rows.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Literal, TypeAlias

from msgspec import Struct

from holdfast.journal.session_rows import SessionQuery, SessionRow
from holdfast.sessions.names import (
    find_related_runs,
    is_session,
    title_run,
    tool_run_range,
)
from holdfast.sessions.session_index import SessionIndex

SessionStatus: TypeAlias = Literal["closed", "open", "waiting"]
"""The last turn has ended; it has not; or it has not and waits for an answer."""


class SessionInfo(Struct, frozen=True, kw_only=True):
    """One session in a list of sessions.

    Args:
        session: its id, as for `agent.run(session=...)`.
        title: its title, or without one the beginning of its first message.
        turns: the number of turns that count: not the rewound ones, but the failed ones.
        messages: the approximate number of messages in these turns, by users, models and tools.
        opened_at: the time of its first record, in seconds since the epoch.
        changed_at: the time of its latest record, in seconds since the epoch.
        status: "closed", "open" (the last turn has not ended) or "waiting" (for an answer).
        agent: the name of the agent of the latest turn.
    """

    session: str
    title: str
    turns: int
    messages: int
    opened_at: float
    changed_at: float
    status: SessionStatus
    agent: str = ""


async def list_rows(
    journal: SessionIndex, limit: int, before: SessionInfo | None
) -> Sequence[SessionRow]:
    """List the sessions of a journal, the latest change first, including those without turns.

    Args:
        journal: the journal.
        limit: the maximum number of sessions.
        before: the last session of the previous page.
    """
    position = None
    if before is not None:
        position = await find_position(journal, before.changed_at, before.session)
    return await journal.list_sessions(SessionQuery(limit=limit, before=position))


async def find_position(
    journal: SessionIndex, changed_at: float, session: str
) -> tuple[float, str]:
    """Return the position of a session in the list of runs.

    Args:
        journal: the journal.
        changed_at: the time of its latest record, when it was listed.
        session: the session.
    """
    exists = await journal.find_runs(session, session)
    return changed_at, session if exists else title_run(session)


async def find_row(journal: SessionIndex, session: str) -> SessionRow | None:
    """Find one session; None if it does not exist."""
    if not is_session(session):
        return None
    names = session, title_run(session)
    found = await journal.list_sessions(SessionQuery(limit=1, names=names))
    return found[0] if found else None


async def find_session_runs(journal: SessionIndex, session: str) -> list[str]:
    """Return the names of a session and of the runs that belong to it, of those that exist, sorted."""
    title = title_run(session)
    ranges = (session, session), (title, title), tool_run_range(session)
    found = [journal.find_runs(first, last) for first, last in ranges]
    names = {entry.run for entries in await asyncio.gather(*found) for entry in entries}
    return sorted({*find_related_runs(session, names), *(names & {session})})


def make_info(row: SessionRow) -> SessionInfo:
    """Describe one session."""
    status: SessionStatus = "closed"
    if row.turn_open:
        status = "waiting" if row.questions else "open"
    return SessionInfo(
        session=row.session,
        title=row.title,
        turns=row.turns,
        messages=row.messages,
        opened_at=row.opened_at,
        changed_at=row.changed_at,
        status=status,
        agent=row.agent,
    )
