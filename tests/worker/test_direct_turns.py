"""A worker begins the turns that it has admitted without a job, and never more than it has slots."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

import holdfast.worker.sweep as sweep_module
from holdfast import Agent, MemoryJournal, Reply, Text, ToolCall, tool
from holdfast.journal.inbox.admitting import Admission
from holdfast.journal.journal_errors import JournalStorageError
from holdfast.models import ModelRequest
from holdfast.resilience import CallContext, Done, Outcome
from holdfast.testing import ScriptedModel
from holdfast.worker import EntryState, Job, Worker, WorkerInfo, open_inbox
from holdfast.worker.engines.asyncio_engine import AsyncioEngine

SECONDS = 60.0


class CountingEngine(AsyncioEngine):
    """Counts the jobs that are put, and loses them all if it is told to."""

    def __init__(self, *, loses: bool = False) -> None:
        super().__init__()
        self.loses = loses
        self.count = 0

    async def put(self, jobs: Sequence[Job]) -> None:
        self.count += len(jobs)
        await super().put(() if self.loses else jobs)


class Looker(ScriptedModel):
    """Looks, and then says so."""

    async def attempt(self, call: CallContext[ModelRequest]) -> Outcome[Reply]:
        """Reply at once."""
        if call.payload.messages[-1].role == "user":
            return Done(Reply((ToolCall("c1", "look", "{}"),)))
        return Done(Reply((Text("Done."),)))


async def test_a_turn_is_done_without_a_job() -> None:
    engine = CountingEngine(loses=True)
    agent = Agent(ScriptedModel(*["Hello."] * 4), name="greeter", journal=MemoryJournal())
    async with Worker(agent, engine=engine, parallel=1):
        runs = [await agent.submit("Hi.", session="ada") for _ in range(4)]
        assert [(await run.wait(SECONDS)).text for run in runs] == ["Hello."] * 4
    assert engine.count == 0


async def test_jobs_and_turns_without_one_share_the_slots_of_a_worker() -> None:
    """Another worker that is there has room, so more is admitted than this one may begin."""
    running = most = 0

    @tool(effect="read")
    async def look() -> str:
        """Look."""
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.02)
        running -= 1
        return "nothing"

    journal, engine = MemoryJournal(), CountingEngine()
    agent = Agent(Looker(), name="looker", journal=journal, tools=[look])
    other = WorkerInfo(
        id="x", host="h", process=1, agents=("looker",), slots=8, engine="e", started_at=0.0
    )
    await open_inbox(journal).note_worker(other)
    runs = [await agent.submit("Look.") for _ in range(8)]
    async with Worker(agent, engine=engine, parallel=2):
        assert [(await run.wait(SECONDS)).text for run in runs] == ["Done."] * 8
    assert most == 2
    assert engine.count >= 6


async def test_a_worker_begins_what_it_has_and_was_never_told_of(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The answer to an admission was lost, after its transaction was committed."""
    monkeypatch.setattr(sweep_module, "SECONDS_BETWEEN_SWEEPS", 0.05)
    engine, is_lost = CountingEngine(), False
    agent = Agent(ScriptedModel("Hello."), name="greeter", journal=MemoryJournal())
    worker = Worker(agent, engine=engine)
    inbox = worker._driving._inbox
    admit = inbox.admit

    async def lose_answer(*arguments: object) -> Admission:
        nonlocal is_lost
        admission = await admit(*arguments)  # type: ignore[arg-type]
        if admission.taken and not is_lost:
            is_lost = True
            raise JournalStorageError("here", "the answer was lost")
        return admission

    monkeypatch.setattr(inbox, "admit", lose_answer)
    async with worker:
        run = await agent.submit("Hi.", session="ada")
        assert (await run.wait(SECONDS)).text == "Hello."
        entry = await run.read_entry()
    assert is_lost
    assert (entry.state, entry.deliveries, engine.count) == (EntryState.DONE, 2, 0)
