"""The workers of a journal, as they tell the others that they are there.

This module must never decide whether a worker is alive: the database compares its times.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

SECONDS_TO_LIVE = 15.0
"""Seconds without a heartbeat after which a worker counts as gone."""

SECONDS_BETWEEN_HEARTBEATS = 3.0
"""Seconds between two heartbeats of a worker."""


class WorkerInfo(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A worker.

    Args:
        id: names it.
        host: the name of its machine.
        process: the number of its process.
        agents: the names of its agents.
        tenants: the tenants that it serves alone; empty for every tenant that has no such worker.
        slots: how many turns it drives at once.
        engine: the name of its engine.
        started_at: when it started, in seconds since the epoch.
        is_stopping: whether it begins no more turns.
    """

    id: str
    host: str
    process: int
    agents: tuple[str, ...]
    tenants: tuple[str, ...] = ()
    slots: int
    engine: str
    started_at: float
    is_stopping: bool = False

    def stopped(self) -> WorkerInfo:
        """Return the worker as it is once it begins no more turns."""
        return replace(self, is_stopping=True)


class WorkerEntry(Struct, frozen=True, kw_only=True):
    """A worker, and when it was seen.

    Args:
        info: what it said of itself.
        seen_at: its last heartbeat, in seconds since the epoch.
        is_alive: whether that is not too long ago.
        driving: the number of entries that it has begun.
    """

    info: WorkerInfo
    seen_at: float
    is_alive: bool
    driving: int = 0
