"""The transaction that fires a tick: it moves the schedule on and submits the turn, or does neither.

Whoever moves the schedule first submits the turn, so there is one for each tick, however many workers try.
"""

from __future__ import annotations

import json
from enum import StrEnum
from hashlib import sha256

import msgspec
from msgspec import Struct

from holdfast.journal.inbox import inbox_statements
from holdfast.journal.inbox.entries import InboxEntry, Submission
from holdfast.journal.inbox.entry_rows import to_entry, to_float, to_int
from holdfast.journal.inbox.schedules import schedule_statements as sql
from holdfast.journal.inbox.schedules.schedule import CatchUp, Overlap, Schedule
from holdfast.journal.inbox.schedules.ticks import (
    Tick,
    find_delay,
    find_next_tick,
    format_tick,
    next_ticks,
)
from holdfast.journal.inbox.statements import Row, Statement, Transaction
from holdfast.journal.inbox.submitting import submit_turn

ON_TIME = 60.0
"""The age in seconds up to which a tick is on time."""

_MOST_MISSED = 1000  # ticks that are counted at once
KEEP_TICKS = 200
"""The number of ticks that the history of a schedule has."""

_decoder = msgspec.json.Decoder(Schedule)


class TickOutcome(StrEnum):
    """The outcome of a tick.

    FIRED: its turn was submitted.
    SKIPPED: an earlier turn of the schedule had not ended.
    MISSED: it was too late, with the ticks that were missed after it.
    TRIGGERED: somebody asked for a turn at once; it is no tick of the schedule.
    """

    FIRED = "fired"
    SKIPPED = "skipped"
    MISSED = "missed"
    TRIGGERED = "triggered"


class Fired(Struct, frozen=True, kw_only=True):
    """The result of a transaction on a schedule.

    Args:
        tick: the tick.
        outcome: its outcome.
        entry: the submitted turn.
        missed: how many ticks before or with it were missed.
    """

    tick: Tick
    outcome: TickOutcome
    entry: InboxEntry | None = None
    missed: int = 0


def to_schedule(definition: object) -> Schedule:
    """Return the schedule of a row."""
    return _decoder.decode(str(definition))


def fire_schedule(tenant: str, name: str) -> Transaction[Fired | None]:
    """Fire the next tick of a schedule if it is due; return its outcome, or None.

    Raises:
        QueueFullError, QuotaReachedError: its turn cannot be submitted now; the tick stays due.
    """
    names = {"tenant": tenant, "name": name}
    rows = yield Statement(sql.FIND, names)
    if not rows or rows[0][1] is None or rows[0][2]:
        return None
    schedule, first, now = to_schedule(rows[0][0]), to_int(rows[0][1]), to_float(rows[0][3])
    if first > now:
        return None
    tick, missed = _choose_tick(schedule, first, now)
    last = first if tick is None else tick
    if tick is None:  # the ticks that were counted are missed
        last = next_ticks(schedule, first - 1, now, missed)[-1]
    change = {
        **names,
        "tick": first,
        "definition": rows[0][0],
        "next_tick": find_next_tick(schedule, last),
    }
    if not (yield Statement(sql.MOVE, change)):
        return None  # another worker was faster
    if missed:
        yield from _note(schedule, first, TickOutcome.MISSED, missed=missed)
    if tick is None:
        return Fired(tick=first, outcome=TickOutcome.MISSED, missed=missed)
    return (yield from _fire_tick(schedule, tick, missed))


def _choose_tick(schedule: Schedule, first: Tick, now: float) -> tuple[Tick | None, int]:
    """Return which tick is fired, or None, and how many before it are missed."""
    due = next_ticks(schedule, first - 1, now, _MOST_MISSED + 1)
    oldest = now - (ON_TIME if schedule.catch_up is CatchUp.NONE else schedule.catch_up_within)
    is_whole = len(due) <= _MOST_MISSED
    due = due[:_MOST_MISSED]
    if schedule.catch_up is CatchUp.ALL:
        wanted = [
            number for number, tick in enumerate(due) if tick >= oldest or now - tick <= ON_TIME
        ]
    else:
        wanted = [len(due) - 1] if is_whole and now - due[-1] <= max(now - oldest, ON_TIME) else []
    return (due[wanted[0]], wanted[0]) if wanted else (None, len(due))


def _fire_tick(schedule: Schedule, tick: Tick, missed: int) -> Transaction[Fired]:
    names = {"tenant": schedule.tenant, "name": schedule.name}
    if schedule.overlap is Overlap.SKIP and (yield Statement(sql.IS_UNDER_WAY, names)):
        yield from _note(schedule, tick, TickOutcome.SKIPPED)
        return Fired(tick=tick, outcome=TickOutcome.SKIPPED, missed=missed)
    entry = yield from submit_tick(schedule, format_tick(tick), tick + find_delay(schedule, tick))
    yield from _note(schedule, tick, TickOutcome.FIRED, entry.id)
    return Fired(tick=tick, outcome=TickOutcome.FIRED, entry=entry, missed=missed)


def submit_tick(schedule: Schedule, word: str, not_before: float) -> Transaction[InboxEntry]:
    """Submit the turn of a tick, or find it.

    Args:
        schedule: the schedule.
        word: names the tick in the request of the turn.
        not_before: when it may begin.
    """
    request = f"schedule:{schedule.name}:{word}"
    wanted = {"tenant": schedule.tenant, "request": request}
    found = yield Statement(inbox_statements.FIND_BY_REQUEST, wanted)
    if found:
        return to_entry(found[0])
    session = schedule.session or request
    parts = [schedule.agent, session, schedule.body.hex()]
    return (
        yield from submit_turn(
            Submission(
                tenant=schedule.tenant,
                agent=schedule.agent,
                session=session,
                request=request,
                body=schedule.body,
                digest=sha256(json.dumps(parts).encode()).hexdigest(),
                priority=schedule.priority,
                not_before=not_before,
                made_by=schedule.made_by or f"schedule {schedule.name}",
            )
        )
    )


def trigger_schedule(tenant: str, name: str, word: str) -> Transaction[InboxEntry | None]:
    """Submit a turn of a schedule at once; None if there is no such schedule."""
    rows = yield Statement(sql.FIND, {"tenant": tenant, "name": name})
    if not rows:
        return None
    schedule, now = to_schedule(rows[0][0]), to_float(rows[0][3])
    entry = yield from submit_tick(schedule, word, 0.0)
    yield from _note(schedule, int(now), TickOutcome.TRIGGERED, entry.id)
    return entry


def _note(
    schedule: Schedule, tick: Tick, outcome: TickOutcome, entry: int | None = None, missed: int = 0
) -> Transaction[None]:
    names = {"tenant": schedule.tenant, "name": schedule.name}
    values = {**names, "tick": tick, "outcome": outcome.value, "entry": entry, "missed": missed}
    yield Statement(sql.NOTE, values)
    yield Statement(sql.FORGET_OLD, {**names, "keep": KEEP_TICKS})


class TickRecord(Struct, frozen=True, kw_only=True):
    """A line of the history of a schedule.

    Args:
        tick: the time that the schedule names, in seconds since the epoch.
        outcome: its outcome.
        entry: the number of the submitted turn.
        missed: how many ticks were missed, with this one.
        at: when that was decided.
        state: the state of the turn now; None if there is none in the inbox.
        error: why the turn failed or is parked.
    """

    tick: Tick
    outcome: TickOutcome
    entry: int | None
    missed: int
    at: float
    state: str | None
    error: str = ""


def to_record(row: Row) -> TickRecord:
    """Return the line of a row."""
    tick, outcome, entry, missed, at, state, error = row
    return TickRecord(
        tick=to_int(tick),
        outcome=TickOutcome(str(outcome)),
        entry=None if entry is None else to_int(entry),
        missed=to_int(missed),
        at=to_float(at),
        state=None if state is None else str(state),
        error="" if error is None else str(error),
    )
