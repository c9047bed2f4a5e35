"""An abandoned turn with a waiting subagent left the run of the subagent open forever."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.postgres_server import PostgresServer

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
from holdfast.core.events import Event, TurnClosed
from holdfast.core.messages import Reply, ToolCall, ToolResult, Usage
from holdfast.events import FromAgent, Observation
from holdfast.journal.port import Journal
from holdfast.middleware import Stop
from holdfast.middleware.hook_contexts import BeforeTool
from holdfast.testing import CrashAt, ScriptedModel, SimulatedCrash

pytestmark = pytest.mark.anyio

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


async def test_by_abandon() -> None:
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


async def test_and_observers_are_told() -> None:
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


async def test_when_the_tool_is_gone() -> None:
    journal = MemoryJournal()
    await boss(journal).run("Go.", session="s")
    assert (await boss(journal, hang).abandon("s")).usage == SPENT + SPENT + SPENT
    assert await ends(journal) == ALL


async def test_a_budget_of_its_own_stays_apart() -> None:
    journal = MemoryJournal()

    def agent() -> Agent[str]:
        return boss(journal, clerk(scout().as_tool()).as_tool(own_budget=True))

    await agent().run("Go.", session="s")
    assert (await agent().abandon("s")).usage == SPENT
    assert await ends(journal) == ALL


async def test_by_a_cancellation_while_a_sibling_is_at_work() -> None:
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


async def test_by_a_hook_that_ends_the_turn() -> None:
    journal = MemoryJournal()
    agent = boss(journal, clerk(scout().as_tool()).as_tool(), hang, middleware=[StopAtHang()])
    assert (await agent.run("Go.", session="s")).status is Status.STOPPED
    assert await ends(journal) == {**ALL, "s": Status.STOPPED}


@pytest.mark.parametrize("given_up", ["abandon", "another message"])
async def test_after_a_crash_at_any_append(given_up: str) -> None:
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


async def test_where_processes_share_the_journal(postgres: PostgresServer) -> None:
    url = postgres.new_url()
    with PostgresJournal(url) as one, PostgresJournal(url) as other:
        await boss(one).run("Go.", session="s")
        await boss(other).abandon("s")
        assert await ends(one) == ALL
        for run in ALL:
            lease = await one.claim(run)
            await lease.release()
