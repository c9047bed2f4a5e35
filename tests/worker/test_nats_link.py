"""The live link over a real NATS server: messages, a killed server, acts, and live text of a turn."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
from tests.nats_server import NatsServer
from tests.postgres_server import PostgresServer

from holdfast import Agent, PostgresJournal
from holdfast.event_log.live.reading import ReadingEnd
from holdfast.event_log.stream_items import EventItem, TextItem
from holdfast.hosting.lifetime import ServiceLifetime
from holdfast.hosting.service_tenants import ServiceTenants
from holdfast.hosting.tenant_service import TenantService
from holdfast.journal.live_link import DriverAct, LiveLink
from holdfast.testing.emulator import Emulator, Pace
from holdfast.worker.engines.engine_opening import open_engine
from holdfast.worker.engines.nats_engine import NatsEngine

pytestmark = pytest.mark.anyio

SAID = " ".join(f"word-{number}" for number in range(40))


class Hearing:
    """What one process heard."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.messages: asyncio.Queue[str] = asyncio.Queue()
        self.states: asyncio.Queue[bool] = asyncio.Queue()
        self.link: LiveLink

    def hear(self, text: str) -> None:
        self._loop.call_soon_threadsafe(self.messages.put_nowait, text)

    def note(self, is_up: bool) -> None:
        self._loop.call_soon_threadsafe(self.states.put_nowait, is_up)

    async def next_state(self) -> bool:
        return await asyncio.wait_for(self.states.get(), 20)

    async def next_message(self) -> str:
        return await asyncio.wait_for(self.messages.get(), 20)


@asynccontextmanager
async def opened(journal: PostgresJournal, server: NatsServer) -> AsyncIterator[NatsEngine]:
    engine = open_engine(server.url, journal)
    assert isinstance(engine, NatsEngine)
    await engine.open()
    try:
        yield engine
    finally:
        await engine.close()


@asynccontextmanager
async def hearing(url: str, server: NatsServer) -> AsyncIterator[Hearing]:
    with PostgresJournal(url) as journal:
        async with opened(journal, server) as engine:
            found = Hearing()
            found.link = engine.make_open_link(journal)(found.hear, found.note)
            assert await found.next_state()
            yield found
            found.link.close()
            found.link.close()


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not holds():
            await asyncio.sleep(0.01)


async def test_messages_reach_every_process_in_order_and_no_other_journal(
    nats_server: NatsServer, postgres: PostgresServer, url: str
) -> None:
    texts = [f"{number}: é😀" for number in range(50)]
    async with (
        hearing(url, nats_server) as first,
        hearing(url, nats_server) as second,
        hearing(postgres.new_url(), nats_server) as other,
    ):
        assert first.link.is_up
        await first.link.send(texts[:30])
        await first.link.send(texts[30:])
        for one in (first, second):
            assert [await one.next_message() for _ in texts] == texts
        await other.link.send(["mine"])
        assert await other.next_message() == "mine"
        assert other.messages.empty()
        assert second.messages.empty()


async def test_while_nats_is_down_messages_go_by_notify_and_readers_are_told(
    nats_server: NatsServer, url: str
) -> None:
    async with hearing(url, nats_server) as first, hearing(url, nats_server) as second:
        nats_server.kill()
        try:
            assert not await first.next_state()
            assert not await second.next_state()
            assert not first.link.is_up
            await until(lambda: second.link._journal_link.is_up)  # type: ignore[attr-defined]
            await first.link.send(["by another way"])
            assert await second.next_message() == "by another way"
        finally:
            await asyncio.to_thread(nats_server.start)
        assert await first.next_state()
        assert await second.next_state()
        await first.link.send(["again"])
        assert await second.next_message() == "again"
        assert second.messages.empty()


async def test_acts_stay_in_the_journal(nats_server: NatsServer, url: str) -> None:
    async with hearing(url, nats_server) as first, hearing(url, nats_server) as second:
        act = DriverAct("a1", "ada", "cancel")
        await first.link.add_act("t", act)
        assert list(await second.link.find_acts("t", ["ada"])) == [act]
        await second.link.finish_act("a1", "done")
        assert await first.link.take_result("a1") == "done"
        await first.link.add_act("t", act)
        await first.link.forget_act("a1")
        assert list(await second.link.find_acts("t", ["ada"])) == []


@asynccontextmanager
async def serving(
    url: str, server: NatsServer, model_url: str
) -> AsyncIterator[tuple[ServiceTenants, TenantService]]:
    async with AsyncExitStack() as stack:
        journal = stack.enter_context(PostgresJournal(url))
        engine = await stack.enter_async_context(opened(journal, server))
        agent = Agent("openai:emulated", base_url=model_url, api_key="none", name="talker")
        service = ServiceTenants(agent, journal)
        service.open_link = engine.make_open_link(journal)
        await stack.enter_async_context(ServiceLifetime(service, 5.0))
        yield service, service.for_tenant()


@pytest.mark.parametrize("is_killed", [False, True], ids=["up", "killed"])
async def test_a_reader_sees_the_live_text_of_a_turn_in_another_process(
    nats_server: NatsServer, url: str, is_killed: bool
) -> None:
    """Whole and in order, also when the server is killed and started while the text is written."""
    with Emulator(lambda _: SAID, faults=lambda _: Pace(0.05)) as emulator:
        async with (
            serving(url, nats_server, emulator.base_url) as (driving, driver),
            serving(url, nats_server, emulator.base_url) as (watching, other),
        ):
            await until(lambda: driving.is_connected and watching.is_connected)
            await driver.start("talker", "Talk", session="ada")
            texts, shown, has_ended = 0, "", False
            async with asyncio.timeout(60):
                async for entry in other.reader.follow("ada", end=ReadingEnd(1)):
                    if isinstance(entry.item, TextItem):
                        texts += 1
                        shown = shown[: entry.item.offset] + entry.item.text
                        if is_killed and texts == 5:
                            nats_server.kill()
                            await asyncio.to_thread(nats_server.start)
                    has_ended |= isinstance(entry.item, EventItem) and "turn_closed" in str(
                        entry.encoded
                    )
    assert shown == SAID
    assert has_ended
    # A busy machine sends what came meanwhile as one piece.
    assert texts > (5 if is_killed else 1)
