"""The room in the queue: which turns may be admitted, by the limits, the workers and the running turns.

Pure: the same facts always give the same room. A tenant that has workers of its own is served by them
alone, while one of them is alive; every other tenant shares the workers that serve all. Workers differ in
their agents and tenants, so that counting all slots is not enough: ten turns of one agent must not take
the slots of a worker that lacks it. Turns that were placed move to another worker where that makes room,
as in a matching by augmenting paths.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TypeAlias

from msgspec import Struct

from holdfast.journal.inbox.dispatch_engine import name_queue
from holdfast.journal.inbox.queue_limits import LimitTable, smallest
from holdfast.journal.inbox.worker_entries import WorkerInfo

Kind: TypeAlias = tuple[str | None, str]
"""A tenant with workers of its own, or None for every other tenant; and an agent."""


class _Group:
    """The workers with the same agents and tenants."""

    def __init__(self, kinds: frozenset[Kind]) -> None:
        self.kinds = kinds
        self.free = 0
        self.used: Counter[Kind] = Counter()


class WorkerSlots:
    """The slots of the workers that are alive.

    Args:
        workers: the workers; one that stops has no slots, and one that drives a turn alone has that of
            this turn.

    >>> of = dict(host="h", process=1, engine="e", started_at=0.0)
    >>> slots = WorkerSlots(
    ...     [
    ...         WorkerInfo(id="a", agents=("cook", "baker"), slots=1, **of),
    ...         WorkerInfo(id="b", agents=("cook",), slots=1, **of),
    ...     ]
    ... )
    >>> slots.take((None, "cook")), slots.take((None, "baker")), slots.take((None, "cook"))
    (True, True, False)
    """

    def __init__(self, workers: Iterable[WorkerInfo]) -> None:
        groups: dict[frozenset[Kind], _Group] = {}
        for worker in workers:
            if not worker.is_stopping:
                pools = worker.tenants or (None,)
                kinds = frozenset((pool, agent) for pool in pools for agent in worker.agents)
                slots = 1 if worker.is_isolating else worker.slots
                groups.setdefault(kinds, _Group(kinds)).free += slots
        self._groups = list(groups.values())
        self._serving: dict[Kind, list[_Group]] = {}
        for group in self._groups:
            for kind in group.kinds:
                self._serving.setdefault(kind, []).append(group)

    @property
    def kinds(self) -> Iterable[Kind]:
        """The turns that some worker serves."""
        return self._serving.keys()

    @property
    def is_full(self) -> bool:
        """Whether no worker has a free slot."""
        return not any(group.free for group in self._groups)

    @property
    def free(self) -> int:
        """The number of free slots."""
        return sum(group.free for group in self._groups)

    def has_room(self, kind: Kind) -> bool:
        """Return whether another turn finds a worker."""
        return any(group.free for group in self._serving.get(kind, ())) or bool(self._find(kind))

    def take(self, kind: Kind, count: int = 1) -> bool:
        """Take slots; return whether there were as many."""
        for _ in range(count):
            path = self._find(kind)
            if not path:
                return False
            path[0][0].free -= 1
            for group, moved in path:
                group.used[moved] += 1
            for (_, moved), (group, _) in pairwise(path):
                group.used[moved] -= 1
        return True

    def _find(self, kind: Kind) -> list[tuple[_Group, Kind]]:
        """Return which groups get which turn, from one with a free slot to the first; none if there is none."""
        came_from: dict[_Group, tuple[_Group | None, Kind]] = {}
        waiting = deque(self._visit(kind, None, came_from))
        while waiting:
            group = waiting.popleft()
            if group.free:
                return list(_trace(group, came_from))
            for used in +group.used:
                waiting.extend(self._visit(used, group, came_from))
        return []

    def _visit(
        self, kind: Kind, before: _Group | None, came_from: dict[_Group, tuple[_Group | None, Kind]]
    ) -> Iterator[_Group]:
        for group in self._serving.get(kind, ()):
            if group not in came_from:
                came_from[group] = before, kind
                yield group


def _trace(
    group: _Group | None, came_from: dict[_Group, tuple[_Group | None, Kind]]
) -> Iterator[tuple[_Group, Kind]]:
    while group is not None:
        before, kind = came_from[group]
        yield group, kind
        group = before


class QueueFacts(Struct, frozen=True):
    """The facts for an admission.

    Args:
        limits: the limits.
        workers: the workers that are alive.
        admitted: how many turns run, by tenant and agent.
        last_served: the tenant whose turn was admitted last; "" if there was none.
    """

    limits: LimitTable
    workers: Sequence[WorkerInfo]
    admitted: Mapping[tuple[str, str], int]
    last_served: str = ""


class Room:
    """The room that is left; `take` makes it smaller.

    Args:
        facts: the facts that it depends on.
    """

    def __init__(self, facts: QueueFacts) -> None:
        self.limits = facts.limits
        self._allowed: dict[str, int] = {}
        self._slots = WorkerSlots(facts.workers)
        self._agents: dict[str | None, list[str]] = {}
        for pool, agent in sorted(self._slots.kinds, key=_sort_kind):
            self._agents.setdefault(pool, []).append(agent)
        self._by_tenant: Counter[str] = Counter()
        self._by_agent: Counter[str] = Counter()
        self._total = 0
        for (tenant, agent), count in facts.admitted.items():
            self._count(tenant, agent, count)

    def _count(self, tenant: str, agent: str, count: int) -> None:
        self._by_tenant[tenant] += count
        self._by_agent[agent] += count
        self._slots.take((self._pool_of(tenant), agent), count)
        self._total += count

    def _pool_of(self, tenant: str) -> str | None:
        return tenant if tenant in self._agents else None

    def allow(self, allowed: Mapping[str, int]) -> None:
        """Set how many turns of some tenants may run at once by their quotas of tokens."""
        self._allowed.update(allowed)

    @property
    def is_full(self) -> bool:
        """Whether no turn at all may be admitted."""
        most = self.limits.of_all
        if most.is_paused or self.limits.are_all_tenants_paused:
            return True
        return _is_reached(most.running, self._total) or self._slots.is_full

    @property
    def free_slots(self) -> int:
        """The number of slots that no turn has."""
        return self._slots.free

    @property
    def agents(self) -> list[str]:
        """The agents of which a turn of some tenant may be admitted, sorted."""
        if self.is_full:
            return []
        kinds = [kind for kind in self._slots.kinds if self._slots.has_room(kind)]
        return sorted({agent for _, agent in kinds if self._has_room(agent)})

    def count_running(self, tenant: str) -> int:
        """Return how many turns of a tenant run or were taken."""
        return self._by_tenant[tenant]

    def find_agents(self, tenant: str) -> list[str]:
        """Return the agents of which a turn of this tenant may be admitted, sorted."""
        pool = self._pool_of(tenant)
        limits = self.limits.of_tenant(tenant)
        most = smallest((limits.running, self._allowed.get(tenant)))
        is_shut = limits.is_paused or _is_reached(most, self._by_tenant[tenant])
        if self.is_full or is_shut:
            return []
        return [
            agent
            for agent in self._agents.get(pool, ())
            if self._has_room(agent) and self._slots.has_room((pool, agent))
        ]

    def _has_room(self, agent: str) -> bool:
        limits = self.limits.of_agent(agent)
        return not limits.is_paused and not _is_reached(limits.running, self._by_agent[agent])

    def take(self, tenant: str, agent: str) -> str:
        """Count a turn that is admitted; return the queue of its job."""
        self._count(tenant, agent, 1)
        return self.name_queue(tenant, agent)

    def name_queue(self, tenant: str, agent: str) -> str:
        """Return the queue of the workers that serve a tenant."""
        return name_queue(agent, self._pool_of(tenant))


def _sort_kind(kind: Kind) -> tuple[str, str]:
    pool, agent = kind
    return pool or "", agent


def _is_reached(limit: int | None, count: int) -> bool:
    return limit is not None and count >= limit
