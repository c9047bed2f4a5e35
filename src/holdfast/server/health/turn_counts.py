"""Counts the turns of a service: those that run in this process, and those that wait for somebody."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress

from msgspec import Struct

from holdfast.core.effects import is_nested_run
from holdfast.core.errors import HoldfastError
from holdfast.hosting.service_tenants import ServiceTenants
from holdfast.hosting.tenant_service import TenantService

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

    def __init__(
        self, service: ServiceTenants, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._service = service
        self._monotonic = monotonic
        self._waiting: dict[str, tuple[float, int]] = {}
        self._counting: dict[str, asyncio.Task[None]] = {}

    def estimate(self, tenant: str) -> TurnCount:
        """Return the turns of a tenant as they were last counted, and begin to count again.

        So a turn does not wait for the journal before it starts.
        """
        found = self._service.for_tenant(tenant)
        at, waiting = self._waiting.get(tenant, (float("-inf"), 0))
        if self._monotonic() - at >= _REMEMBERED_SECONDS and tenant not in self._counting:
            task = asyncio.get_running_loop().create_task(self._count_quietly(found))
            self._counting[tenant] = task
            task.add_done_callback(lambda _: self._counting.pop(tenant, None))
        return TurnCount(len(found.runner.driven), waiting)

    async def read_gauges(self) -> dict[str, float]:
        """Return the turns of all tenants that this process has served. Raises JournalError."""
        tenants = self._service.tenants
        return {
            "turns_running": float(sum(len(one.runner.driven) for one in tenants)),
            "turns_waiting": float(sum([await self._count(one) for one in tenants])),
        }

    async def _count(self, tenant: TenantService) -> int:
        at, waiting = self._waiting.get(tenant.tenant, (float("-inf"), 0))
        if self._monotonic() - at >= _REMEMBERED_SECONDS:
            waiting = await _count_waiting(tenant)
            self._waiting[tenant.tenant] = (self._monotonic(), waiting)
        return waiting

    async def _count_quietly(self, tenant: TenantService) -> None:
        with suppress(HoldfastError):  # the turn itself will tell that the journal is gone
            await self._count(tenant)


async def _count_waiting(tenant: TenantService) -> int:
    runner = tenant.runner
    return sum(
        not (is_nested_run(entry.run) or entry.leased or runner.find(entry.run))
        for entry in await tenant.journal.runs(turn_open=True)
    )
