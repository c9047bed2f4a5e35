"""The sessions whose next turn is in the queue, as the list of sessions shows them.

The journal has nothing of a turn that has not begun, so the list asks the queue. This module must never
change anything.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from holdfast.core.run_fold import make_title
from holdfast.event_log.live.reading import TURN_ENDED
from holdfast.hosting.tenant_service import TenantService
from holdfast.journal.inbox.entries import QUEUED, EntryState, InboxEntry
from holdfast.runtime.queued_runs.queued_turn import decode_turn
from holdfast.server.api.views import SessionSummary

_MOST = 500
"""How many queued turns one answer looks at."""

_MOST_NEW = 50
"""How many sessions without a turn are listed."""


async def find_queued(tenant: TenantService) -> Mapping[str, InboxEntry]:
    """Return the turns that have not begun, by their sessions: of each session the one that is next."""
    if tenant.queue is None:
        return {}
    states = (*QUEUED, EntryState.ADMITTED, EntryState.POSTPONED)
    found = await tenant.queue.inbox.list_entries(tenant=tenant.tenant, states=states, limit=_MOST)
    return {entry.session: entry for entry in found if not entry.turn}  # the oldest is the last


def mark_queued(summary: SessionSummary, entry: InboxEntry | None) -> SessionSummary:
    """Return a summary whose state is "queued" if its last turn has ended and another one waits.

    Args:
        summary: the summary.
        entry: the turn of the session that is next. One that is admitted may be the last turn itself.
    """
    if entry is None or entry.state is EntryState.ADMITTED:
        return summary
    return replace(summary, turn_status="queued") if summary.turn_status in TURN_ENDED else summary


async def summarize_new(
    tenant: TenantService, queued: Mapping[str, InboxEntry]
) -> list[SessionSummary]:
    """Return the sessions whose first turn is queued, the latest first."""
    if tenant.queue is None:
        return []
    new = []
    for session, entry in list(queued.items())[:_MOST_NEW]:
        if not await tenant.journal.find_runs(session, session):
            whole = await tenant.queue.inbox.find(entry.id)
            if whole is not None:
                new.append(_summarize(whole))
    return new


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
