"""The metrics of a service: turns, streams, requests, circuit breakers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypeAlias

from holdfast.core.events import Event, TurnClosed, TurnOpened
from holdfast.core.notices import BreakerChanged, Notice
from holdfast.server.health.prometheus import Histogram, Metric, write_all

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
_MOST_ROUTES = 200


class ServiceMetrics:
    """Counts what a service does. The labels are names of agents, routes and models only."""

    def __init__(self) -> None:
        self.turns_started = Metric("holdfast_turns_started_total", "Turns that began.", ("agent",))
        self.turns_ended = Metric(
            "holdfast_turns_ended_total", "Turns that ended, by their status.", ("agent", "status")
        )
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
        """Count what a run tells.

        Args:
            agent: the name of the agent.
            item: an event or a notice; most are not counted.
        """
        if isinstance(item, TurnOpened):
            self.turns_started.add((agent,))
        elif isinstance(item, TurnClosed):
            self.turns_ended.add((agent, item.status.value))
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
        known = (self.turns_started, self.turns_ended, self.breakers, self.requests, self.seconds)
        more = [metric for read in self._more for metric in await read()]
        return write_all([*known, *gauges, *more])
