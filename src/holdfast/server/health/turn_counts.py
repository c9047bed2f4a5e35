"""Counts the turns of a service: those that run in this process, and those that wait for somebody."""

from __future__ import annotations

import time
from collections.abc import Callable

from msgspec import Struct

from holdfast.core.effects import is_nested_run
from holdfast.server.service import Service, TenantService

_REMEMBERED_SECONDS = 1.0


class TurnCount(Struct, frozen=True):
    """The turns of one tenant.

    Args:
        running: those that this process drives.
        waiting: the open ones that no process drives: they wait for an answer or a recovery.
    """

    running: int
    waiting: int


class TurnCounts:
    """Counts the turns of each tenant. Those that wait are counted at most once a second.

    Args:
        service: the service.
        monotonic: a clock in seconds that does not go back.
    """

    def __init__(self, service: Service, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._service = service
        self._monotonic = monotonic
        self._waiting: dict[str, tuple[float, int]] = {}

    async def count(self, tenant: str) -> TurnCount:
        """Return the turns of a tenant. Raises JournalError."""
        found = self._service.for_tenant(tenant)
        at, waiting = self._waiting.get(tenant, (float("-inf"), 0))
        if self._monotonic() - at >= _REMEMBERED_SECONDS:
            waiting = await _count_waiting(found)
            self._waiting[tenant] = (self._monotonic(), waiting)
        return TurnCount(len(found.runner.driven), waiting)

    async def read_gauges(self) -> dict[str, float]:
        """Return the turns of all tenants that this process has served. Raises JournalError."""
        counts = [await self.count(one.tenant) for one in self._service.tenants]
        return {
            "turns_running": float(sum(one.running for one in counts)),
            "turns_waiting": float(sum(one.waiting for one in counts)),
        }


async def _count_waiting(tenant: TenantService) -> int:
    runner = tenant.runner
    return sum(
        not (is_nested_run(entry.run) or entry.leased or runner.find(entry.run))
        for entry in await tenant.journal.runs(turn_open=True)
    )
