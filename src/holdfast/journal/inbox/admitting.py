"""The transaction that admits turns: exact limits, fair between tenants, in order within a session.

Of the tenants with queued turns, the one that runs the fewest is next, and of these the one that was
served longest ago. It must be performed under the lock of the inbox.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from heapq import heapify, heappop, heappush

from msgspec import Struct

from holdfast.journal.inbox import inbox_statements as sql
from holdfast.journal.inbox.engine import Job
from holdfast.journal.inbox.entry_rows import to_facts, to_float, to_int
from holdfast.journal.inbox.room import Room
from holdfast.journal.inbox.statements import Statement, Transaction
from holdfast.journal.inbox.worker_entries import SECONDS_TO_LIVE

MOST_AT_ONCE = 200
"""The number of turns that one transaction admits; the next one goes on."""

_CANDIDATES = 64
"""The number of tenants that are read at once."""

MakePut = Callable[[Sequence[Job]], Statement]
"""Returns the statement that puts jobs, of an engine in the same database."""


class Admission(Struct, frozen=True):
    """What an admission did.

    Args:
        jobs: the jobs of the admitted turns; they are put already if the engine is in the database.
        has_more: whether more turns may be admitted at once.
    """

    jobs: Sequence[Job] = ()
    has_more: bool = False


def admit_turns(make_put: MakePut | None = None) -> Transaction[Admission]:
    """Admit as many turns as there is room for, and put their jobs.

    Args:
        make_put: makes the statement that puts jobs; None if the caller puts them afterwards.
    """
    yield sql.LOCK
    facts = to_facts((yield Statement(sql.FACTS, {"seconds": SECONDS_TO_LIVE})))
    room, jobs = Room(facts), list[Job]()
    offset, is_last = 0, False
    while not (room.is_full or is_last or len(jobs) >= MOST_AT_ONCE):
        window = {"limit": _CANDIDATES, "offset": offset}
        rows = yield Statement(sql.CANDIDATES, window)
        tenants = [(str(tenant), to_float(served)) for tenant, served in rows]
        jobs += yield from _admit_of(tenants, room, MOST_AT_ONCE - len(jobs))
        offset, is_last = offset + _CANDIDATES, len(rows) < _CANDIDATES
    if jobs and make_put is not None:
        yield make_put(jobs)
    return Admission(jobs, has_more=len(jobs) >= MOST_AT_ONCE)


def _admit_of(
    tenants: Sequence[tuple[str, float]], room: Room, most: int
) -> Transaction[Sequence[Job]]:
    """Admit turns of some tenants, fairly, until there is no room or no turn."""
    queues = {tenant: _ReadyTurns(tenant) for tenant, _ in tenants}
    order = [(room.count_running(tenant), served, tenant) for tenant, served in tenants]
    heapify(order)
    taken: Counter[str] = Counter()
    jobs: list[Job] = []
    while order and len(jobs) < most and not room.is_full:
        _, served, tenant = heappop(order)
        found = yield from queues[tenant].take_next(room.find_agents(tenant))
        if found is None:
            continue
        entry, agent = found
        jobs.append(Job(entry, room.take(tenant, agent)))
        taken[tenant] += 1
        heappush(order, (room.count_running(tenant), served, tenant))
    if jobs:
        yield sql.admit([job.id for job in jobs])
    for tenant in sorted(taken):
        yield Statement(sql.SERVE, {"tenant": tenant, "count": taken[tenant]})
    return jobs


class _ReadyTurns:
    """The turns of one tenant that may begin, by agent, read when they are needed.

    Args:
        tenant: the tenant.
    """

    def __init__(self, tenant: str) -> None:
        self._tenant = tenant
        self._read: dict[str, list[tuple[int, int]]] = {}
        self._size: dict[str, int] = {}
        self._taken: Counter[str] = Counter()

    def take_next(self, agents: Sequence[str]) -> Transaction[tuple[int, str] | None]:
        """Return the next turn of one of these agents, and its agent; None if there is none."""
        best: tuple[int, int, str] | None = None
        for agent in agents:
            rows = yield from self._rows_of(agent)
            if rows:
                entry, priority = rows[0]
                best = min(best or (-priority, entry, agent), (-priority, entry, agent))
        if best is None:
            return None
        _, entry, agent = best
        self._read[agent].pop(0)
        self._taken[agent] += 1
        return entry, agent

    def _rows_of(self, agent: str) -> Transaction[Sequence[tuple[int, int]]]:
        """The turns of an agent that were read and not taken; more are read if all were taken."""
        rows, size = self._read.get(agent, []), self._size.get(agent, 1)
        was_read = agent in self._read
        if not rows and (not was_read or self._taken[agent] >= size):
            size = 1 if not was_read else 4 * size
            values = {"tenant": self._tenant, "agent": agent, "limit": size}
            found = yield Statement(sql.READY, values)
            # What was taken is still ready in the database, and comes first.
            rows = [(to_int(entry), to_int(priority)) for entry, priority in found]
            self._size[agent] = size
            self._read[agent] = rows = rows[self._taken[agent] :]
        return rows
