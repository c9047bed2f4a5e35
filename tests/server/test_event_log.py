"""A reader of the service sees the same text live, later, and after it was away."""

from __future__ import annotations

import asyncio

from holdfast import Agent, ToolPermission, tool
from holdfast.core.messages import Reply, ToolCall
from holdfast.server.event_log.positions import START, Position, TextDigest, parse_position
from holdfast.server.event_log.stream_items import StatusItem, StreamItem, TextItem, WithdrawnItem
from holdfast.server.live.reading import TURN_RESTS, ReadingEnd
from holdfast.server.service import Service, TenantService
from holdfast.testing import ScriptedModel


@tool(effect="write")
async def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


def make_service(*replies: Reply | str) -> TenantService:
    permission = ToolPermission(ask=["pay"])
    agent = Agent(ScriptedModel(*replies), name="payer", tools=[pay], middleware=[permission])
    return Service(agent).for_tenant()


async def read(service: TenantService, after: Position = START) -> list[StreamItem]:
    """Read the session "ada" until its turn rests."""
    latest = await service.last_turn("ada")
    entries = service.reader.follow("ada", after, ReadingEnd(latest.turn, TURN_RESTS))
    return [entry.item async for entry in entries]


def shown_text(items: list[StreamItem], before: str = "") -> str:
    """Return what a client shows that follows the rule of `TextItem`."""
    for item in items:
        if isinstance(item, TextItem):
            before = before[: item.offset] + item.text
        elif isinstance(item, WithdrawnItem):
            before = ""
    return before


async def test_a_turn_waits_for_its_answer_and_goes_on() -> None:
    call = Reply((ToolCall("c1", "pay", '{"amount": 3}'),))
    service = make_service(call, "Done, I paid it.")
    accepted = await service.start("payer", "Pay 3.", session="ada")
    assert (accepted.session, accepted.number, accepted.sequence) == ("ada", 1, 0)
    await read(service)
    assert (await service.last_turn("ada")).status == "waiting"
    question = (await (await service.agent_of("ada")).questions("ada"))[0]
    assert await service.answer("ada", question.approve(by="ann"))
    assert shown_text(await read(service)) == "Done, I paid it."
    assert (await service.last_turn("ada")).status == "completed"


async def test_a_reader_that_comes_back_gets_the_rest_or_a_withdrawal() -> None:
    service = make_service("Hello you.")
    await service.start("payer", "Hi.", session="ada")
    items = await read(service)
    place = next(parse_position(item.position) for item in items if isinstance(item, TextItem))
    half = Position(1, 5, str(TextDigest("Hello")))
    assert shown_text(await read(service, half), "Hello") == "Hello you."
    assert shown_text(await read(service, place), "Hello you.") == "Hello you."
    other = Position(1, 5, str(TextDigest("Hallo")))
    missed = await read(service, other)
    assert any(isinstance(item, WithdrawnItem) for item in missed)
    assert shown_text(missed, "Hallo") == "Hello you."


async def test_a_reader_that_follows_a_session_is_told_of_the_next_turn() -> None:
    was_told = asyncio.Event()

    @tool(effect="read")
    async def wait() -> str:
        """Wait until the reader knows of this turn."""
        await was_told.wait()
        return "waited"

    call = Reply((ToolCall("c1", "wait", "{}"),))
    agent = Agent(ScriptedModel("Hello.", call, "Hello again."), name="waiter", tools=[wait])
    service = Service(agent).for_tenant()
    await service.start("waiter", "Hi.", session="ada")
    seen: list[tuple[int, str]] = []
    async for entry in service.reader.follow("ada"):
        if isinstance(entry.item, StatusItem):
            seen.append((entry.item.turn, entry.item.status))
            if seen[-1] == (1, "completed"):
                await service.start("waiter", "Hi again.", session="ada")
            if seen[-1] == (2, "running"):
                was_told.set()
            if seen[-1] == (2, "completed"):
                break
