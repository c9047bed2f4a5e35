"""The sessions of an agent, for changes between its turns.

A change locks the session as a turn does: it waits for the turn in progress, and the next turn
waits for the change. This module must never run a turn.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from holdfast.journal.port import RunLog
from holdfast.runtime.plan import AgentPlan
from holdfast.runtime.sessions.session_pool import SessionPool
from holdfast.runtime.sessions.summary import make_summarizer
from holdfast.sessions.sessions import Sessions


def sessions_of(plan: AgentPlan, session_pool: SessionPool) -> Sessions:
    """Return the sessions of an agent.

    Args:
        plan: the compiled agent; its model writes summaries.
        session_pool: the open sessions.
    """

    @asynccontextmanager
    async def hold(session: str) -> AsyncIterator[RunLog]:
        # Not `open_session`: a session whose records cannot be read can still be deleted.
        async with session_pool.hold_session(session) as entry:
            yield entry.log

    return Sessions(
        session_pool.journal, hold=hold, summarize=make_summarizer(plan), clock=plan.clock.now
    )
