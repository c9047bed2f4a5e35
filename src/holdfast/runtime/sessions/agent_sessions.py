"""The sessions of an agent, changed only between its turns.

A change takes the place of a turn: it waits for the one that is under way, and the next one waits
for it. This module must never run a turn.
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
    """The sessions that an agent knows.

    Args:
        plan: the agent, compiled; its model makes summaries.
        session_pool: those that are open.
    """

    @asynccontextmanager
    async def hold(session: str) -> AsyncIterator[RunLog]:
        # Not caught up: a change looks for itself, and what cannot be read can still be forgotten.
        async with session_pool.hold_session(session) as entry:
            yield entry.log

    return Sessions(
        session_pool.journal, hold=hold, summarize=make_summarizer(plan), clock=plan.clock.now
    )
