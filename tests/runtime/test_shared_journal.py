"""Agents of several processes over one journal: their turns of a session never mix.

Each agent has a journal object of its own over the same database, as another process would.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from tests.postgres_server import PostgresServer, Proxy

from holdfast import Agent, PostgresJournal, RecoveryStatus, tool
from holdfast.core.events import Status
from holdfast.core.messages import ToolCall
from holdfast.core.model_request import ModelRequest
from holdfast.core.questions import Approved, PermissionQuestion
from holdfast.errors import SessionBusyError
from holdfast.journal.journal_errors import JournalUnreachableError, LeaseLostError
from holdfast.testing import CrashAt, ScriptedModel, SimulatedCrash
from holdfast.tools.context import ToolContext


@pytest.fixture
def journals(url: str) -> Iterator[list[PostgresJournal]]:
    journals = [PostgresJournal(url), PostgresJournal(url)]
    yield journals
    for journal in journals:
        journal.close()


def echo(request: ModelRequest) -> str:
    return f"{len(request.messages)}: {request.messages[-1].text}"


def agent(journal: object, **keywords: Any) -> Agent[str]:
    return Agent(ScriptedModel(*[echo] * 99), journal=journal, **keywords)


async def test_turns_of_one_session_in_two_processes_queue_and_see_each_other(
    journals: list[PostgresJournal],
) -> None:
    agents = [agent(journal) for journal in journals]
    turns = (agents[n % 2].run(f"message {n}", session="s") for n in range(12))
    results = await asyncio.gather(*turns)
    seen = sorted(int(result.output.partition(":")[0]) for result in results)
    assert seen == list(range(1, 24, 2))
    last = await agents[0].run("last", session="s")
    said = [message.text for message in last.messages if message.role == "user"]
    assert sorted(said[:-1]) == sorted(f"message {n}" for n in range(12))
    assert len(last.messages) == 26


async def test_a_turn_in_another_process_is_refused_when_that_is_set(
    journals: list[PostgresJournal],
) -> None:
    begun, go = asyncio.Event(), asyncio.Event()

    async def wait(request: ModelRequest) -> str:
        begun.set()
        await go.wait()
        return "done"

    first = Agent(ScriptedModel(wait), journal=journals[0])
    second = agent(journals[1], on_busy="refuse")
    turn = asyncio.ensure_future(first.run("one", session="s"))
    await begun.wait()
    with pytest.raises(SessionBusyError, match="'s' is busy"):
        await second.run("two", session="s")
    assert [entry.leased for entry in await journals[1].runs()] == [True]
    assert await second.recover() == []
    go.set()
    assert (await turn).output == "done"
    assert (await second.run("two", session="s")).output == "3: two"
    assert [entry.leased for entry in await journals[1].runs()] == [False]


async def test_a_run_without_a_session_is_leased_too(journals: list[PostgresJournal]) -> None:
    seen: list[bool] = []

    async def look(request: ModelRequest) -> str:
        seen.extend(entry.leased for entry in await journals[1].runs())
        return "done"

    result = await Agent(ScriptedModel(look), journal=journals[0]).run("go")
    assert seen == [True]
    assert [entry.run for entry in await journals[1].runs()] == [result.run_id]
    assert [entry.leased for entry in await journals[1].runs()] == [False]


async def test_a_cancelled_turn_gives_its_session_back(journals: list[PostgresJournal]) -> None:
    begun = asyncio.Event()

    async def wait(request: ModelRequest) -> str:
        begun.set()
        await asyncio.Event().wait()
        return "never"

    turn = asyncio.ensure_future(
        Agent(ScriptedModel(wait), journal=journals[0]).run("one", session="s")
    )
    await begun.wait()
    turn.cancel()
    with pytest.raises(asyncio.CancelledError):
        await turn
    result = await agent(journals[1]).run("two", session="s")
    assert [message.role for message in result.messages] == ["user", "user", "assistant"]


async def test_a_session_that_was_deleted_and_begun_anew_elsewhere_is_not_remembered(
    journals: list[PostgresJournal],
) -> None:
    agents = [agent(journal) for journal in journals]
    await agents[0].run("a secret", session="s")
    await journals[1].delete("s")
    await agents[1].run("something else", session="s")
    result = await agents[0].run("what did I say?", session="s")
    said = [message.text for message in result.messages if message.role == "user"]
    assert said == ["something else", "what did I say?"]


async def test_who_was_taken_over_stops_and_settles_nothing(
    journals: list[PostgresJournal], postgres: PostgresServer, url: str
) -> None:
    @tool(effect="write")
    async def pay() -> str:
        """Pay."""
        postgres.rows(url, "UPDATE holdfast_runs SET expires = clock_timestamp()")
        taken = await journals[1].claim("s")
        await taken.release()
        return "paid"

    first = Agent(
        ScriptedModel(ToolCall("a", "pay", "{}"), "done"), tools=[pay], journal=journals[0]
    )
    with pytest.raises(LeaseLostError, match="taken over"):
        await first.run("go", session="s")
    kept = [record.event.key for record in await journals[1].read("s")]
    assert kept == ["t1", "t1.i0.model", "t1.i0.begun"]
    (one,) = await Agent(ScriptedModel("done"), tools=[pay], journal=journals[1]).recover()
    assert one.result.output == "done"


class Cut(PostgresJournal):
    """Its wire is cut when the n-th event is about to be kept."""

    proxy: Proxy
    left = 0

    async def _append_event(self, run: str, *given: Any, **under: Any) -> None:
        self.left -= 1
        if self.left == 0:
            self.proxy.down()
        await super()._append_event(run, *given, **under)


@pytest.mark.slow  # starts a program or a server
@pytest.mark.parametrize("moment", range(1, 5))
async def test_a_server_that_is_gone_at_any_append_stops_the_turn_which_goes_on_later(
    postgres: PostgresServer, url: str, moment: int
) -> None:
    """For longer than the agent waits; opened, replied and begun, tool, replied and closed."""

    def answer(request: ModelRequest) -> ToolCall | str:
        return ToolCall("a", "look", "{}") if request.messages[-1].role == "user" else "done"

    def model() -> ScriptedModel:
        return ScriptedModel(*[answer] * 3)

    @tool(effect="read")
    async def look() -> str:
        """Look."""
        return "sun"

    async with Proxy(postgres.port) as proxy:
        through = url.replace(f":{postgres.port}/", f":{proxy.port}/")
        with Cut(through, wait=0.1) as journal:
            await journal.runs()
            journal.proxy, journal.left = proxy, moment
            with pytest.raises(JournalUnreachableError):
                await Agent(model(), tools=[look], journal=journal).run("go", session="s")
            proxy.up()
    with PostgresJournal(url) as journal:
        postgres.rows(url, "UPDATE holdfast_runs SET expires = clock_timestamp()")
        found = await Agent(model(), tools=[look], journal=journal).recover()
        result = await Agent(ScriptedModel("more"), journal=journal).run("next", session="s")
    assert [one.error for one in found] == [None] * (moment > 1)
    roles = [message.role for message in result.messages]
    whole = ["user", "assistant", "tool", "assistant"] if moment > 1 else []
    assert roles == [*whole, "user", "assistant"]


async def test_sessions_are_changed_under_a_lease(journals: list[PostgresJournal]) -> None:
    one, two = (agent(journal) for journal in journals)
    for text in ("first", "second", "third"):
        await one.run(text, session="s")
    await two.sessions.rewind("s", 1)
    assert (await one.run("fourth", session="s")).output == "3: fourth"
    await one.sessions.fork("s", to="u")
    await two.sessions.rename("s", "The first one")
    assert {info.session for info in await two.sessions.list()} == {"s", "u"}
    assert (await two.run("fifth", session="u")).output == "5: fifth"
    await two.sessions.delete("s")
    assert (await one.run("anew", session="s")).output == "1: anew"
    assert not any(entry.leased for entry in await journals[0].runs())


async def test_an_answer_from_another_process_is_found_by_the_next_that_recovers(
    journals: list[PostgresJournal], monkeypatch: pytest.MonkeyPatch
) -> None:
    @tool(effect="write")
    async def pay(context: ToolContext) -> str:
        """Pay."""
        answer = await context.ask(PermissionQuestion(tool="pay"))
        return "paid" if isinstance(answer, Approved) else "refused"

    def of(journal: PostgresJournal, **keywords: Any) -> Agent[str]:
        model = ScriptedModel(*[told_or_call] * 3)
        return Agent(model, tools=[pay], journal=journal, **keywords)

    def told_or_call(request: ModelRequest) -> ToolCall | str:
        last = request.messages[-1]
        return ToolCall("a", "pay", "{}") if last.role == "user" else last.parts[0].text

    suspended = await of(journals[0], on_wait="suspend").run("go", session="s")
    assert suspended.status is Status.WAITING
    other = of(journals[1], on_wait="suspend")
    (question,) = await other.questions("s")
    assert await other.answer("s", question.approve())
    (one,) = await of(journals[0], on_wait="suspend").recover()
    assert one.result.output == "paid"

    monkeypatch.setattr("holdfast.runtime.open_runs.answering._PATIENCE", 0.1)
    asked = asyncio.Event()

    async def hold(request: object) -> None:
        asked.set()
        await asyncio.Event().wait()

    turn = asyncio.ensure_future(of(journals[0], on_question=hold).run("go", session="t"))
    await asked.wait()
    (question,) = await other.questions("t")
    with pytest.raises(SessionBusyError):
        await other.answer("t", question.approve())
    turn.cancel()
    await asyncio.wait([turn])


async def test_two_that_recover_at_the_same_time_share_the_work(
    journals: list[PostgresJournal], postgres: PostgresServer, url: str
) -> None:
    ran: list[str] = []

    @tool(effect="read")
    async def look(context: ToolContext) -> str:
        """Look."""
        ran.append(context.run_id)
        await asyncio.sleep(0.001)
        return "sun"

    def call(request: ModelRequest) -> ToolCall | str:
        return ToolCall("a", "look", "{}") if request.messages[-1].role == "user" else "done"

    def of(journal: object) -> Agent[str]:
        return Agent(ScriptedModel(*[call] * 50), tools=[look], journal=journal)

    runs = [f"run {number:02}" for number in range(20)]
    for run in runs:
        with pytest.raises(SimulatedCrash):
            await of(CrashAt(journals[0], 2)).run("go", session=run)
    found = await asyncio.gather(*(of(journal).recover() for journal in journals))
    driven = [one for each in found for one in each if one.status is not RecoveryStatus.BUSY]
    assert sorted(one.run_id for one in driven) == runs
    assert sorted(ran) == runs
    assert {one.result.output for one in driven} == {"done"}
