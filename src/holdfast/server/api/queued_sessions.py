"""The sessions whose next turn is in the queue, as the list of sessions shows them.

The journal has nothing of a turn that has not begun, so the list asks the queue. This module must never
change anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec.structs import replace

from holdfast.core.run_fold import make_title
from holdfast.event_log.live.reading import TURN_ENDED
from holdfast.hosting.tenant_service import TenantService
from holdfast.journal.inbox.entries import QUEUED, EntryState, InboxEntry
from holdfast.journal.session_rows import SessionQuery, SessionRow
from holdfast.runtime.queued_runs.queued_turn import decode_turn
from holdfast.server.api.views import SessionSummary
from holdfast.sessions.names import title_run

_MOST = 500
"""How many queued turns one answer looks at."""

_MOST_NEW = 50
"""How many sessions without a turn are listed."""


async def find_queued(tenant: TenantService) -> Mapping[str, InboxEntry]:
    """Return the turns that have not begun, by their sessions: of each session the one that is next."""
    return pick_next(await list_unfinished(tenant))


async def list_unfinished(tenant: TenantService) -> Sequence[InboxEntry]:
    """Return the turns of the queue that are not over and do not wait for an answer, the latest first."""
    if tenant.queue is None:
        return ()
    states = (*QUEUED, EntryState.ADMITTED, EntryState.POSTPONED)
    return await tenant.queue.inbox.list_entries(tenant=tenant.tenant, states=states, limit=_MOST)


def pick_next(entries: Iterable[InboxEntry]) -> Mapping[str, InboxEntry]:
    """Return of each session the turn that has not begun and is next; the latest turns come first."""
    return {entry.session: entry for entry in entries if not entry.turn}  # the oldest is the last


def mark_queued(summary: SessionSummary, entry: InboxEntry | None) -> SessionSummary:
    """Return a summary whose state is "queued" if its last turn has ended and another one waits.

    Args:
        summary: the summary; of a session without a turn, the turn that waits names the agent.
        entry: the turn of the session that is next. One that is admitted may be the last turn itself.
    """
    if entry is None or (entry.state is EntryState.ADMITTED and summary.turn):
        return summary
    if summary.turn_status not in TURN_ENDED:
        return summary
    return replace(summary, turn_status="queued", agent=summary.agent or entry.agent)


async def summarize_new(
    tenant: TenantService, queued: Mapping[str, InboxEntry]
) -> list[SessionSummary]:
    """Return the sessions whose first turn is queued, the latest first. Some may have a title already."""
    names = list(queued)[:_MOST_NEW]
    if tenant.queue is None or not names:
        return []
    runs = (*names, *map(title_run, names))
    wanted = SessionQuery(limit=len(runs), names=runs)
    rows = {row.session: row for row in await tenant.journal.list_sessions(wanted)}
    new = []
    for session in names:
        row = rows.get(session)
        if row is None or row.run != session:
            whole = await tenant.queue.inbox.find(queued[session].id)
            if whole is not None:
                one = _summarize(whole)
                new.append(one if row is None else replace(one, title=row.title))
    return new


def is_new(row: SessionRow, queued: Mapping[str, InboxEntry]) -> bool:
    """Whether a session has only a title, and is among those whose first turn is queued."""
    return row.run != row.session and row.session in list(queued)[:_MOST_NEW]


async def find_new(tenant: TenantService, session: str) -> SessionSummary | None:
    """Return a session whose first turn is queued; None if it is not."""
    if tenant.queue is None or (entry := await tenant.queue.find_unbegun(session)) is None:
        return None
    whole = await tenant.queue.inbox.find(entry.id)
    return None if whole is None else _summarize(whole)


def _summarize(entry: InboxEntry) -> SessionSummary:
    return SessionSummary(
        session=entry.session,
        title=make_title(decode_turn(entry.body).message) if entry.body else "",
        agent=entry.agent,
        turns=0,
        messages=0,
        opened_at=entry.created_at,
        changed_at=entry.changed_at,
        turn=0,
        turn_status="queued",
    )
