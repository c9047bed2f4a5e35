"""The routes of agents."""

from __future__ import annotations

from starlette.responses import Response

from holdfast.hosting.bound_agents import AnyAgent, plan_of
from holdfast.server.access.budgets import READS
from holdfast.server.api.operations import AnyOperation, Call, Operation, OperationAnswer, respond
from holdfast.server.api.request_bodies import NoBody, NoQuery
from holdfast.server.api.views import AgentList, AgentView, ToolView


def view_agent(agent: AnyAgent) -> AgentView:
    """Return what is shown of an agent."""
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
)
"""What can be done with agents."""
