"""The transaction that admits turns: exact limits, fair between tenants, in order within a session.

Of the tenants with queued turns, the one that runs the fewest is next, and of these the one that was
served longest ago. So many tenants that not all are read at once are looked at in a ring, from the one
that was served last. It must be performed under the lock of the inbox.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from heapq import heapify, heappop, heappush

from msgspec import Struct

from holdfast.journal.inbox import inbox_statements as sql
from holdfast.journal.inbox.dispatch_engine import Job
from holdfast.journal.inbox.entries import InboxEntry
from holdfast.journal.inbox.entry_rows import to_entry, to_facts, to_float, to_int
from holdfast.journal.inbox.room import Room
from holdfast.journal.inbox.statements import Statement, Transaction
from holdfast.journal.inbox.token_room import read_allowed

MOST_AT_ONCE = 200
"""The number of turns that one transaction admits; the next one goes on."""

_CANDIDATES = 32
"""The least number of tenants that are compared; as many as there are free slots, if these are more."""

_FIRST_READ = 4
"""The number of turns of a tenant that are read first: mostly there are fewer, and one reading is enough."""

MakePut = Callable[[Sequence[Job]], Statement]
"""Returns the statement that puts jobs, of an engine in the same database."""


class Offer(Struct, frozen=True):
    """The turns that an admitting worker can begin itself, without a job of an engine.

    Args:
        worker: its id.
        queues: the names of its queues.
        slots: how many of its slots are free.
    """

    worker: str
    queues: Collection[str]
    slots: int


NO_OFFER = Offer("", (), 0)


class Admission(Struct, frozen=True):
    """The result of an admission.

    Args:
        jobs: the jobs of the admitted turns; they are put already if the engine is in the database.
        taken: the turns that the worker has which admitted them; they have no job.
        has_more: whether more turns may be admitted at once.
    """

    jobs: Sequence[Job] = ()
    taken: Sequence[InboxEntry] = ()
    has_more: bool = False


def admit_turns(make_put: MakePut | None = None, offer: Offer = NO_OFFER) -> Transaction[Admission]:
    """Admit as many turns as there is room for, take some of them, and put the jobs of the others.

    Args:
        make_put: makes the statement that puts jobs; None if the caller puts them afterwards.
        offer: the turns that the caller begins itself.
    """
    yield sql.LOCK
    facts = to_facts((yield Statement(sql.FACTS)))
    room, jobs = Room(facts), list[Job]()
    if not room.is_full:
        jobs += yield from _admit_into(room, facts.last_served)
    is_alive = any(worker.id == offer.worker for worker in facts.workers)
    mine = [job.id for job in jobs if is_alive and job.queue in offer.queues][: offer.slots]
    others = [job for job in jobs if job.id not in mine]
    if others and make_put is not None:
        yield make_put(others)
    taken = (yield from _give(mine, offer.worker)) if mine else ()
    return Admission(others, taken, has_more=len(jobs) >= MOST_AT_ONCE)


def _give(ids: Sequence[int], worker: str) -> Transaction[Sequence[InboxEntry]]:
    """Give admitted turns to a worker; return them in their order."""
    rows = yield sql.give(ids, worker)
    entries = {entry.id: entry for entry in map(to_entry, rows)}
    return [entries[entry_id] for entry_id in ids]


def _admit_into(room: Room, last_served: str) -> Transaction[Sequence[Job]]:
    """Admit turns, of some tenants after others, until there is no room or no turn."""
    jobs: list[Job] = []
    size = min(max(_CANDIDATES, room.free_slots), MOST_AT_ONCE)
    rings = {agent: _TenantRing(agent, last_served, size) for agent in room.agents}
    while len(jobs) < MOST_AT_ONCE:
        tenants: dict[str, float] = {}
        for agent in room.agents:
            tenants.update((yield from rings[agent].read_next()))
        if not tenants:
            break
        jobs += yield from _admit_of(tenants, room, MOST_AT_ONCE - len(jobs))
    return jobs


def _admit_of(tenants: Mapping[str, float], room: Room, most: int) -> Transaction[Sequence[Job]]:
    """Admit turns of some tenants, fairly, until there is no room or no turn.

    Args:
        tenants: when each tenant was served last.
        room: the room, which becomes smaller.
        most: the largest number of turns.
    """
    room.allow((yield from read_allowed(tenants, room.limits)))
    queues = {tenant: _ReadyTurns(tenant) for tenant in tenants}
    order = [(room.count_running(tenant), served, tenant) for tenant, served in tenants.items()]
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
    for tenant in sorted(taken):
        yield Statement(sql.SERVE, {"tenant": tenant, "count": taken[tenant]})
    if jobs:
        yield sql.admit([job.id for job in jobs])
    return jobs


class _TenantRing:
    """The tenants with a turn of an agent that may begin, in a ring that begins after one of them.

    Args:
        agent: the agent.
        first: the tenant after which the ring begins.
        size: how many tenants are read at once.
    """

    def __init__(self, agent: str, first: str, size: int) -> None:
        self._agent = agent
        self._size = size
        self._after = first
        self._seen: set[str] = set()
        self._has_more = True

    def read_next(self) -> Transaction[Mapping[str, float]]:
        """Return some further tenants, and when each was served last; none after the last one.

        The ring is read beyond its end, so that few tenants are all seen at once.
        """
        tenants: dict[str, float] = {}
        while self._has_more and len(tenants) < self._size:
            values = {"agent": self._agent, "after": self._after, "limit": self._size}
            rows = yield Statement(sql.CANDIDATES, values)
            new = {str(row[0]): to_float(row[1]) for row in rows if row[0] not in self._seen}
            # The last one is at the end of a full part, unless all tenants were read.
            self._has_more = len(new) == len(rows) > 0 and to_int(rows[-1][2]) == self._size
            self._after = str(rows[-1][0]) if rows else ""
            self._seen.update(new)
            tenants.update(new)
        return tenants


class _ReadyTurns:
    """The turns of one tenant that may begin, by agent, read when they are needed.

    Args:
        tenant: the tenant.
    """

    def __init__(self, tenant: str) -> None:
        self._tenant = tenant
        self._read: dict[str, list[tuple[int, int]]] = {}
        self._size: dict[str, int] = {}
        self._taken: set[int] = set()

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
        self._taken.add(entry)
        return entry, agent

    def _rows_of(self, agent: str) -> Transaction[Sequence[tuple[int, int]]]:
        """Return the turns of an agent that were read and not taken; read more if all were taken."""
        rows = self._read.get(agent, [])
        size = self._size.get(agent, _FIRST_READ)
        if not rows and size:
            values = {"tenant": self._tenant, "agent": agent, "limit": size}
            found = yield Statement(sql.READY, values)
            # The taken turns are still ready in the database; newer ones may stand before them.
            pairs = [(to_int(entry), to_int(priority)) for entry, priority in found]
            rows = [pair for pair in pairs if pair[0] not in self._taken]
            self._read[agent] = rows
            self._size[agent] = 4 * size if len(found) == size else 0
        return rows
