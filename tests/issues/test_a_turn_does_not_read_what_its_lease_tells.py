"""Each turn of a session in a PostgreSQL journal read records that the process had in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from tests.postgres_server import PostgresServer, count_calls

from holdfast import Agent, tool
from holdfast.core.messages import Reply, ToolCall
from holdfast.errors import SessionBusyError
from holdfast.journal.postgres import PostgresJournal
from holdfast.testing import ScriptedModel


@pytest.fixture
def url(postgres: PostgresServer) -> str:
    return postgres.new_url()


@pytest.fixture
def journal(url: str) -> Iterator[PostgresJournal]:
    with PostgresJournal(url) as journal:
        yield journal


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
