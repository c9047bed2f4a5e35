"""The sessions of an agent, changed only between its turns.

A change takes the place of a turn: it waits for the one that is under way, and the next one waits
for it. This module must never run a turn.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from holdfast.journal.port import RunLog
from holdfast.runtime.conversations import Conversations
from holdfast.runtime.plan import Plan
from holdfast.runtime.summary import summarizer
from holdfast.sessions.sessions import Sessions


def sessions_of(plan: Plan, conversations: Conversations) -> Sessions:
    """The sessions that an agent knows.

    Args:
        plan: the agent, compiled; its model makes summaries.
        conversations: those that are open.
    """

    @asynccontextmanager
    async def hold(session: str) -> AsyncIterator[RunLog]:
        # Not caught up: a change looks for itself, and what cannot be read can still be forgotten.
        async with conversations.alone(session) as entry:
            yield entry.log

    return Sessions(
        conversations.journal, hold=hold, summarize=summarizer(plan), clock=plan.clock.now
    )
