"""The transactions of a worker: it begins an entry, and saves its outcome.

An entry is changed only by the worker that has it, so a worker that was paused and taken over changes
nothing. The end of turns admits the next ones in the same transaction.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from holdfast.core.errors import ConfigurationError
from holdfast.core.printable import escape_invisible
from holdfast.journal.inbox import inbox_statements as sql
from holdfast.journal.inbox.admitting import NO_OFFER, Admission, MakePut, Offer, admit_turns
from holdfast.journal.inbox.dispatch_engine import Job
from holdfast.journal.inbox.entries import RESTING, EntryState, InboxEntry
from holdfast.journal.inbox.entry_rows import to_entry, to_facts
from holdfast.journal.inbox.room import Room
from holdfast.journal.inbox.statements import Statement, Transaction
from holdfast.journal.inbox.steering import wake_entry
from holdfast.journal.inbox.token_room import count_again

_LONGEST_ERROR = 2000  # characters; lists show them

NEVER = 1e15
"""A time that does not come, in seconds since the epoch; finite, as a database stores it."""


class EntryOutcome(Struct, frozen=True, kw_only=True):
    """The outcome of an entry.

    Args:
        state: DONE, FAILED, DROPPED or PARKED; WAITING for an answer; POSTPONED to try again later. Until
            then the entry waits too, so that no later turn of its session begins before it.
        turn: the number of the turn in its session; 0 if it is unknown.
        error: why it failed.
        due_at: when a waiting turn goes on without an answer, or when to try again; in seconds since
            the epoch. 0 is never for an answer, and at once for another try.
        retry_after: instead of `due_at`, after how many seconds to try again; the database counts them,
            as the clock of a worker may be wrong.
        was_busy: whether nothing was tried, since another driver has the session. It is no delivery then.

    Raises:
        ConfigurationError: a turn cannot end in this state.

    >>> EntryOutcome(state=EntryState.READY)
    Traceback (most recent call last):
    ...
    holdfast.core.errors.ConfigurationError: state: is 'ready', which no turn ends in. Use DONE, FAILED, \
DROPPED, PARKED, WAITING or POSTPONED
    """

    state: EntryState
    turn: int = 0
    error: str = ""
    due_at: float = 0.0
    retry_after: float | None = None
    was_busy: bool = False

    def __post_init__(self) -> None:
        if not (self.state.is_over or self.state in RESTING):
            raise ConfigurationError(
                "state",
                f"is {self.state.value!r}, which no turn ends in",
                fix="Use DONE, FAILED, DROPPED, PARKED, WAITING or POSTPONED",
            )


def begin_entry(entry_id: int, worker: str) -> Transaction[InboxEntry | None]:
    """Give an admitted entry to a worker; None if it is not admitted, or another one has it.

    A worker that has it already is given it again: the answer of the database may have been lost. So
    it must not drive an entry that it drives.
    """
    values = {"id": entry_id, "worker": worker}
    rows = yield Statement(sql.BEGIN, values)
    if not rows:
        return None
    entry = to_entry(rows[0])
    if entry.deliveries > 1:  # whoever had it may have died before it counted the tokens
        yield from count_again(entry.tenant)
    return entry


def park_entry(entry_id: int, worker: str, turn: int, why: str) -> Transaction[bool]:
    """Say that nobody drives an entry any more, and why; it is parked in the transaction that closes its turn.

    Args:
        entry_id: the number of the entry.
        worker: the worker that has it.
        turn: the number of its turn, which the journal has.
        why: the reason, for whoever submitted it.

    Returns:
        Whether the worker has it.
    """
    values = {"id": entry_id, "worker": worker, "turn": turn, "why": escape_invisible(why)}
    return bool((yield Statement(sql.PARK, values)))


def isolate_entry(entry_id: int, worker: str) -> Transaction[InboxEntry | None]:
    """Note that a worker drives an entry alone from now on; return the entry, None if it does not have it."""
    rows = yield Statement(sql.ISOLATE, {"id": entry_id, "worker": worker})
    return to_entry(rows[0]) if rows else None


class EndedEntry(Struct, frozen=True):
    """An entry, and its outcome.

    Args:
        id: the number of the entry.
        outcome: its outcome.
    """

    id: int
    outcome: EntryOutcome


def end_entries(
    ended: Sequence[EndedEntry],
    worker: str,
    make_put: MakePut | None = None,
    offer: Offer = NO_OFFER,
) -> Transaction[Admission]:
    """Save the outcomes of entries, let the next ones of their sessions begin, and admit turns."""
    yield sql.LOCK
    found = False
    for one in ended:
        is_mine = yield from _end_entry(one, worker)
        found = found or is_mine
    if found:
        yield sql.NOTIFY_END
    return (yield from admit_turns(make_put, offer))


def _end_entry(ended: EndedEntry, worker: str) -> Transaction[bool]:
    """Save the outcome of an entry; return whether the worker had it."""
    outcome = ended.outcome
    values = {"id": ended.id, "worker": worker, **_describe(outcome)}
    rows = yield Statement(sql.END, values)
    for tenant, name, cancelled_by, is_answered in rows:
        if outcome.state.is_over:
            yield Statement(sql.LOCK_TENANT, {"tenant": tenant})
            yield Statement(sql.UNBLOCK, {"tenant": tenant, "name": name})
        elif cancelled_by is not None or is_answered:  # it was about to wait meanwhile
            yield from wake_entry(ended.id)
    return bool(rows)


def _describe(outcome: EntryOutcome) -> dict[str, object]:
    """Return the values of an outcome for END."""
    will_retry = outcome.state is EntryState.POSTPONED
    due_at = min(outcome.due_at or (0.0 if will_retry else NEVER), NEVER)
    return {
        "state": outcome.state.value,
        "turn": outcome.turn,
        # It has words of tools and servers, and not every database stores every character.
        "error": escape_invisible(outcome.error[:_LONGEST_ERROR]),
        "due_at": due_at if outcome.retry_after is None else outcome.retry_after,
        "from_now": 0.0 if outcome.retry_after is None else 1.0,
        # No worker dies of a turn that got as far as a question.
        "keep": 0 if outcome.state is EntryState.WAITING else 1,
        "minus": 1 if outcome.was_busy else 0,
    }


def hand_back_entry(entry_id: int, worker: str) -> Transaction[Sequence[Job]]:
    """Let another worker have an entry; return its job, to be put, if the worker had it."""
    rows = yield Statement(sql.FORGET_WORKER_OF, {"id": entry_id, "worker": worker})
    if not rows:
        return ()
    room = Room(to_facts((yield Statement(sql.FACTS))))
    return [Job(entry_id, room.name_queue(str(tenant), str(agent))) for tenant, agent in rows]
