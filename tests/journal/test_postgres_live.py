"""The live link of a PostgreSQL journal: messages, a lost connection, and acts for drivers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest
from tests.postgres_server import PostgresServer

from holdfast import PostgresJournal
from holdfast.event_log.live.process_exchange import LiveExchange
from holdfast.journal.live_link import DriverAct, LinkedJournal, LiveLink
from holdfast.journal.postgres import postgres_live
from holdfast.journal.postgres.postgres_live import PostgresLink

pytestmark = pytest.mark.anyio

LISTENING = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'"


class Hearing:
    """The link of one process, and what it heard."""

    def __init__(self, url: str) -> None:
        self._loop = asyncio.get_running_loop()
        self.messages: asyncio.Queue[str] = asyncio.Queue()
        self.states: asyncio.Queue[bool] = asyncio.Queue()
        self.journal = PostgresJournal(url)
        assert isinstance(self.journal, LinkedJournal)
        self.link: PostgresLink = self.journal.open_link(
            lambda text: self._hear(self.messages, text),
            lambda is_up: self._hear(self.states, is_up),
        )

    def _hear(self, queue: asyncio.Queue[object], value: object) -> None:
        self._loop.call_soon_threadsafe(queue.put_nowait, value)

    async def next_state(self) -> bool:
        return await asyncio.wait_for(self.states.get(), 60)

    async def next_message(self) -> str:
        return await asyncio.wait_for(self.messages.get(), 60)


@pytest.fixture
async def two(url: str) -> AsyncIterator[tuple[Hearing, Hearing]]:
    first, second = Hearing(url), Hearing(url)
    assert await first.next_state()
    assert await second.next_state()
    yield first, second
    for one in (first, second):
        one.link.close()
        one.journal.close()


async def test_messages_reach_every_process_in_order(two: tuple[Hearing, Hearing]) -> None:
    first, second = two
    texts = [f"{number}: é😀" for number in range(50)]
    await first.link.send(texts[:30])
    await first.link.send(texts[30:])
    for one in two:
        assert [await one.next_message() for _ in texts] == texts
    assert second.link.is_up


async def test_a_lost_connection_is_told_and_made_again(
    two: tuple[Hearing, Hearing], postgres: PostgresServer, url: str
) -> None:
    first, second = two
    postgres.rows(url, LISTENING)
    assert [await second.next_state(), await second.next_state()] == [False, True]
    assert [await first.next_state(), await first.next_state()] == [False, True]
    await first.link.send(["again"])
    assert await second.next_message() == "again"


async def test_journals_of_two_schemas_do_not_hear_each_other(
    two: tuple[Hearing, Hearing], postgres: PostgresServer
) -> None:
    other = Hearing(postgres.new_url())
    assert await other.next_state()
    await other.link.send(["mine"])
    await two[0].link.send(["yours"])
    assert await other.next_message() == "mine"
    assert await two[1].next_message() == "yours"
    other.link.close()
    other.journal.close()


async def test_an_act_is_found_by_its_driver_until_it_has_a_result(
    two: tuple[Hearing, Hearing],
) -> None:
    asker, driver = two[0].link, two[1].link
    act = DriverAct("a1", "ada", "cancel", '{"why": "é"}')
    await asker.add_act("team", act)
    assert await driver.find_acts("team", ["bob"]) == []
    assert await driver.find_acts("other", ["ada"]) == []
    assert await driver.find_acts("team", ["bob", "ada"]) == [act]
    assert await asker.take_result("a1") is None
    await driver.finish_act("a1", "{}")
    assert await driver.find_acts("team", ["ada"]) == []
    assert await asker.take_result("a1") == "{}"
    assert await asker.take_result("a1") is None  # it is forgotten
    await asker.add_act("team", act)
    await asker.forget_act("a1")
    assert await driver.find_acts("team", ["ada"]) == []


async def test_it_is_known_at_once_that_a_process_has_ended(
    two: tuple[Hearing, Hearing], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_live, "_SECONDS_TO_RETURN", 0.0)
    first, second = two
    processes = [first.link.process, second.link.process, "0" * 32]
    assert await first.link.find_ended(processes) == ["0" * 32]
    assert await first.link.find_ended([]) == []
    await asyncio.to_thread(second.journal.close)
    assert await second.next_state() is False
    async with asyncio.timeout(60):  # the server notices the end of a connection on its own
        while (await first.link.find_ended(processes)) != [second.link.process, "0" * 32]:
            await asyncio.sleep(0.01)


async def test_a_process_that_makes_a_new_connection_has_not_ended(
    two: tuple[Hearing, Hearing], postgres: PostgresServer, url: str
) -> None:
    first, second = two
    postgres.rows(url, LISTENING)
    assert await first.link.find_ended([second.link.process]) == []


async def test_closing_the_journal_ends_the_link(url: str) -> None:
    one = Hearing(url)
    assert await one.next_state()
    await asyncio.to_thread(one.journal.close)
    assert await one.next_state() is False


class DetachedJournal:
    changed: Callable[[bool], None]

    def open_link(
        self, receive: Callable[[str], None], changed: Callable[[bool], None]
    ) -> LiveLink:
        self.changed = changed
        return None  # type: ignore[return-value]  # REASON: nothing is sent


def test_a_link_that_ends_after_its_event_loop_raises_nothing() -> None:
    journal = DetachedJournal()

    async def open_exchange() -> None:
        LiveExchange(journal.open_link, lambda _is_up: None)

    asyncio.run(open_exchange())
    journal.changed(False)
