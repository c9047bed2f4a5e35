"""The routes of agents, and of the endpoints that the agents of this process call."""

from __future__ import annotations

from msgspec import Struct
from starlette.responses import Response

from holdfast.hosting.bound_agents import AnyAgent, plan_of
from holdfast.resilience.breaker.strategy import BreakerSnapshot, StateName
from holdfast.resilience.endpoint_states import PROCESS, EndpointState
from holdfast.resilience.system_clock import SystemClock
from holdfast.server.access.budgets import READS
from holdfast.server.api.operations import AnyOperation, Call, Operation, OperationAnswer, respond
from holdfast.server.api.request_bodies import NoBody, NoQuery
from holdfast.server.api.views import AgentList, AgentView, ToolView


def view_agent(agent: AnyAgent) -> AgentView:
    """Return the view of an agent."""
    plan = plan_of(agent)
    view = AgentView(
        name=plan.name,
        description=plan.instructions.find_first_sentence(),
        model=plan.model.name,
        tools=tuple(
            ToolView(tool.name, tool.description, dict(tool.spec.schema), tool.effect or "")
            for tool in plan.registry.tools
            if tool.offered
        ),
    )
    if plan.output is None:
        return view
    schema = dict(plan.output.schema.schema)
    return AgentView(view.name, view.description, view.model, view.tools, schema)


async def list_agents(call: Call[NoQuery, NoBody]) -> Response:
    """List the agents."""
    return respond([view_agent(agent) for agent in call.tenant.agents])


class BreakerView(Struct, frozen=True):
    """A circuit breaker.

    Args:
        state: "closed" (requests are sent), "open" (they are refused), "half_open" (single ones test
            the endpoint) or "isolated" (opened by hand).
        calls: the recent calls that it counts.
        failures: how many of them failed.
        seconds: how long it stays open; null if it is not open.
    """

    state: StateName
    calls: int
    failures: int
    seconds: float | None = None


class LimiterView(Struct, frozen=True):
    """A rate limiter.

    Args:
        running: the calls in progress.
        waiting: the calls that wait for a place.
        limit: how many may be in progress at once.
    """

    running: int
    waiting: int
    limit: int


class BudgetView(Struct, frozen=True):
    """A retry budget.

    Args:
        retries: how many retries it allows now.
    """

    retries: float


class EndpointView(Struct, frozen=True):
    """An endpoint as this process knows it.

    Args:
        target: its provider and model.
        breaker: its circuit breaker; null without one.
        limiter: its rate limiter; null without one.
        budget: its retry budget; null without one.
    """

    target: str
    breaker: BreakerView | None = None
    limiter: LimiterView | None = None
    budget: BudgetView | None = None


def view_endpoint(state: EndpointState, now: float) -> EndpointView:
    """Return the view of an endpoint.

    Args:
        state: its state, as the process knows it.
        now: the monotonic clock, in seconds.
    """
    load = None if state.limiter is None else state.limiter.load()
    return EndpointView(
        state.endpoint,
        None if state.breaker is None else _view_breaker(state.breaker.snapshot(), now),
        None if load is None else LimiterView(load.running, load.waiting, load.limit),
        None if state.budget is None else BudgetView(state.budget.tokens),
    )


def _view_breaker(seen: BreakerSnapshot, now: float) -> BreakerView:
    seconds = None if seen.until is None else max(0.0, seen.until - now)
    return BreakerView(seen.state, seen.successes + seen.failures, seen.failures, seconds)


async def list_endpoints(_call: Call[NoQuery, NoBody]) -> Response:
    """List the endpoints that agents of this process have called."""
    now = SystemClock().monotonic()
    return respond([view_endpoint(state, now) for state in PROCESS.all_endpoints()])


OPERATIONS: tuple[AnyOperation, ...] = (
    Operation(
        name="list_agents",
        method="GET",
        path="/agents",
        text="List the agents.",
        scope="read",
        takes=READS,
        handle=list_agents,
        query=NoQuery,
        body=NoBody,
        answers={200: (OperationAnswer(AgentList, "The agents, by name."),)},
    ),
    Operation(
        name="list_endpoints",
        method="GET",
        path="/endpoints",
        text="List the endpoints of models that this process has called for any tenant, and their health.",
        scope="admin",
        takes=READS,
        handle=list_endpoints,
        query=NoQuery,
        body=NoBody,
        answers={200: (OperationAnswer(tuple[EndpointView, ...], "The endpoints, by name."),)},
    ),
)
"""The operations on agents and endpoints."""
