"""The answers of `/api/v1` about the queue, its workers and schedules, as types; the client has the same.

This module must never read an inbox.
"""

from __future__ import annotations

from typing import TypeAlias

from msgspec import UNSET, Struct, UnsetType

from holdfast.journal.inbox.entries import EntryState
from holdfast.journal.inbox.schedules.firing import TickOutcome
from holdfast.journal.inbox.schedules.schedule import CatchUp, Overlap


class DepthView(Struct, frozen=True):
    """How many entries of the tenant are in a state.

    Args:
        state: the state.
        count: how many.
        oldest_seconds: the age of the oldest one.
    """

    state: EntryState
    count: int
    oldest_seconds: float


class LimitsView(Struct, frozen=True, kw_only=True):
    """The limits of the tenant; null is no limit.

    Args:
        running: how many turns run at once.
        queued: how many turns may wait for their begin.
        turns_per_day: how many turns may be submitted in a day, which ends at midnight UTC.
        tokens_per_day: how many tokens the turns of a day may use.
        is_paused: whether no turn begins.
        is_draining: whether no turn is accepted.
    """

    running: int | None = None
    queued: int | None = None
    turns_per_day: int | None = None
    tokens_per_day: int | None = None
    is_paused: bool = False
    is_draining: bool = False


class QueueView(Struct, frozen=True, kw_only=True):
    """The queue of the tenant.

    Args:
        depths: how many entries are in each state, but those that are done or dropped.
        running: how many turns run, or are about to.
        queued: how many turns wait for their begin.
        turns_today: how many turns were submitted today; counted if there is a limit for it.
        tokens_today: how many tokens the turns of today have used; counted if there is a limit for it.
        limits: the limits.
        workers: how many workers are alive that drive turns of the tenant.
    """

    depths: tuple[DepthView, ...]
    running: int
    queued: int
    turns_today: int
    tokens_today: int
    limits: LimitsView
    workers: int


class EntryView(Struct, frozen=True, kw_only=True):
    """A submitted turn.

    Args:
        entry: its number in the queue.
        agent: the name of its agent.
        session: its session.
        request: its idempotency key.
        state: its state.
        priority: a greater number goes before a smaller one.
        due_at: seconds since the epoch before which it does not begin; of one that waits, when it goes
            on without an answer. 0 for now.
        created_at: when it was submitted, in seconds since the epoch.
        changed_at: when its state changed.
        deliveries: how often a worker has begun or continued it.
        worker: the id of the worker that drives it, or drove it last.
        turn: the number of the turn in its session; 0 while it has not begun.
        error: why it failed, is parked, or was before it was dropped.
        by: who submitted it.
        cancelled_by: who asked to cancel it; null if nobody did.
        deaths: how many workers have died while they drove it.
    """

    entry: int
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
    by: str = ""
    cancelled_by: str | None = None
    deaths: int = 0


class EntryPage(Struct, frozen=True):
    """Some entries, the latest first.

    Args:
        entries: the entries.
        next: the value of `before` for the next page; absent on the last one.
    """

    entries: tuple[EntryView, ...]
    next: int | UnsetType = UNSET


class WorkerView(Struct, frozen=True, kw_only=True):
    """A worker.

    Args:
        worker: its id.
        host: the name of its machine.
        process: the number of its process.
        agents: the names of its agents.
        serves_all: whether it drives the turns of every tenant that has no worker of its own.
        slots: how many turns it drives at once.
        driving: how many it drives now, of all tenants.
        engine: the name of its engine.
        started_at: when it started, in seconds since the epoch.
        seen_at: its last heartbeat.
        is_alive: whether that is not too long ago.
        is_stopping: whether it begins no more turns.
        entries: the entries of the tenant that it drives.
    """

    worker: str
    host: str
    process: int
    agents: tuple[str, ...]
    serves_all: bool
    slots: int
    driving: int
    engine: str
    started_at: float
    seen_at: float
    is_alive: bool
    is_stopping: bool
    entries: tuple[EntryView, ...] = ()


class ScheduleView(Struct, frozen=True, kw_only=True):
    """A schedule.

    Args:
        name: its name.
        agent: the name of the agent.
        session: the session of all turns; "" for a session for each tick.
        cron: its cron expression; "" if it has an interval.
        every: its interval in seconds; 0 if it has a cron expression.
        zone: the time zone of `cron`.
        jitter: its turns begin up to this many seconds later, differently for each tick.
        overlap: the rule for a tick while an earlier turn has not ended.
        catch_up: the rule for ticks that were missed.
        priority: a greater number goes before a smaller one.
        next_tick: its next tick, in seconds since the epoch; null if there is none any more.
        is_paused: whether it is paused.
        by: who made it.
    """

    name: str
    agent: str
    session: str
    cron: str
    every: int
    zone: str
    jitter: int
    overlap: Overlap
    catch_up: CatchUp
    priority: int
    next_tick: int | None
    is_paused: bool
    by: str = ""


class TickView(Struct, frozen=True, kw_only=True):
    """The outcome of a tick of a schedule.

    Args:
        tick: its time, in seconds since the epoch.
        outcome: its outcome.
        entry: the number of the turn in the queue; null if none was submitted.
        missed: how many ticks were missed.
        at: when that was.
        state: the state of that turn now; null if it is no longer in the queue.
        error: why that turn failed or is parked.
    """

    tick: int
    outcome: TickOutcome
    entry: int | None
    missed: int
    at: float
    state: EntryState | None = None
    error: str = ""


WorkerList: TypeAlias = tuple[WorkerView, ...]
ScheduleList: TypeAlias = tuple[ScheduleView, ...]
TickList: TypeAlias = tuple[TickView, ...]
