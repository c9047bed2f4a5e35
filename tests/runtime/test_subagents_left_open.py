"""The runs of subagents end with the turn that called them, or go on with it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.postgres_server import PostgresServer
from tests.runtime.slow_journal import SlowJournal

from holdfast import (
    Agent,
    ClarificationQuestion,
    MemoryJournal,
    Middleware,
    PostgresJournal,
    Status,
    ToolContext,
    tool,
)
from holdfast.core.batch import IN_DOUBT_TEXT
from holdfast.core.effects import Effect
from holdfast.core.events import Event, ModelReplied, TurnClosed
from holdfast.core.messages import Reply, ToolCall, ToolResult, Usage
from holdfast.events import FromAgent, Observation
from holdfast.journal.journal_errors import JournalStorageError
from holdfast.journal.port import Journal
from holdfast.middleware import Stop
from holdfast.middleware.hook_contexts import BeforeTool
from holdfast.testing import CrashAt, ScriptedModel, SimulatedCrash

# An abandoned turn leaves no subagent open.

SPENT = Usage(input=10, output=5)
CLERK, SCOUT = "s/t1.i0.tool.0", "s/t1.i0.tool.0/t1.i0.tool.0"


def calls(*names: str) -> Reply:
    found = [ToolCall(f"c{at}", name, '{"task": "look"}') for at, name in enumerate(names)]
    return Reply(tuple(found), usage=SPENT)


@tool(effect="write")
async def ask(task: str, context: ToolContext) -> str:
    """Ask."""
    return await context.ask(ClarificationQuestion(question="Sure?"))


@tool(effect="read")
async def hang(task: str) -> str:
    """Hang."""
    await asyncio.Event().wait()
    return "never"


def scout(**keywords: object) -> Agent[str]:
    return Agent(ScriptedModel(calls("ask"), "seen"), name="scout", tools=[ask], **keywords)  # type: ignore[arg-type]


def clerk(scout_tool: Any, **keywords: object) -> Agent[str]:
    model = ScriptedModel(calls("scout"), "filed")
    return Agent(model, name="clerk", tools=[scout_tool], **keywords)  # type: ignore[arg-type]


def boss(journal: Journal, *tools: Any, **keywords: object) -> Agent[str]:
    """The boss has a clerk, who has a scout, who asks."""
    keywords.setdefault("on_wait", "suspend")
    mine = tools or (clerk(scout().as_tool()).as_tool(),)
    model = ScriptedModel(calls(*(one.name for one in mine)), "done", "hello", "hello")
    return Agent(model, name="boss", tools=mine, journal=journal, **keywords)  # type: ignore[arg-type]


async def ends(journal: Journal) -> dict[str, Status]:
    """How the last turn of each run ended. Fails where one is open."""
    assert await journal.runs(turn_open=True) == []
    last = {entry.run: (await journal.read(entry.run))[-1].event for entry in await journal.runs()}
    return {run: event.status for run, event in last.items() if isinstance(event, TurnClosed)}


ALL = dict.fromkeys(("s", CLERK, SCOUT), Status.CANCELLED)


async def test_abandon_closes_every_subagent() -> None:
    journal = MemoryJournal()
    agent = boss(journal)
    assert (await agent.run("Go.", session="s")).status is Status.WAITING
    assert len(await journal.runs(turn_open=True)) == 3
    given_up = await boss(journal).abandon("s")  # by another process
    assert given_up.status is Status.CANCELLED
    assert await ends(journal) == ALL
    assert [one.session for one in await agent.sessions.list()] == ["s"]
    assert given_up.usage == SPENT + SPENT + SPENT
    assert IN_DOUBT_TEXT.format(name="ask") in await told(journal, SCOUT)
    assert await boss(journal).recover() == []
    kept = len(await journal.read(CLERK))
    assert (await boss(journal).abandon("s")).status is Status.CANCELLED
    assert len(await journal.read(CLERK)) == kept


async def told(journal: Journal, run: str) -> list[str]:
    """What the model of a run would read of its tools."""
    over = await Agent(ScriptedModel(), journal=journal).abandon(run)
    return [
        part.text for one in over.messages for part in one.parts if isinstance(part, ToolResult)
    ]


async def test_observers_see_the_end_of_abandoned_subagents() -> None:
    seen: list[tuple[str, str, str]] = []
    above: list[tuple[tuple[str, ...], str]] = []

    def observer(one: Observation) -> None:
        if isinstance(one.item, Event):
            seen.append((one.agent, one.run_id, one.item.key))

    def of_boss(one: Observation) -> None:
        if isinstance(one.item, FromAgent) and isinstance(one.item.item, Event):
            above.append((one.item.chain, one.item.item.key))

    def agent() -> Agent[str]:
        inner = scout(observers=[observer]).as_tool()
        return boss(journal, clerk(inner).as_tool(), observers=[of_boss])

    journal = MemoryJournal()
    await agent().run("Go.", session="s")
    seen.clear()
    above.clear()
    await agent().abandon("s")
    end = ["t1.interrupted", "t1.closed"]
    assert seen == [("scout", SCOUT, key) for key in end]
    assert above == [(chain, key) for chain in (("clerk", "scout"), ("clerk",)) for key in end]


async def test_abandon_closes_a_subagent_whose_tool_is_gone() -> None:
    journal = MemoryJournal()
    await boss(journal).run("Go.", session="s")
    assert (await boss(journal, hang).abandon("s")).usage == SPENT + SPENT + SPENT
    assert await ends(journal) == ALL


async def test_the_usage_of_an_abandoned_subagent_with_its_own_budget_stays_apart() -> None:
    journal = MemoryJournal()

    def agent() -> Agent[str]:
        return boss(journal, clerk(scout().as_tool()).as_tool(own_budget=True))

    await agent().run("Go.", session="s")
    assert (await agent().abandon("s")).usage == SPENT
    assert await ends(journal) == ALL


async def test_a_cancellation_closes_a_subagent_beside_a_working_sibling() -> None:
    journal = MemoryJournal()
    agent = boss(journal, clerk(scout().as_tool()).as_tool(), hang)
    run = asyncio.create_task(agent.run("Go.", session="s"))
    under_way = agent._engine.answering.active_turns
    while "s" not in under_way or not under_way["s"].effects.suspended_count:
        await asyncio.sleep(0)
    run.cancel()
    await asyncio.wait([run])
    assert run.cancelled()
    assert await ends(journal) == ALL


class StopAtHang(Middleware[None]):
    async def before_tool(self, context: BeforeTool) -> Stop | None:
        return Stop("hanging", "No.") if context.tool == "hang" else None


async def test_a_hook_that_ends_the_turn_closes_its_subagents() -> None:
    journal = MemoryJournal()
    agent = boss(journal, clerk(scout().as_tool()).as_tool(), hang, middleware=[StopAtHang()])
    assert (await agent.run("Go.", session="s")).status is Status.STOPPED
    assert await ends(journal) == {**ALL, "s": Status.STOPPED}


@pytest.mark.slow  # takes half a second or more
@pytest.mark.parametrize("given_up", ["abandon", "another message"])
async def test_a_crash_at_any_append_leaves_no_subagent_open(given_up: str) -> None:
    moment, died = 0, True
    while died:
        moment += 1
        journal = MemoryJournal()
        answered = boss(CrashAt(journal, moment), on_question=yes, on_wait="hold")
        try:
            await answered.run("Go.", session="s")
            died = False
        except SimulatedCrash:
            if given_up == "abandon":
                await boss(journal).abandon("s")
            else:
                await Agent(ScriptedModel("Hello."), journal=journal).run("Go on.", session="s")
        assert await journal.runs(turn_open=True) == []
    assert moment > 15


async def yes(_: object) -> str:
    return "yes"


async def test_abandon_closes_subagents_of_another_process(postgres: PostgresServer) -> None:
    url = postgres.new_url()
    with PostgresJournal(url) as one, PostgresJournal(url) as other:
        await boss(one).run("Go.", session="s")
        await boss(other).abandon("s")
        assert await ends(one) == ALL
        for run in ALL:
            lease = await one.claim(run)
            await lease.release()


# A cancelled turn that cannot save its end stays open, and so does the agent that waits in its
# tools.


async def test_a_subagent_stays_open_where_the_end_of_its_turn_is_not_saved() -> None:
    journal, waits = SlowJournal(), asyncio.Event()
    journal.slow = False

    @tool(effect="write")
    async def pay(task: str) -> str:
        """Pay."""
        await waits.wait()
        journal.slow = True
        return "paid"

    agent = boss(journal, clerk(scout().as_tool()).as_tool(), pay)
    run = asyncio.create_task(agent.run("Go.", session="s"))
    under_way = agent._engine.answering.active_turns
    while "s" not in under_way or not under_way["s"].effects.suspended_count:
        await asyncio.sleep(0)
    waits.set()
    await journal.until("t1.i0.tool.1")
    journal.fail(JournalStorageError("talk.db", "the disk is full"))
    await asyncio.sleep(0)
    run.cancel()
    journal.let_go()
    with pytest.raises(JournalStorageError):
        await run
    still_open = [entry.run for entry in await journal.runs(turn_open=True)]
    assert [run for run in still_open if run in ("s", CLERK)] == ["s", CLERK]


# A record of a subagent that cannot be saved is not a failure of the tool.


class FullOnce(MemoryJournal):
    """Has no room for the first reply of an agent in a tool."""

    full = True

    async def append(
        self, run: str, event: Event, effect: Effect | None = None, *, marker: Event | None = None
    ) -> None:
        if self.full and "/" in run and isinstance(event, ModelReplied):
            self.full = False
            raise JournalStorageError("talk.db", "the disk is full")
        await super().append(run, event, effect, marker=marker)


async def test_a_turn_and_its_subagent_go_on_after_an_unsaved_record() -> None:
    journal = FullOnce()
    clerk = Agent(ScriptedModel("Filed.", "Filed."), name="clerk")
    call = ToolCall("c", "clerk", '{"task": "File."}')
    boss = Agent(ScriptedModel(call, "Done."), tools=[clerk.as_tool()], journal=journal)
    with pytest.raises(JournalStorageError, match="the disk is full"):
        await boss.run("Go.", session="s")
    result = await boss.resume("s")
    assert (result.status, result.text) == (Status.COMPLETED, "Done.")
    assert [entry.run for entry in await journal.runs()] == ["s", "s/t1.i0.tool.0"]
    assert await journal.runs(turn_open=True) == []


async def test_a_turn_goes_on_beside_a_subagent_with_a_full_journal_of_its_own() -> None:
    class Full(MemoryJournal):
        async def append(
            self,
            run: str,
            event: Event,
            effect: Effect | None = None,
            *,
            marker: Event | None = None,
        ) -> None:
            raise JournalStorageError("talk.db", "the disk is full")

    clerk = Agent(ScriptedModel(), name="clerk", journal=Full())
    call = ToolCall("c", "clerk", '{"task": "File."}')
    boss = Agent(ScriptedModel(call, "Done."), tools=[clerk.as_tool()])
    assert (await boss.run("Go.", session="s")).text == "Done."
