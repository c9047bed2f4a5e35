"""The entries of the inbox: turns that were submitted, and their outcomes.

This module must never know a clock, a database or an engine.
"""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct


class EntryState(StrEnum):
    """The state of a submitted turn.

    SCHEDULED: its time has not come.
    BLOCKED: an earlier turn of its session has not ended.
    READY: it begins as soon as there is room.
    ADMITTED: an engine carries a job for it, or a worker drives it.
    WAITING: it waits for an answer.
    POSTPONED: it is tried again later; its session was busy, a provider is down, or the tokens of its
        tenant are used up.
    DONE: it has ended.
    FAILED: it ended without success, or could not begin; `error` says why, and it can be retried.
    DROPPED: somebody took it out before it began, or after it failed.
    PARKED: it is not begun again, since workers died of it; `error` says why. Its turn is closed, and it
        can be retried.
    """

    SCHEDULED = "scheduled"
    BLOCKED = "blocked"
    READY = "ready"
    ADMITTED = "admitted"
    WAITING = "waiting"
    POSTPONED = "postponed"
    DONE = "done"
    FAILED = "failed"
    DROPPED = "dropped"
    PARKED = "parked"

    @property
    def is_queued(self) -> bool:
        """Whether the turn has not begun, and will."""
        return self in QUEUED

    @property
    def is_over(self) -> bool:
        """Whether nothing happens to the turn any more, unless somebody retries it."""
        return self in OVER


RESTING = frozenset({EntryState.WAITING, EntryState.POSTPONED})
"""The states of a turn that has begun, keeps its place in the session, and that no worker drives."""

OVER = frozenset({EntryState.DONE, EntryState.FAILED, EntryState.DROPPED, EntryState.PARKED})
LETTERS = frozenset({EntryState.FAILED, EntryState.PARKED})
"""The states of dead letters: turns that ended without success, and that can be retried or dropped."""

QUEUED = frozenset({EntryState.SCHEDULED, EntryState.BLOCKED, EntryState.READY})


class Submission(Struct, frozen=True, kw_only=True):
    """A turn that somebody wants.

    Args:
        tenant: whose turn it is.
        agent: the name of the agent.
        session: its session; the turns of a session are done one after another.
        request: the idempotency key; a second submission with it is the same turn.
        body: the message and the arguments of the turn, as JSON.
        digest: shows whether two submissions with one request are equal.
        priority: a greater number goes before a smaller one of the same tenant.
        not_before: seconds since the epoch before which it does not begin.
        made_by: who submitted it.
    """

    tenant: str
    agent: str
    session: str
    request: str
    body: bytes
    digest: str
    priority: int = 0
    not_before: float = 0.0
    made_by: str = ""


class InboxEntry(Struct, frozen=True, kw_only=True):
    """A submitted turn.

    Args:
        id: its number in the inbox.
        tenant: whose turn it is.
        agent: the name of the agent.
        session: its session.
        request: its idempotency key, by which the journal finds the turn.
        state: its state.
        priority: as submitted.
        due_at: the time from which it may begin, in seconds since the epoch.
        created_at: when it was submitted.
        changed_at: when its state changed last.
        deliveries: how often a worker began it and did not hand it back.
        worker: the id of the worker that has it, or had it last; "" for none.
        turn: the number of the turn in its session; 0 until that is known.
        error: why it failed; "" if it did not.
        made_by: who submitted it.
        cancelled_by: who wants it cancelled; None if nobody does.
        deaths: how often its worker died while other turns were driven beside it.
        deaths_alone: how often its worker died while it was driven alone.
        parking: why it is about to be parked; "" if it is not.
        body: the message and the arguments, as JSON; b"" in lists.
    """

    id: int
    tenant: str
    agent: str
    session: str
    request: str
    state: EntryState
    priority: int
    due_at: float
    created_at: float
    changed_at: float
    deliveries: int = 0
    worker: str = ""
    turn: int = 0
    error: str = ""
    made_by: str = ""
    cancelled_by: str | None = None
    deaths: int = 0
    deaths_alone: int = 0
    parking: str = ""
    body: bytes = b""
