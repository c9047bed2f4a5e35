"""Records streams of the service for the tests of the console's fold: python -m tests.console.record

Each file has the items that a live reader got, one a line, and at its end the items that a reader of the
journal gets.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import msgspec

from holdfast import Agent, ToolPermission, tool
from holdfast.event_log.item_encoding import encode_item
from holdfast.event_log.live.reading import TURN_RESTS, ReadingEnd
from holdfast.event_log.positions import START
from holdfast.event_log.stream_items import TextItem
from holdfast.hosting.service_tenants import ServiceTenants
from holdfast.hosting.tenant_service import TenantService
from holdfast.resilience.retry.options import RetryOptions
from holdfast.testing import Emulator
from holdfast.testing.emulator import DropAfter, EmulatedRequest, ErrorResponse, Fault, Pace, call
from holdfast.testing.emulator.script import Replies

FOLDER = Path(__file__).parent / "recorded"
TEXT = "Zwölf 🦆🦆 ducks: **bold**, <b>not bold</b>, and \u202ereversed\u202c. " * 6


@tool(effect="read")
async def look(place: str) -> str:
    """Look somewhere."""
    await asyncio.sleep(0.01 if place == "pond" else 0.03)
    return f"ducks in the {place}"


@tool(effect="write")
async def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


def _look_then_tell(request: EmulatedRequest) -> object:
    if request.iteration == 0:
        return [
            "I look at two places.",
            call("look", {"place": "pond"}),
            call("look", {"place": "park"}),
        ]
    return TEXT


def _pay_then_tell(request: EmulatedRequest) -> object:
    return "It is paid." if request.tool_results else [call("pay", {"amount": 3})]


def make_tenant(provider: Emulator) -> TenantService:
    """Return a service with an agent that has all tools."""
    agent = Agent(
        "openai:demo",
        name="keeper",
        base_url=provider.base_url,
        api_key="any",
        tools=[look, pay],
        retry=RetryOptions(retry_delay=0.02),
        middleware=[ToolPermission(allow=["look"], ask=["pay"])],
    )
    return ServiceTenants(agent).for_tenant()


async def read(tenant: TenantService, session: str = "s", cancels_at: str = "") -> list[bytes]:
    """Follow a session until its turn rests; cancel it after some text."""
    latest = await tenant.last_turn(session)
    found: list[bytes] = []
    text = ""
    async for entry in tenant.reader.follow(session, START, ReadingEnd(latest.turn, TURN_RESTS)):
        found.append(encode_item(entry.item))
        text += entry.item.text if isinstance(entry.item, TextItem) else ""
        if cancels_at and cancels_at in text:
            cancels_at = ""
            await tenant.cancel(session)
    return found


async def record(
    replies: Replies, faults: Sequence[Fault | Sequence[Fault] | None] = (), act: str = ""
) -> tuple[list[bytes], list[bytes]]:
    """Run a turn; return what a live reader got, and what the journal has."""
    async with Emulator(replies, faults=list(faults)) as provider:
        tenant = make_tenant(provider)
        await tenant.start("keeper", "How many ducks?", session="s")
        live = await read(tenant, cancels_at="ducks: **" if act == "cancel" else "")
        if act == "approve":
            agent = await tenant.agent_of("s")
            question = (await agent.questions("s"))[0]
            await tenant.answer("s", question.approve(by="ann", arguments={"amount": 2}))  # type: ignore[attr-defined]
            live = await read(tenant)
        return live, await read(tenant)


SCENARIOS: dict[str, tuple[Replies, Sequence[Fault | Sequence[Fault] | None], str]] = {
    "plain": ([TEXT], (), ""),
    "retried": ([TEXT], (ErrorResponse("rate_limit", {"retry-after": "1"}), DropAfter(9)), ""),
    "tools": (_look_then_tell, (None, DropAfter(20)), ""),  # type: ignore[dict-item]
    "approved": (_pay_then_tell, (), "approve"),  # type: ignore[dict-item]
    "failed": ([TEXT], (ErrorResponse("context_length"),), ""),
    "cancelled": (_look_then_tell, (None, Pace(0.01)), "cancel"),  # type: ignore[dict-item]
}


async def main() -> None:
    """Write the recordings again."""
    for name, (replies, faults, act) in SCENARIOS.items():
        live, saved = await record(replies, faults, act)
        text = msgspec.json.encode(
            {
                "live": [msgspec.Raw(one) for one in live],
                "saved": [msgspec.Raw(one) for one in saved],
            }
        )
        (FOLDER / f"{name}.json").write_bytes(msgspec.json.format(text, indent=1) + b"\n")
        print(name, len(live), len(saved))


if __name__ == "__main__":
    asyncio.run(main())
