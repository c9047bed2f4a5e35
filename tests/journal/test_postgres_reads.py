"""Reads of many runs of a PostgreSQL journal at the same time are one statement."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from tests.postgres_server import PostgresServer, Proxy, count_calls

pytest.importorskip("psycopg")

from holdfast import Agent, PostgresJournal, user
from holdfast.errors import JournalCorruptError
from holdfast.events import TurnOpened
from holdfast.testing import ScriptedModel
from holdfast.testing.journal_conformance import make_turn_opened


@pytest.fixture
def url(postgres: PostgresServer) -> str:
    return postgres.new_url()


@pytest.fixture
def journal(url: str) -> Iterator[PostgresJournal]:
    with PostgresJournal(url) as journal:
        yield journal


async def test_a_list_of_twenty_sessions_takes_four_round_trips(
    journal: PostgresJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = Agent(ScriptedModel(*["Hello."] * 20), journal=journal)
    for number in range(20):
        await agent.run(f"I am {number}.", session=f"s{number}")
    calls = count_calls(journal, monkeypatch)
    found = await agent.sessions.list(limit=20)
    assert [info.title for info in found] == [f"I am {number}." for number in reversed(range(20))]
    assert len(calls) <= 5  # the runs, their keys, titles, and first messages


async def test_an_interrupted_run_is_read_once(
    journal: PostgresJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(20):
        opened = TurnOpened("t1", 1.0, user("Hi"), agent="ann")
        await journal.append(f"r{number}", opened)
    reads: list[str] = []
    read = PostgresJournal.read

    async def note(self: PostgresJournal, run: str, after: int = 0) -> Any:
        reads.append(run)
        return await read(self, run, after)

    monkeypatch.setattr(PostgresJournal, "read", note)
    calls = count_calls(journal, monkeypatch)
    agent = Agent(ScriptedModel(*["Hello."] * 20), name="ann", journal=journal)
    assert len(await agent.recover(parallel=20)) == 20
    assert sorted(reads) == sorted({*reads})
    assert len(calls) < 20


async def test_runs_read_together_are_those_read_alone(journal: PostgresJournal, url: str) -> None:
    other = journal.for_tenant("other")
    for number in range(1, 71):
        await journal.append("long", make_turn_opened(number))
    for number in range(1, 4):
        await journal.append("short", make_turn_opened(number, 'a "b" \\c, {d}'))
    await other.append("short", make_turn_opened(1, "theirs"))
    asked = [("long", 0), ("long", 6), ("long", 69), ("short", 0), ("short", 2), ("short", 3)]
    asked += [("short", 9), ("nobody", 0)]
    together = await asyncio.gather(*(journal.read(*one) for one in asked), other.read("short"))
    assert [len(records) for records in together] == [70, 64, 1, 3, 1, 0, 0, 0, 1]
    assert together[:8] == [await journal.read(*one) for one in asked]
    assert together[8] == await other.read("short")
    keys = await asyncio.gather(*(journal.keys(run) for run in ("long", "nobody", "short")))
    assert [len(one) for one in keys] == [70, 0, 3]
    wanted = (["t3", "t1", "t1"], ["\ud800", "\x00", "t2"], ["none"])
    picked = await asyncio.gather(*(journal.read_by_keys("short", one) for one in wanted))
    assert [[one.event.key for one in records] for records in picked] == [["t1", "t3"], ["t2"], []]


async def test_a_missing_record_fails_only_the_run_that_misses_it(
    journal: PostgresJournal, postgres: PostgresServer, url: str
) -> None:
    for run in ("whole", "holed", "emptied"):
        for number in (1, 2, 3):
            await journal.append(run, make_turn_opened(number))
    chosen = "run_id = (SELECT id FROM holdfast_runs WHERE run = '{}')"
    postgres.rows(
        url, f"DELETE FROM holdfast_records WHERE {chosen.format('emptied')}"
    )  # REASON: a test
    postgres.rows(
        url, f"DELETE FROM holdfast_records WHERE seq = 2 AND {chosen.format('holed')}"
    )  # REASON: a test
    reads = (journal.read(run) for run in ("holed", "whole", "emptied"))
    holed, whole, emptied = await asyncio.gather(*reads, return_exceptions=True)
    assert isinstance(holed, JournalCorruptError)
    assert isinstance(emptied, JournalCorruptError)
    assert not isinstance(whole, BaseException)
    assert len(whole) == 3


async def test_a_cancelled_read_waits_for_no_server_and_neither_does_closing(
    postgres: PostgresServer, url: str
) -> None:
    async with Proxy(postgres.port) as proxy:
        journal = PostgresJournal(url.replace(f":{postgres.port}/", f":{proxy.port}/"))
        await journal.append("r", make_turn_opened(1))
        proxy.silence()
        reads = [asyncio.ensure_future(journal.read("r")) for _ in range(3)]
        await asyncio.wait(reads, timeout=0.3)
        async with asyncio.timeout(5):
            for one in reads:
                one.cancel()
            found = await asyncio.gather(*reads, return_exceptions=True)
            assert all(isinstance(one, asyncio.CancelledError) for one in found)
        async with asyncio.timeout(20):  # the driver tries for 5 s to cancel the statement
            await asyncio.to_thread(journal.close)
