"""The sessions of an agent, for changes between its turns.

A change locks the session as a turn does: it waits for the turn in progress, and the next turn
waits for the change. This module must never run a turn.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from holdfast.journal.port import RunLog
from holdfast.journal.retention import Retention
from holdfast.runtime.plan import AgentPlan
from holdfast.runtime.sessions.background_pruning import BackgroundPruning
from holdfast.runtime.sessions.session_pool import SessionPool
from holdfast.runtime.sessions.summary import make_summarizer
from holdfast.sessions.pruning import HoldSession, Pruning
from holdfast.sessions.session_index import to_index
from holdfast.sessions.sessions import Sessions


def sessions_of(plan: AgentPlan, session_pool: SessionPool) -> Sessions:
    """Return the sessions of an agent.

    Args:
        plan: the compiled agent; its model writes summaries.
        session_pool: the open sessions.
    """
    return Sessions(
        session_pool.journal,
        hold=_make_hold(session_pool),
        summarize=make_summarizer(plan),
        clock=plan.clock.now,
    )


def make_pruning(
    plan: AgentPlan, session_pool: SessionPool, retention: Retention
) -> BackgroundPruning:
    """Return what deletes the old sessions of an agent beside its turns.

    Args:
        plan: the compiled agent.
        session_pool: the open sessions.
        retention: the limits.
    """
    journal = to_index(session_pool.journal)
    pruning = Pruning(journal, _make_hold(session_pool), plan.clock.now)
    return BackgroundPruning(pruning, retention, plan.clock)


def _make_hold(session_pool: SessionPool) -> HoldSession:
    @asynccontextmanager
    async def hold(session: str) -> AsyncIterator[RunLog]:
        # Not `open_session`: a session whose records cannot be read can still be deleted.
        async with session_pool.hold_session(session) as entry:
            yield entry.log

    return hold
