"""The transactions of the sweep, which every worker performs every few seconds.

It finds changes without an event: times that have come, jobs that were lost, workers that died.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from msgspec import Struct

from holdfast.journal.inbox import inbox_statements as sql
from holdfast.journal.inbox.dispatch_engine import Job
from holdfast.journal.inbox.entry_rows import to_facts, to_int, to_worker
from holdfast.journal.inbox.room import Room
from holdfast.journal.inbox.statements import Statement, Transaction
from holdfast.journal.inbox.steering import wake_entry

_MOST = 500


class StalledEntry(Struct, frozen=True):
    """An admitted entry that no worker has that is alive.

    Args:
        id: its number.
        worker: the worker that has died; "" if its job is on its way, or lost.
    """

    id: int
    worker: str


def promote_due() -> Transaction[bool]:
    """Let turns begin whose time has come, and turns go on whose questions are too old to answer.

    If the clock was set back, a turn that is tried again after some seconds does not wait for the old time,
    and a worker that died does not count as alive until then.

    Returns:
        Whether there may be more.
    """
    yield sql.LOCK
    yield Statement(sql.FOLLOW_CLOCK)
    yield Statement(sql.WORKERS_FOLLOW_CLOCK)
    rows = yield Statement(sql.PROMOTE, {"limit": _MOST})
    sessions = sorted({(str(tenant), name) for tenant, name in rows if isinstance(name, bytes)})
    for tenant in sorted({tenant for tenant, _ in sessions}):
        yield Statement(sql.LOCK_TENANT, {"tenant": tenant})
    for tenant, name in sessions:
        yield Statement(sql.UNBLOCK, {"tenant": tenant, "name": name})
    overdue = yield Statement(sql.OVERDUE, {"limit": _MOST})
    for (entry_id,) in overdue:
        yield from wake_entry(to_int(entry_id))
    return len(rows) == _MOST or len(overdue) == _MOST


def find_stalled() -> Transaction[Sequence[StalledEntry]]:
    """Return the admitted entries that no worker has that is alive."""
    rows = yield Statement(sql.STALLED)
    return [StalledEntry(to_int(entry), str(worker)) for entry, _, _, worker, _ in rows]


def put_again(entries: Collection[StalledEntry]) -> Transaction[Sequence[Job]]:
    """Take stalled entries from the workers that died; return their jobs, to be put again.

    It counts against an entry that its worker died, unless that was about to stop or has said goodbye.
    """
    yield sql.LOCK
    rows = yield Statement(sql.STALLED)
    room = Room(to_facts((yield Statement(sql.FACTS))))
    wanted = {(entry.id, entry.worker) for entry in entries}
    jobs: list[Job] = []
    for entry, tenant, agent, worker, info in rows:
        if (to_int(entry), str(worker)) in wanted:
            died = 1 if info is not None and not to_worker(info).is_stopping else 0
            yield Statement(sql.ABANDON, {"id": entry, "worker": worker, "died": died})
            jobs.append(Job(to_int(entry), room.name_queue(str(tenant), str(agent))))
    return jobs


def prune_entries(seconds: float) -> Transaction[int]:
    """Delete entries that were over long ago; the journal keeps their turns. Returns how many.

    Args:
        seconds: for how long an entry stays.
    """
    yield sql.LOCK
    yield Statement(sql.FORGET_OLD_WORKERS)
    return len((yield Statement(sql.PRUNE, {"seconds": seconds, "limit": _MOST})))
