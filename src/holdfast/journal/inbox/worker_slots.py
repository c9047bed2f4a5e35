"""The slots of the workers: which turns find a worker that serves their tenant and has their agent.

Pure. Workers differ in their agents and tenants, so that counting all slots is not enough: ten turns of one
agent must not take the slots of a worker that lacks it. Turns that were placed move to another worker
where that makes room, as in a matching by augmenting paths.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import TypeAlias

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
