"""A tool of a service emitted a notice with an object that JSON cannot express, and its turn was cancelled."""

from __future__ import annotations

import asyncio

import pytest

from holdfast import Agent, ToolContext, tool
from holdfast.core.messages import Reply, ToolCall
from holdfast.event_log.live.reading import ReadingEnd
from holdfast.event_log.stream_items import EventItem, NoticeItem
from holdfast.events import CustomNotice, ToolsBegun
from holdfast.hosting.service_tenants import ServiceTenants
from holdfast.testing import ScriptedModel


class Handle:
    """Nothing that JSON knows."""


class Opened(CustomNotice, frozen=True):
    name: str
    value: object


@pytest.mark.parametrize("value", [Handle(), {(1, 2): "a pair"}, float("nan"), "\ud800", 2**80])
async def test_the_turn_completes_and_its_readers_see_the_rest(value: object) -> None:
    is_read = asyncio.Event()

    @tool(effect="read")
    async def look(context: ToolContext) -> str:
        """Look."""
        await is_read.wait()
        context.emit(Opened("first", value))
        return "seen"

    call = Reply((ToolCall("c1", "look", "{}"),))
    service = ServiceTenants(
        Agent(ScriptedModel(call, "Done."), name="a", tools=[look])
    ).for_tenant()
    turn = await service.start("a", "Look.", session="s")
    items = []
    async for entry in service.reader.follow("s", end=ReadingEnd(turn.number)):
        items.append(entry.item)
        if isinstance(entry.item, EventItem) and isinstance(entry.item.event, ToolsBegun):
            is_read.set()
    assert (await service.last_turn("s")).status == "completed"
    assert "opened" in [item.name for item in items if isinstance(item, NoticeItem)]
