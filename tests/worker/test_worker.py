"""A worker in the process of whoever submits: the same inbox, driver and sweep as with many processes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from holdfast import Agent, PostgresJournal, ToolContext, tool
from holdfast.core.errors import (
    ConfigurationError,
    ErrorCategory,
    ErrorInfo,
    HoldfastError,
    ProviderError,
)
from holdfast.core.events import ModelReplied, Status, TurnOpened
from holdfast.core.messages import Reply, Text, ToolCall, Usage, user
from holdfast.core.turn_options import InterruptedRun
from holdfast.journal import Journal, MemoryJournal, SqliteJournal
from holdfast.journal.inbox.admitting import Offer
from holdfast.journal.inbox.dispatch_engine import name_queue
from holdfast.journal.inbox.driving import NEVER
from holdfast.journal.inbox.entries import EntryState
from holdfast.journal.inbox.inbox import Inbox
from holdfast.journal.inbox.inbox_errors import (
    QueuedTurnError,
    QuotaReachedError,
    SubmissionError,
)
from holdfast.journal.inbox.opening_inbox import open_inbox
from holdfast.journal.inbox.queue_limits import QueueLimits
from holdfast.journal.inbox.token_room import TokenUse
from holdfast.journal.inbox.worker_entries import WorkerInfo
from holdfast.journal.journal_errors import JournalUnreachableError
from holdfast.middleware import ToolPermission
from holdfast.testing import ScriptedModel
from holdfast.testing.emulator import call
from holdfast.worker import Worker

SECONDS = 60.0
HELLO = Reply((Text("Hello."),), usage=Usage(input=1_000, output=1_000))


@pytest.fixture(params=["memory", "sqlite"])
def journal(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Journal]:
    if request.param == "memory":
        yield MemoryJournal()
        return
    with SqliteJournal(tmp_path / "talk.db") as opened:
        yield opened


def greeter(journal: Journal, *replies: Any, **more: Any) -> Agent[str]:
    return Agent(ScriptedModel(*replies), name="greeter", journal=journal, **more)


async def test_a_turn_that_was_submitted_is_done(journal: Journal) -> None:
    agent = greeter(journal, "Hello.")
    run = await agent.submit("Hi.", session="ada", request="r1")
    assert await run.read_state() is EntryState.READY
    async with Worker(agent):
        result = await run.wait(SECONDS)
    assert result.text == "Hello."
    assert result.status is Status.COMPLETED
    assert await run.read_state() is EntryState.DONE


async def test_a_worker_has_one_connection_that_listens_to_the_inbox(url: str) -> None:
    with PostgresJournal(url) as journal:
        await check_listeners(journal, url)


async def check_listeners(journal: PostgresJournal, url: str) -> None:
    async with Worker(greeter := Agent(ScriptedModel("Hi."), journal=journal)):
        run = await greeter.submit("Hello.", session="ada")
        while (await run.read_state()) is not EntryState.DONE:  # REASON: waiting would listen, too
            await asyncio.sleep(0.02)
        async with await psycopg.AsyncConnection.connect(url) as connection:
            statement = "SELECT query FROM pg_stat_activity WHERE query LIKE 'LISTEN%'"
            found = await (await connection.execute(statement)).fetchall()
    # Another one is that of the process, which hears of the runs of others.
    assert len([query for (query,) in found if "holdfast_" in query]) == 2, found


async def test_turns_of_a_session_are_done_one_after_another(journal: Journal) -> None:
    agent = greeter(journal, "one", "two", "three")
    runs = [await agent.submit(text, session="ada") for text in ("1", "2", "3")]
    states = [await run.read_state() for run in runs]
    assert states == [EntryState.READY, EntryState.BLOCKED, EntryState.BLOCKED]
    async with Worker(agent, parallel=8):
        texts = [(await run.wait(SECONDS)).text for run in runs]
    assert texts == ["one", "two", "three"]


async def test_two_deliveries_at_once_to_one_worker_begin_the_turn_once(journal: Journal) -> None:
    """The inbox gives an entry again to the worker that has it, as its first answer may be lost."""
    agent = greeter(journal, "Hello.", "Hello again.")
    inbox = open_inbox(journal)
    async with Worker(agent) as worker:
        await inbox.set_limits("all", QueueLimits(is_paused=True))
        run = await agent.submit("Hi.", session="ada", request="r1")
        entry = await inbox.find_request("", "r1")
        assert entry is not None
        await inbox.set_limits("all", QueueLimits())
        await inbox.admit()
        await asyncio.gather(*(worker._driving._handle(entry.id) for _ in range(3)))
        assert (await run.wait(SECONDS)).text == "Hello."
    found = await inbox.find(entry.id)
    assert found is not None
    assert (found.state, found.deliveries) == (EntryState.DONE, 1)


async def test_the_same_request_is_one_turn_and_another_message_a_conflict(
    journal: Journal,
) -> None:
    agent = greeter(journal, "Hello.")
    first = await agent.submit("Hi.", session="ada", request="r1")
    again = await agent.submit("Hi.", session="ada", request="r1")
    assert again.id == first.id
    with pytest.raises(SubmissionError, match="r1"):
        await agent.submit("Ho.", session="ada", request="r1")
    async with Worker(agent):
        assert (await again.wait(SECONDS)).text == "Hello."
    assert (await (await agent.submit("Hi.", session="ada", request="r1")).wait(1)).text == "Hello."


async def test_events_are_followed_from_the_begin_and_from_a_position(journal: Journal) -> None:
    agent = greeter(journal, "Hello there.")
    run = await agent.submit("Hi.", session="ada")
    async with Worker(agent):
        items = [(position, item) async for position, item in run.events()]
        kinds = [type(item).__name__ for _, item in items]
        assert kinds[-1] == "EndItem"
        assert "EventItem" in kinds
        rest = [position async for position, _ in run.events(items[1][0])]
    assert rest[-1] == items[-1][0]
    assert len(rest) < len(items) + 1


async def test_a_turn_that_has_not_begun_is_dropped_when_it_is_cancelled(journal: Journal) -> None:
    agent = greeter(journal)
    run = await agent.submit("Hi.")
    await run.cancel(by="ann")
    assert await run.read_state() is EntryState.DROPPED
    with pytest.raises(QueuedTurnError, match="dropped"):
        await run.wait(SECONDS)


@pytest.mark.slow  # takes half a second or more
async def test_a_turn_in_progress_is_cancelled(journal: Journal) -> None:
    begun = asyncio.Event()

    @tool(effect="read")
    async def look() -> str:
        """Look for a long time."""
        begun.set()
        await asyncio.sleep(60)
        return "nothing"

    agent = greeter(journal, call("look"), tools=[look])
    run = await agent.submit("Look.", session="ada")
    async with Worker(agent):
        await begun.wait()
        await run.cancel(by="ann")
        with pytest.raises(HoldfastError, match="cancelled"):
            await run.wait(SECONDS)
    assert await run.read_state() is EntryState.DONE


async def test_a_question_suspends_the_turn_and_an_answer_continues_it(journal: Journal) -> None:
    @tool(effect="write")
    async def pay(amount: int) -> str:
        """Pay."""
        return f"paid {amount}"

    agent = greeter(
        journal,
        call("pay", {"amount": 3}),
        "Done.",
        tools=[pay],
        middleware=[ToolPermission(ask=["pay"])],
    )
    run = await agent.submit("Pay 3.", session="ada")
    async with Worker(agent):
        waiting = await run.wait(SECONDS)
        assert waiting.status is Status.WAITING
        assert await run.read_state() is EntryState.WAITING
        await agent.answer("ada", waiting.questions[0].approve(by="ann"))
        await open_inbox(journal).wake(run.id)  # the journal in memory has no trigger
        while (await run.read_state()) is not EntryState.DONE:
            await asyncio.sleep(0.01)
        assert (await run.wait(SECONDS)).text == "Done."


async def test_a_turn_that_failed_is_a_dead_letter_and_can_be_retried(journal: Journal) -> None:
    info = ErrorInfo(category=ErrorCategory.AUTH_ERROR, safe="The key is wrong.")
    agent = greeter(journal, ProviderError("no", info=info), "Hello.")
    run = await agent.submit("Hi.", session="ada")
    async with Worker(agent):
        with pytest.raises(ProviderError):
            await run.wait(SECONDS)
        (entry,) = await open_inbox(journal).list_entries(states=[EntryState.FAILED])
        assert entry.error == "The key is wrong."
        assert await open_inbox(journal).retry(run.id)
        assert (await run.wait(SECONDS)).text == "Hello."


async def test_what_another_process_cannot_have_is_refused_when_it_is_submitted(
    journal: Journal,
) -> None:
    def look() -> str:
        """Look."""
        return "nothing"

    agent = greeter(journal, "Hello.")
    with pytest.raises(ConfigurationError, match="tools: cannot be queued"):
        await agent.submit("Hi.", tools=[look])  # type: ignore[list-item]
    with pytest.raises(ConfigurationError, match="journal"):
        await Agent(ScriptedModel("x")).submit("Hi.")


@pytest.mark.slow  # takes half a second or more
async def test_a_tenant_that_has_used_up_its_tokens_stops_and_goes_on_when_they_are_raised(
    journal: Journal,
) -> None:
    may_look = asyncio.Event()

    @tool(effect="read")
    async def look() -> str:
        """Look."""
        await may_look.wait()
        return "nothing"

    agent = greeter(journal, call("look"), "Done.", "Next.", tools=[look])
    inbox = open_inbox(journal)
    await inbox.set_limits("tenant", QueueLimits(tokens_per_day=1))
    run = await agent.submit("Look.", session="ada")
    later = await agent.submit("And?", session="bob")
    async with Worker(agent, parallel=1):
        while (await run.read_state()) is not EntryState.POSTPONED:
            await asyncio.sleep(0.01)
        entry = await inbox.find(run.id)
        assert entry is not None
        assert "used up its tokens" in entry.error
        assert entry.turn == 1
        while (await later.read_state()) is not EntryState.POSTPONED:
            await asyncio.sleep(0.01)
        with pytest.raises(QuotaReachedError):
            await agent.submit("More.", session="eve")
        may_look.set()
        await inbox.set_limits("tenant", QueueLimits(tokens_per_day=1_000_000))
        assert (await run.wait(SECONDS)).text == "Done."
        assert (await later.wait(SECONDS)).text == "Next."
    assert (await inbox.add_tokens("", 0)).left is not None


@pytest.mark.slow  # takes half a second or more
async def test_tokens_of_the_day_count_that_were_used_before_there_was_a_quota(
    journal: Journal,
) -> None:
    """Those of turns that no worker drove, too; not copies, and not those of another tenant or day."""
    agent = greeter(journal, "one", "two", "three", "four", "five")
    used = 0
    for session in ("ada", "ada", "bob"):
        used += (await agent.run("Hi.", session=session)).usage.total
    await agent.sessions.fork("ada", to="copy")
    other = greeter(journal.for_tenant("other"), "Hello.")
    await other.run("Hi.")
    yesterday = time.time() - 86_400
    await journal.append("old", TurnOpened("t1", yesterday, user("Hi.")))
    await journal.append("old", ModelReplied("t1.i0.model", yesterday, HELLO))
    inbox = open_inbox(journal)
    await inbox.set_limits("tenant", QueueLimits(tokens_per_day=used))
    run = await agent.submit("Hi.", session="eve")
    async with Worker(agent):
        while (await run.read_state()) is not EntryState.POSTPONED:
            await asyncio.sleep(0.01)
        with pytest.raises(QuotaReachedError, match=f"{used} tokens"):
            await agent.submit("Hi.", session="kim")
        assert await inbox.read_usage("") == (1, used)
        await inbox.set_limits("tenant", QueueLimits(tokens_per_day=used + 1))
        assert (await run.wait(SECONDS)).text == "four"


async def test_turns_at_once_exceed_the_tokens_of_a_day_by_at_most_one_turn(
    journal: Journal,
) -> None:
    reply = Reply((Text("Hello."),), usage=Usage(input=51, output=51))
    agent = greeter(journal, *[reply] * 5)
    inbox = open_inbox(journal)
    await inbox.set_limits("tenant", QueueLimits(tokens_per_day=100))
    runs = [await agent.submit("Hi.", session=f"s{number}") for number in range(5)]
    async with Worker(agent, parallel=8):
        assert (await runs[0].wait(SECONDS)).text == "Hello."
        for run in runs[1:]:
            while (await run.read_state()) is not EntryState.POSTPONED:
                await asyncio.sleep(0.01)
    assert await inbox.read_usage("") == (5, 102)


@pytest.mark.slow  # takes half a second or more
async def test_turns_for_which_too_few_tokens_are_left_go_on_one_after_another(
    journal: Journal,
) -> None:
    replied, most = asyncio.Semaphore(0), 0
    may_look = asyncio.Event()
    looking: set[str] = set()

    @tool(effect="read")
    async def look(context: ToolContext[None]) -> str:
        """Look."""
        nonlocal most
        looking.add(context.run_id)
        most = max(most, len(looking))
        replied.release()
        await may_look.wait()
        return "nothing"

    half = Usage(input=20_000, output=20_000)
    look_reply = Reply((ToolCall("c", "look", "{}"),), usage=half)
    agent = greeter(journal, *[look_reply] * 3, *["Done."] * 3, tools=[look])
    inbox = open_inbox(journal)
    await inbox.set_limits("tenant", QueueLimits(tokens_per_day=150_000))
    first = await inbox.add_tokens("", 0)
    assert first.uncounted_before is not None
    await inbox.set_earlier_tokens("", first.uncounted_before, 0)
    runs = [await agent.submit("Look.", session=f"s{number}") for number in range(3)]
    async with Worker(agent, parallel=8):
        for _ in range(3):
            await replied.acquire()
        while [await run.read_state() for run in runs].count(EntryState.ADMITTED) > 1:
            await asyncio.sleep(0.01)
        may_look.set()
        for run in runs:
            assert (await run.wait(SECONDS)).text == "Done."
    assert most == 3


@pytest.mark.slow  # takes half a second or more
async def test_tokens_that_a_dead_worker_did_not_count_are_counted_by_the_journal(
    journal: Journal,
) -> None:
    agent = greeter(journal, "Done.")
    inbox = open_inbox(journal)
    await inbox.set_limits("tenant", QueueLimits(tokens_per_day=100_000))
    dead = WorkerInfo(
        id="dead",
        host="here",
        process=1,
        agents=("greeter",),
        slots=1,
        engine="asyncio",
        started_at=0.0,
        seconds_to_live=1.0,
    )
    run = await agent.submit("Hi.", session="ada", request="r")
    await inbox.note_worker(dead)
    await inbox.admit(offer=Offer("dead", [name_queue("greeter", None)], 1))
    assert (await inbox.add_tokens("", 0)).uncounted_before is not None
    assert await run.read_state() is EntryState.ADMITTED
    # It saved a reply, and was killed before it counted the tokens of that.
    at = time.time()
    await inbox.set_earlier_tokens("", at, 0)
    await journal.append("other", TurnOpened("t1", at, user("Hi.")))
    await journal.append("other", ModelReplied("t1.i0.model", at, HELLO))
    assert await inbox.read_usage("") == (1, 0)
    async with Worker(agent):
        used = (await run.wait(SECONDS)).usage.total
    assert await inbox.read_usage("") == (1, 2_000 + used)


async def test_tokens_that_could_not_be_counted_are_counted_before_the_turn_is_over(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = greeter(journal, HELLO)
    inbox = open_inbox(journal)
    await inbox.set_limits("tenant", QueueLimits(tokens_per_day=100_000))
    add, failures = Inbox.add_tokens, 2

    async def fail_sometimes(self: Inbox, tenant: str, tokens: int, at: float = NEVER) -> TokenUse:
        nonlocal failures
        if tokens and failures:
            failures -= 1
            raise JournalUnreachableError("here", "does not answer")
        return await add(self, tenant, tokens, at)

    monkeypatch.setattr(Inbox, "add_tokens", fail_sometimes)
    run = await agent.submit("Hi.", session="ada")
    async with Worker(agent):
        await run.wait(SECONDS)
    assert await inbox.read_usage("") == (1, 2_000)


async def test_a_worker_gives_its_tools_the_deps_of_the_agent(journal: Journal) -> None:
    @tool(effect="read")
    async def look(context: ToolContext[dict[str, str]]) -> str:
        """Look."""
        return context.deps["name"]

    def open_db(run: InterruptedRun) -> dict[str, str]:
        return {"name": f"db of {run.run_id}"}

    agent = greeter(journal, call("look"), "Done.", tools=[look], deps_type=dict, deps=open_db)
    run = await agent.submit("Look.", session="ada")
    async with Worker(agent):
        result = await run.wait(SECONDS)
    assert "db of ada" in str(result.messages)
