"""The metrics of a service: turns, streams, requests, circuit breakers, and the queue, which workers have too.

They must never name a tenant.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TypeAlias

from msgspec import Struct

from holdfast.core.effects import is_nested_run
from holdfast.core.errors import HoldfastError
from holdfast.core.events import (
    Event,
    ModelFailed,
    ModelReplied,
    ResultsWithheld,
    ToolFinished,
    TurnClosed,
    TurnOpened,
)
from holdfast.core.notices import BreakerChanged, Notice
from holdfast.hosting.service_tenants import ServiceTenants
from holdfast.hosting.tenant_service import TenantService
from holdfast.journal.inbox.inbox import QueueDepth
from holdfast.server.health.prometheus import Histogram, Metric, write_all
from holdfast.telemetry.observers import IGNORED_TRACES

Gauges: TypeAlias = Callable[[], Awaitable[Mapping[str, float]]]
"""Returns the values of gauges by the names in `GAUGES`."""

ReadMetrics: TypeAlias = Callable[[], Awaitable[Sequence[Metric]]]
"""Returns metrics that are read when somebody asks for them."""

GAUGES = {
    "turns_running": "Turns that this process drives.",
    "turns_waiting": "Open turns that no process drives: they wait for an answer or a recovery.",
    "streams_open": "Streams that are open in this process.",
}

BREAKER_STATES = ("closed", "half_open", "open", "isolated")
_BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_PRICED = (ModelReplied, ModelFailed, ResultsWithheld, ToolFinished)
"""The events with a cost; that of a tool has those of the agents inside it."""

_MOST_ROUTES = 200
_REMEMBERED_SECONDS = 1.0


class ServiceMetrics:
    """Counts the work of a service. The labels are names of agents, routes and models only."""

    def __init__(self) -> None:
        self.turns_started = Metric("holdfast_turns_started_total", "Turns that began.", ("agent",))
        self.turns_ended = Metric(
            "holdfast_turns_ended_total", "Turns that ended, by their status.", ("agent", "status")
        )
        self.cost = Metric("holdfast_cost_total", "The known cost of calls.", ("agent", "currency"))
        self.requests = Metric(
            "holdfast_http_requests_total",
            "Requests that were answered.",
            ("method", "route", "status"),
        )
        self.seconds = Histogram(
            "holdfast_http_response_seconds",
            "Seconds until the head of the response was sent.",
            ("method", "route"),
            _BOUNDS,
        )
        self.breakers = Metric(
            "holdfast_breaker_state",
            "1 for the state that the circuit breaker of a target has.",
            ("target", "state"),
            "gauge",
        )
        self._gauges: list[Gauges] = []
        self._more: list[ReadMetrics] = []
        self._routes: set[str] = set()

    def add_gauges(self, read: Gauges) -> None:
        """Add a function that is called when the metrics are read."""
        self._gauges.append(read)

    def add_metrics(self, read: ReadMetrics) -> None:
        """Add a function that returns further metrics when the metrics are read."""
        self._more.append(read)

    def note_item(self, agent: str, item: Event | Notice) -> None:
        """Count an item of a run.

        Args:
            agent: the name of the agent.
            item: an event or a notice; most are not counted.
        """
        if isinstance(item, TurnOpened):
            self.turns_started.add((agent,))
        elif isinstance(item, TurnClosed):
            self.turns_ended.add((agent, item.status.value))
        elif isinstance(item, _PRICED):
            if item.cost is not None:
                self.cost.add((agent, item.cost.currency), float(item.cost.amount))
        elif isinstance(item, BreakerChanged):
            for state in BREAKER_STATES:
                self.breakers.set((item.target, state), float(state == item.after))

    def note_request(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a request.

        Args:
            method: its method.
            route: the path of its route, with the names of its parameters.
            status: the status of the response.
            seconds: seconds until the head of the response was sent.
        """
        if route not in self._routes:
            if len(self._routes) >= _MOST_ROUTES:
                route = "other"
            self._routes.add(route)
        self.requests.add((method, route, str(status)))
        self.seconds.observe((method, route), seconds)

    async def write(self) -> str:
        """Return all metrics in the text format of Prometheus. Raises JournalError."""
        values: dict[str, float] = {}
        for read in self._gauges:
            for name, value in (await read()).items():
                values[name] = values.get(name, 0.0) + value
        gauges = []
        for name, about in GAUGES.items():
            gauge = Metric(f"holdfast_{name}", about, kind="gauge")
            gauge.set((), values.get(name, 0.0))
            gauges.append(gauge)
        ignored = Metric(
            "holdfast_traceparents_ignored_total", "Headers traceparent that were malformed."
        )
        ignored.set((), float(IGNORED_TRACES["malformed"]))
        known = (
            *(self.turns_started, self.turns_ended, self.cost, self.breakers),
            *(self.requests, self.seconds, ignored),
        )
        more = [metric for read in self._more for metric in await read()]
        return write_all([*known, *gauges, *more])


def measure_queue(depths: Iterable[QueueDepth]) -> list[Metric]:
    """Return how many entries are in each state, and how old the oldest of them is.

    >>> from holdfast.journal.inbox.entries import EntryState
    >>> depths = [QueueDepth("a", EntryState.READY, 2, 9.0), QueueDepth("b", EntryState.READY, 1, 4.0)]
    >>> [gauge.get(("ready",)) for gauge in measure_queue(depths)]
    [3, 9.0]
    """
    counts: dict[str, int] = defaultdict(int)
    ages: dict[str, float] = defaultdict(float)
    for depth in depths:
        counts[depth.state.value] += depth.count
        ages[depth.state.value] = max(ages[depth.state.value], depth.oldest_seconds)
    depth_gauge = Metric(
        "holdfast_queue_depth", "Entries of all tenants in a state.", ("state",), "gauge"
    )
    age_gauge = Metric(
        "holdfast_queue_oldest_seconds",
        "Seconds since the oldest entry in a state was submitted.",
        ("state",),
        "gauge",
    )
    for state, count in counts.items():
        depth_gauge.set((state,), count)
        age_gauge.set((state,), ages[state])
    return [depth_gauge, age_gauge]


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
        with suppress(HoldfastError):  # the turn itself will report that the journal is gone
            await self._count(tenant)


async def _count_waiting(tenant: TenantService) -> int:
    runner = tenant.runner
    return sum(
        not (is_nested_run(entry.run) or entry.leased or runner.find(entry.run))
        for entry in await tenant.journal.runs(turn_open=True)
    )
