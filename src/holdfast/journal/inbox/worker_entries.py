"""The workers of a journal, as they show the others that they are there.

This module must never decide whether a worker is alive: the database compares its times.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

SECONDS_TO_LIVE = 15.0
"""Seconds without a heartbeat after which a worker counts as gone; fewer where leases are short."""

_FEWEST_SECONDS = 1.0
_HEARTBEATS = 5  # in the seconds to live


def find_seconds_to_live(lease: float) -> float:
    """Return after how many seconds without a heartbeat a worker counts as gone.

    It is found to be gone before its leases end, so that the next worker waits for the leases alone.

    Args:
        lease: the seconds of the leases of its journal.

    >>> find_seconds_to_live(30.0), find_seconds_to_live(4.0), find_seconds_to_live(0.5)
    (15.0, 2.0, 1.0)
    """
    return max(_FEWEST_SECONDS, min(SECONDS_TO_LIVE, lease / 2))


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
        is_isolating: whether it drives one turn alone, and takes no other until that rests.
        seconds_to_live: seconds without a heartbeat after which it counts as gone.
        presence: names its process for the database, which may know its end sooner; "" if it does not.
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
    is_isolating: bool = False
    seconds_to_live: float = SECONDS_TO_LIVE
    presence: str = ""

    @property
    def seconds_between_heartbeats(self) -> float:
        """Seconds between two of its heartbeats."""
        return self.seconds_to_live / _HEARTBEATS

    def mark_stopping(self) -> WorkerInfo:
        """Return the worker as it is once it begins no more turns."""
        return replace(self, is_stopping=True)


class WorkerEntry(Struct, frozen=True, kw_only=True):
    """A worker, and when it was seen.

    Args:
        info: its own entry.
        seen_at: its last heartbeat, in seconds since the epoch.
        is_alive: whether that is not too long ago.
        driving: the number of entries that it has begun.
    """

    info: WorkerInfo
    seen_at: float
    is_alive: bool
    driving: int = 0
