"""A reader of the service sees the same text live, later, and after it was away."""

from __future__ import annotations

import asyncio

import msgspec

from holdfast import Agent, ToolPermission, tool
from holdfast.core.events import ModelReplied
from holdfast.core.messages import Reply, Text, ToolCall
from holdfast.event_log.item_encoding import encode_item
from holdfast.event_log.live.reading import TURN_RESTS, ReadingEnd
from holdfast.event_log.positions import START, Position, TextDigest, parse_position
from holdfast.event_log.stream_items import StatusItem, StreamItem, TextItem, WithdrawnItem
from holdfast.event_log.text_fold import TextFold
from holdfast.hosting.service_tenants import ServiceTenants
from holdfast.hosting.tenant_service import TenantService
from holdfast.server.access.redacted_reading import redact_view
from holdfast.testing import ScriptedModel
from holdfast.testing.emulator import cited, hosted_call
from holdfast.testing.emulator.script import expand_hosted


@tool(effect="write")
async def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


def make_service(*replies: Reply | str) -> TenantService:
    permission = ToolPermission(ask=["pay"])
    agent = Agent(ScriptedModel(*replies), name="payer", tools=[pay], middleware=[permission])
    return ServiceTenants(agent).for_tenant()


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
    service = ServiceTenants(agent).for_tenant()
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


def test_a_redacted_reader_can_tell_nested_agents_apart() -> None:
    events = [
        {"type": "SUBAGENT_STARTED", "subagentRunId": f"t1.i0.tool.{at}.finder", "name": "finder"}
        for at in range(2)
    ]
    assert redact_view(events) == events
    said = {"type": "CUSTOM", "name": "agent_text", "value": {"text": "My name is Ada."}}
    assert "Ada" not in str(redact_view(said))


def test_a_reply_has_the_calls_of_the_provider_and_the_sources_of_its_text() -> None:
    search = hosted_call("web_search", {"query": "bridges"}, pages=["https://porto.pt"])
    parts = expand_hosted([search, cited("Six.", "https://porto.pt", "Porto")], "anthropic", 1)
    for reply, names, urls in (
        (Reply(parts), ["web_search"], ["https://porto.pt"]),
        (Reply((Text("Six."),)), [], []),
    ):
        *_, item = TextFold().feed(ModelReplied("t1.i0.model", 1.0, reply))
        decoded = msgspec.json.decode(encode_item(item))
        assert [one["name"] for one in decoded.get("hosted", [])] == names
        assert [one["url"] for one in decoded.get("citations", [])] == urls
        shown = redact_view(decoded)
        assert "porto" not in str(shown)
        assert [one["name"] for one in shown.get("hosted", [])] == names
