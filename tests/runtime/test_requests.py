"""`agent.run(request=...)`: a message that is sent twice is one turn."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.postgres_server import PostgresServer

from holdfast import Agent, MemoryJournal, PostgresJournal, SqliteJournal, tool
from holdfast.core.messages import Reply, ToolCall
from holdfast.errors import ConfigurationError, HoldfastError
from holdfast.journal.port import Journal
from holdfast.testing import CrashAt, ScriptedModel, SimulatedCrash


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def journal(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Journal]:
    if request.param == "memory":
        yield MemoryJournal()
    elif request.param == "sqlite":
        with SqliteJournal(tmp_path / "talk.db") as opened:
            yield opened
    else:
        server: PostgresServer = request.getfixturevalue("postgres")
        with PostgresJournal(server.new_url()) as shared:
            yield shared


@pytest.mark.parametrize("session", [None, "ada"])
async def test_the_second_call_returns_the_result_of_the_first(
    journal: Journal, session: str | None
) -> None:
    agent = Agent(ScriptedModel("one", "two"), journal=journal)
    first = await agent.run("Hi", session=session, request="r1")
    again = await agent.run("Hi", session=session, request="r1")
    assert (again.output, again.run_id, again.usage) == ("one", first.run_id, first.usage)
    assert (await agent.run("Hi", session=session, request="r2")).output == "two"


async def test_an_earlier_turn_of_a_session_is_found_after_others(journal: Journal) -> None:
    agent = Agent(ScriptedModel("one", "two", "three"), journal=journal)
    first = await agent.run("Hi", session="ada", request="r1")
    await agent.run("Hi", session="ada", request="r2")
    await agent.sessions.rewind("ada", 1)
    again = await agent.run("Hi", session="ada", request="r1")
    assert (again.output, again.messages) == ("one", first.messages)
    assert (await agent.run("Hi", session="ada", request="r2")).output == "two"


@pytest.mark.slow  # takes half a second or more
@pytest.mark.parametrize("session", [None, "ada"])
async def test_of_two_at_once_one_is_run(journal: Journal, session: str | None) -> None:
    ran = []

    async def model(_: object) -> str:
        await asyncio.sleep(0.05)
        ran.append(1)
        return f"answer {len(ran)}"

    agents = [Agent(ScriptedModel(model, model), journal=journal) for _ in range(3)]
    results = await asyncio.gather(
        *(agent.run("Hi", session=session, request="r1") for agent in agents)
    )
    assert [result.output for result in results] == ["answer 1"] * 3
    assert len(ran) == 1


@pytest.mark.parametrize("crash", range(1, 6))
@pytest.mark.parametrize("session", [None, "ada"])
async def test_a_turn_that_a_crash_interrupted_is_finished(
    tmp_path: Path, crash: int, session: str | None
) -> None:
    """Wherever it was killed, the tool that changes something runs at most once."""
    paid = []

    @tool(effect="write")
    def pay() -> str:
        paid.append(1)
        return "paid"

    pays = Reply((ToolCall("1", "pay", "{}"),))
    journal = MemoryJournal()
    dying = Agent(ScriptedModel(pays, "done"), tools=[pay], journal=CrashAt(journal, crash))
    with pytest.raises(SimulatedCrash):
        await dying.run("Pay", session=session, request="r1")
    has_called = crash > 1
    model = ScriptedModel("done", "done") if has_called else ScriptedModel(pays, "done")
    agent = Agent(model, tools=[pay], journal=journal)
    for _ in range(2):
        assert (await agent.run("Pay", session=session, request="r1")).output == "done"
    assert len(paid) <= 1
    assert len(await journal.runs()) == 1


async def test_a_failed_turn_fails_again_and_is_not_repeated(journal: Journal) -> None:
    def fail(_: object) -> str:
        raise ConfigurationError("model", "is wrong")

    agent = Agent(ScriptedModel(fail, "fine"), journal=journal)
    messages = set()
    for _ in range(2):
        with pytest.raises(HoldfastError) as caught:
            await agent.run("Hi", request="r1")
        messages.add(str(caught.value))
    assert len(messages) == 1


async def test_a_stream_of_a_known_request_streams_nothing_and_has_the_result(
    journal: Journal,
) -> None:
    agent = Agent(ScriptedModel("one"), journal=journal)
    await agent.run("Hi", session="ada", request="r1")
    async with agent.stream("Hi", session="ada", request="r1") as run:
        assert [item async for item in run] == []
    assert run.result.output == "one"


async def test_a_request_of_another_session_is_refused(journal: Journal) -> None:
    agent = Agent(ScriptedModel("one"), journal=journal)
    await agent.run("Hi", session="ada", request="r1")
    with pytest.raises(ConfigurationError, match=r"request: 'r1' belongs to .* another session"):
        await agent.run("Hi", session="bob", request="r1")


@pytest.mark.parametrize("request_", ["", " ", "x" * 201, "a\x00b", "\ud800", 7])
async def test_a_request_that_cannot_be_one_is_named(request_: object) -> None:
    agent = Agent(ScriptedModel("one"), journal=MemoryJournal())
    with pytest.raises(ConfigurationError, match="request"):
        await agent.run("Hi", request=request_)  # type: ignore[arg-type]


async def test_without_a_journal_there_are_no_requests() -> None:
    with pytest.raises(ConfigurationError, match="journal"):
        await Agent(ScriptedModel("one")).run("Hi", request="r1")


async def test_a_deleted_session_frees_its_requests(journal: Journal) -> None:
    agent = Agent(ScriptedModel("one", "two"), journal=journal)
    await agent.run("Hi", session="ada", request="r1")
    await agent.sessions.delete("ada")
    assert (await agent.run("Hi", session="ada", request="r1")).output == "two"


async def test_a_fork_has_the_turn_and_not_the_request(journal: Journal) -> None:
    agent = Agent(ScriptedModel("one"), journal=journal)
    await agent.run("Hi", session="ada", request="r1")
    await agent.sessions.fork("ada", to="eve")
    assert await journal.find_request("r1") == ("ada", "t1")
    lines = [line async for line in agent.sessions.export("ada")]
    await agent.sessions.delete("ada")
    assert await journal.find_request("r1") is None
    await agent.sessions.import_(lines)
    assert await journal.find_request("r1") == ("ada", "t1")


async def test_a_failed_turn_that_was_resumed_gives_its_second_result(journal: Journal) -> None:
    def fail(_: object) -> str:
        raise ConfigurationError("model", "is wrong")

    agent = Agent(ScriptedModel(fail, "fine", "more"), journal=journal)
    with pytest.raises(HoldfastError):
        await agent.run("Hi", session="ada", request="r1")
    assert (await agent.resume("ada")).output == "fine"
    assert (await agent.run("Hi", session="ada", request="r1")).output == "fine"
    await agent.run("Hi", session="ada")
    assert (await agent.run("Hi", session="ada", request="r1")).output == "fine"
