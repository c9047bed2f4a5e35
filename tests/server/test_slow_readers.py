"""A reader that does not read costs at most its buffer, and comes back with its position."""

from __future__ import annotations

import asyncio

import pytest

from holdfast import Agent
from holdfast.core.deltas import ReasoningDelta
from holdfast.core.events import TurnOpened
from holdfast.core.messages import user
from holdfast.core.notices import AttemptStarted
from holdfast.event_log.item_encoding import encode_item
from holdfast.event_log.live.live_run import LARGEST_BUFFER, LiveRun
from holdfast.event_log.live.reading import ReadingEnd
from holdfast.event_log.positions import START
from holdfast.event_log.stream_items import EndItem, EventItem, StreamItem, TextItem
from holdfast.hosting.service_tenants import ServiceTenants
from holdfast.testing import ScriptedModel

pytestmark = pytest.mark.anyio

LARGE = ReasoningDelta("x" * 100_000)


async def test_a_reader_is_cut_when_its_buffer_is_full() -> None:
    run = LiveRun(0, encode_item)
    run.publish(TurnOpened("t1", 1.0, user("Hi.")))
    slow, _ = run.subscribe()
    quick, _ = run.subscribe()
    run.publish(AttemptStarted("t1.i0.model", 1))
    for _ in range(LARGEST_BUFFER // 100_000 + 1):
        run.publish(LARGE)
        assert len(await quick.take_all()) >= 1
    assert slow.is_too_slow
    assert slow.take_ready() == []
    assert not quick.is_too_slow
    assert run.readers == 1


async def test_what_is_being_sent_counts_until_the_next_is_taken() -> None:
    run = LiveRun(0, encode_item)
    reader, _ = run.subscribe()
    for _ in range(6):
        run.publish(LARGE)
    assert len(await reader.take_all()) == 6
    for _ in range(6):
        run.publish(LARGE)
    assert reader.is_too_slow


async def test_a_reader_that_was_cut_comes_back_and_misses_nothing() -> None:
    text = "word " * 400_000  # 2 MB
    may_end, has_begun = asyncio.Event(), asyncio.Event()

    async def answer(_request: object) -> str:
        has_begun.set()
        await may_end.wait()
        return text

    tenant = ServiceTenants(Agent(ScriptedModel(answer), name="writer")).for_tenant()
    await tenant.start("writer", "Hi.", session="ada")
    await has_begun.wait()
    entries = tenant.reader.follow("ada", START, ReadingEnd(1))
    shown, position = "", START
    async for entry in entries:
        if isinstance(entry.item, EventItem):
            break
    may_end.set()
    while tenant.runner.is_driven("ada"):  # the reader does not read meanwhile
        await asyncio.sleep(0)
    seen: list[StreamItem] = []
    async for entry in entries:
        seen.append(entry.item)
        position = entry.position
    end = seen[-1]
    assert isinstance(end, EndItem)
    if end.reason == "too_slow":
        assert str(position) == end.position
        seen += [e.item async for e in tenant.reader.follow("ada", position, ReadingEnd(1))]
    for item in seen:
        if isinstance(item, TextItem):
            shown = shown[: item.offset] + item.text
    assert shown == text
    assert end.reason == "too_slow"
