"""The live link over a real NATS server: messages, a killed server, acts, and live text of a turn."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
from tests.nats_server import NatsServer
from tests.postgres_server import PostgresServer

from holdfast import Agent, PostgresJournal, Reply, Text
from holdfast.core.deltas import TextDelta
from holdfast.core.notices import AttemptStarted
from holdfast.event_log.live.reading import ReadingEnd
from holdfast.event_log.stream_items import EventItem, TextItem
from holdfast.hosting.lifetime import ServiceLifetime
from holdfast.hosting.service_tenants import ServiceTenants
from holdfast.hosting.tenant_service import TenantService
from holdfast.journal.live_link import DriverAct, LiveLink
from holdfast.models import ModelRequest
from holdfast.resilience import CallContext, Done, Outcome
from holdfast.testing import ScriptedModel
from holdfast.worker.engines.engine_opening import open_engine
from holdfast.worker.engines.nats_engine import NatsEngine

pytestmark = pytest.mark.anyio

PARTS = ("Over the link, ", "over whatever is there, ", "and over the link again.")


class GuidedModel(ScriptedModel):
    """Says one part after another, each when it is told to."""

    def __init__(self) -> None:
        super().__init__(name="guided:model")
        self.turns_to_speak = asyncio.Semaphore(0)

    async def attempt(self, call: CallContext[ModelRequest]) -> Outcome[Reply]:
        """Say the parts, and end when it is told to once more."""
        call.execution.emit(AttemptStarted(call.key, call.attempt, self.name))
        for part in PARTS:
            await self.turns_to_speak.acquire()
            call.execution.emit(TextDelta(part))
        await self.turns_to_speak.acquire()
        return Done(Reply((Text("".join(PARTS)),)))


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
        return await asyncio.wait_for(self.states.get(), 60)

    async def next_message(self) -> str:
        return await asyncio.wait_for(self.messages.get(), 60)


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
    async with asyncio.timeout(60):
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


async def test_the_journal_knows_whether_a_process_has_ended(
    nats_server: NatsServer, url: str
) -> None:
    async with hearing(url, nats_server) as first, hearing(url, nats_server) as second:
        await until(lambda: second.link._journal_link.is_up)  # type: ignore[attr-defined]
        assert list(await first.link.find_ended([second.link.process])) == []


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
    url: str, server: NatsServer, model: GuidedModel
) -> AsyncIterator[tuple[ServiceTenants, TenantService]]:
    async with AsyncExitStack() as stack:
        journal = stack.enter_context(PostgresJournal(url))
        engine = await stack.enter_async_context(opened(journal, server))
        service = ServiceTenants(Agent(model, name="talker"), journal)
        service.open_link = engine.make_open_link(journal)
        await stack.enter_async_context(ServiceLifetime(service, 5.0))
        yield service, service.for_tenant()


class TextReader:
    """Reads the text of the first turn of a session.

    Args:
        service: the service of the reading process.
    """

    def __init__(self, service: TenantService) -> None:
        self._service = service
        self.shown = ""
        self.has_ended = False

    async def read(self) -> None:
        """Read to the end of the turn."""
        async for entry in self._service.reader.follow("ada", end=ReadingEnd(1)):
            if isinstance(entry.item, TextItem):
                self.shown = self.shown[: entry.item.offset] + entry.item.text
            self.has_ended |= isinstance(entry.item, EventItem) and "turn_closed" in str(
                entry.encoded
            )

    async def wait_for(self, text: str) -> None:
        """Return when so much was shown, and no more."""
        await until(lambda: self.shown == text)
        assert not self.has_ended


@pytest.mark.slow  # takes half a second or more
@pytest.mark.parametrize("is_killed", [False, True], ids=["up", "killed"])
async def test_a_reader_sees_the_live_text_of_a_turn_in_another_process(
    nats_server: NatsServer, url: str, is_killed: bool
) -> None:
    """Each part before the model says the next one, also while the server is down and when it is up again."""
    model = GuidedModel()
    async with (
        serving(url, nats_server, model) as (driving, driver),
        serving(url, nats_server, model) as (watching, other),
        asyncio.timeout(60),
        asyncio.TaskGroup() as group,
    ):
        services = (driving, watching)
        await until(lambda: all(service.is_connected for service in services))
        await driver.start("talker", "Talk", session="ada")
        reader = TextReader(other)
        group.create_task(reader.read())
        model.turns_to_speak.release()
        await reader.wait_for(PARTS[0])
        if is_killed:
            nats_server.kill()
            await until(lambda: not any(service.is_connected for service in services))
        try:
            model.turns_to_speak.release()
            await reader.wait_for("".join(PARTS[:2]))
        finally:
            if is_killed:
                await asyncio.to_thread(nats_server.start)
        await until(lambda: all(service.is_connected for service in services))
        model.turns_to_speak.release()
        await reader.wait_for("".join(PARTS))
        model.turns_to_speak.release()
    assert reader.shown == "".join(PARTS)
    assert reader.has_ended
