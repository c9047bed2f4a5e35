"""Reads of many runs of a PostgreSQL journal at the same time are one statement."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from tests.postgres_server import PostgresServer, Proxy, count_calls

from holdfast import Agent, PostgresJournal, tool, user
from holdfast.core.messages import Reply, ToolCall
from holdfast.errors import JournalCorruptError, SessionBusyError
from holdfast.events import TurnOpened
from holdfast.testing import ScriptedModel
from holdfast.testing.journal_conformance import make_turn_opened

pytest.importorskip("psycopg")


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


@pytest.mark.slow  # starts a program or a server
async def test_a_cancelled_read_waits_for_no_server_and_neither_does_closing(
    postgres: PostgresServer, url: str
) -> None:
    async with Proxy(postgres.port) as proxy:
        journal = PostgresJournal(url.replace(f":{postgres.port}/", f":{proxy.port}/"))
        await journal.append("r", make_turn_opened(1))
        proxy.silence()
        reads = [asyncio.ensure_future(journal.read("r")) for _ in range(3)]
        await asyncio.wait(reads, timeout=0.3)
        async with asyncio.timeout(15):  # half of what the statements may take
            for one in reads:
                one.cancel()
            found = await asyncio.gather(*reads, return_exceptions=True)
            assert all(isinstance(one, asyncio.CancelledError) for one in found)
        async with asyncio.timeout(60):  # the driver tries for 5 s to cancel the statement
            await asyncio.to_thread(journal.close)


# A turn reads no record that its process has in memory.


@tool(effect="write")
async def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


async def test_a_turn_with_one_tool_takes_four_round_trips(
    journal: PostgresJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    call = Reply((ToolCall("c1", "pay", '{"amount": 3}'),))
    agent = Agent(ScriptedModel(call, "Done.", call, "Done."), tools=[pay], journal=journal)
    await journal.runs()  # connect
    calls = count_calls(journal, monkeypatch)
    for _ in range(2):
        calls.clear()
        await agent.run("Pay.", session="ada")
        # Opened with its lease, replied, the tool, and closed with the end of the lease.
        assert len(calls) == 4


async def test_a_session_of_another_process_is_claimed_and_read_once(
    journal: PostgresJournal, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And its snapshot is not asked for, because a session this short has none."""
    call = Reply((ToolCall("c1", "pay", '{"amount": 3}'),))
    agent = Agent(ScriptedModel(call, "Done."), tools=[pay], journal=journal)
    await agent.run("Pay.", session="ada")
    with PostgresJournal(url) as elsewhere:
        await elsewhere.runs()  # connect
        calls = count_calls(elsewhere, monkeypatch)
        agent = Agent(ScriptedModel(call, "Done."), tools=[pay], journal=elsewhere)
        await agent.run("Pay.", session="ada")
        assert len(calls) == 8  # refused, claimed, read, four appends, and the end of the lease


async def test_a_session_that_was_made_anew_elsewhere_is_read(
    journal: PostgresJournal, url: str
) -> None:
    agent = Agent(ScriptedModel("Hello, Ada.", "You are Bob."), journal=journal)
    await agent.run("I am Ada.", session="s")
    with PostgresJournal(url) as elsewhere:
        other = Agent(ScriptedModel("Hello, Bob.", "Yes."), journal=elsewhere)
        await other.sessions.delete("s")
        await other.run("I am Bob.", session="s")
        result = await agent.run("Who am I?", session="s")
        texts = [message.text for message in result.messages]
        assert texts == ["I am Bob.", "Hello, Bob.", "Who am I?", "You are Bob."]
        result = await other.run("Am I?", session="s")
        assert len(result.messages) == 6


@pytest.mark.slow  # takes half a second or more
async def test_a_message_that_comes_while_another_process_drives_the_session_waits(
    journal: PostgresJournal, url: str
) -> None:
    """The first record of the turn finds the lease of the other one, and nothing is called twice."""
    model = ScriptedModel("One.", "Three.")
    agent = Agent(model, journal=journal)
    await agent.run("1", session="s")
    with PostgresJournal(url) as elsewhere:
        lease = await elsewhere.claim("s")
        waiting = asyncio.ensure_future(agent.run("3", session="s"))
        await asyncio.wait([waiting], timeout=0.2)
        assert not waiting.done()
        await lease.release()
        other = Agent(ScriptedModel("Two."), journal=elsewhere)
        refusing = Agent(ScriptedModel("No."), journal=elsewhere, on_busy="refuse")
        assert (await waiting).text == "Three."
        assert (await other.run("2", session="s")).text == "Two."
        lease = await journal.claim("s")
        with pytest.raises(SessionBusyError):
            await refusing.run("4", session="s")
        await lease.release()
    assert len(model.requests) == 2
