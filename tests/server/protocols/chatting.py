"""A service in this process, and what a chat shows of its turns, without HTTP."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from holdfast import Agent, ToolPermission, tool
from holdfast.core.questions import ClarificationQuestion
from holdfast.hosting.service_tenants import ServiceTenants
from holdfast.hosting.tenant_service import TenantService
from holdfast.journal.port import Journal
from holdfast.server.protocols.session_turns import OpenedTurn, list_turns, show_turn
from holdfast.server.protocols.vercel.projection import VercelProjection
from holdfast.server.protocols.vercel.provider_chunks import Chunk
from holdfast.server.protocols.vercel.ui_messages import MessageBuilder
from holdfast.tools.context import ToolContext


@tool(effect="write")
async def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


@tool(effect="read")
async def weather(city: str) -> dict[str, object]:
    """Return the weather."""
    return {"city": city, "degrees": 18}


@tool(effect="read")
async def book(context: ToolContext, nights: int) -> str:
    """Book a room."""
    where = await context.ask(ClarificationQuestion(question="Where?", options=("Porto", "Faro")))
    return f"{nights} nights in {where}"


TOOLS = {"pay", "weather", "book"}


def make_agent(model: object, **keywords: Any) -> Agent:
    """Return an agent with the tools, which asks before it pays."""
    return Agent(
        model,
        name="clerk",
        tools=[pay, weather, book],
        middleware=[ToolPermission(allow=["weather", "book", "get_location*"], ask=["pay"])],
        **keywords,
    )


def make_service(agent: Agent, journal: Journal | None = None) -> TenantService:
    """Return what the default tenant sees of a service of one agent."""
    return ServiceTenants(agent, journal).for_tenant()


async def show_chunks(
    service: TenantService, after: int | None = None, session: str = "ada"
) -> list[Chunk]:
    """Return the chunks of the last turn, until it rests."""
    turn: OpenedTurn = (await list_turns(service, session))[-1]
    projection = VercelProjection(session, turn.number, TOOLS)
    chunks = [projection.start()]
    async for item, position, is_new in show_turn(service, session, turn, after):
        chunks += [chunk for chunk in projection.feed(item, position) if is_new]
    return chunks


def build(chunks: Sequence[Chunk]) -> dict[str, Any]:
    """Return the message that a client makes of chunks."""
    builder = MessageBuilder()
    builder.add(chunks)
    return builder.build()


def shown_parts(chunks: Sequence[Chunk]) -> list[dict[str, Any]]:
    """Return the parts of the message that a client makes of chunks."""
    return list(build(chunks)["parts"])


def kinds(chunks: Sequence[Chunk]) -> list[str]:
    """Return the types of chunks, without the repetitions of deltas."""
    found: list[str] = []
    for chunk in chunks:
        kind = str(chunk["type"])
        if not found or found[-1] != kind or not kind.endswith("-delta"):
            found.append(kind)
    return found
