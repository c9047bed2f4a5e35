"""A stream stops without closing its turn, and the next process continues as after a crash."""

from __future__ import annotations

import asyncio

import pytest

from holdfast import Agent, ConfigurationError, MemoryJournal, tool
from holdfast.core.events import Event, TurnClosed
from holdfast.core.messages import Reply, ToolCall
from holdfast.journal.port import Journal
from holdfast.runtime.streams.run_stream import RunStream
from holdfast.testing import ScriptedModel

pytestmark = pytest.mark.anyio


def calls(*names: str) -> Reply:
    return Reply(tuple(ToolCall(f"c{at}", name, "{}") for at, name in enumerate(names)))


async def keys(journal: Journal, run: str = "s") -> list[str]:
    return [record.event.key for record in await journal.read(run)]


async def read_to_end(stream: RunStream[str]) -> list[Event]:
    return [item async for item in stream if isinstance(item, Event)]


class Work:
    """A writing and a reading tool that tell when they began and end when they may."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.both_began = asyncio.Event()
        self.may_end = asyncio.Event()

        @tool(effect="write")
        async def pay() -> str:
            """Pay."""
            self._note("pay")
            await self.may_end.wait()
            return "paid"

        @tool(effect="read")
        async def look() -> str:
            """Look."""
            self._note("look")
            await asyncio.Event().wait()
            return "seen"

        self.tools = [pay, look]

    def _note(self, name: str) -> None:
        self.begun.append(name)
        if len(self.begun) == 2:
            self.both_began.set()

    def agent(self, journal: Journal, *replies: Reply | str, parallel_tools: int = 8) -> Agent[str]:
        model = ScriptedModel(*replies)
        return Agent(model, journal=journal, tools=self.tools, parallel_tools=parallel_tools)


async def test_a_model_call_is_cut_and_made_again() -> None:
    journal, called = MemoryJournal(), asyncio.Event()

    async def hang(_request: object) -> Reply:
        called.set()
        await asyncio.Event().wait()
        raise AssertionError

    async with Agent(ScriptedModel(hang), journal=journal).stream("Hi", session="s") as stream:
        await called.wait()
        await stream.leave_open()
        assert [event.key for event in await read_to_end(stream)] == ["t1"]
        with pytest.raises(asyncio.CancelledError):
            _ = stream.result
    assert await keys(journal) == ["t1"]
    (entry,) = await journal.runs(turn_open=True)
    assert not entry.leased
    assert (await Agent(ScriptedModel("Done."), journal=journal).resume("s")).text == "Done."


async def test_a_writing_tool_is_waited_for_and_nothing_begins_after_it() -> None:
    journal, work = MemoryJournal(), Work()
    agent = work.agent(journal, calls("pay", "look"), "never asked")
    async with agent.stream("Go", session="s") as stream:
        await work.both_began.wait()
        leaving = asyncio.create_task(stream.leave_open())
        await asyncio.sleep(0)
        work.may_end.set()
        await leaving
    assert await keys(journal) == ["t1", "t1.i0.model", "t1.i0.begun", "t1.i0.tool.0"]
    assert work.begun == ["pay", "look"]


async def test_a_writing_tool_that_takes_too_long_is_in_doubt() -> None:
    journal, work = MemoryJournal(), Work()
    async with work.agent(journal, calls("pay", "look")).stream("Go", session="s") as stream:
        await work.both_began.wait()
        await stream.leave_open(grace=0.01)
    again, after = Work(), "I do not know whether it was paid."
    look = again.tools[1]
    agent = Agent(ScriptedModel(after), journal=journal, tools=[again.tools[0], look])
    resumed = asyncio.create_task(agent.resume("s"))
    while "look" not in again.begun:
        await asyncio.sleep(0)
    assert again.begun == ["look"]  # the reading tool runs again, the writing one does not
    resumed.cancel()
    await asyncio.wait([resumed])
    (told,) = [one.event for one in await journal.read("s") if one.event.key == "t1.i0.tool.0"]
    assert getattr(told, "error").code == "in_doubt"  # noqa: B009  # REASON: a union of events


async def test_a_tool_that_waits_for_its_turn_does_not_begin() -> None:
    journal, work = MemoryJournal(), Work()
    agent = work.agent(journal, calls("pay", "pay", "pay"), parallel_tools=1)
    async with agent.stream("Go", session="s") as stream:
        while not work.begun:
            await asyncio.sleep(0)
        leaving = asyncio.create_task(stream.leave_open())
        await asyncio.sleep(0)
        work.may_end.set()
        await leaving
    assert work.begun == ["pay"]
    assert (await keys(journal))[-1] == "t1.i0.tool.0"


async def test_the_writing_tool_of_a_subagent_is_waited_for_too() -> None:
    journal, work = MemoryJournal(), Work()
    clerk = Agent(ScriptedModel(calls("pay")), name="clerk", tools=work.tools)
    ask = Reply((ToolCall("c", "clerk", '{"task": "Pay."}'),))
    agent = Agent(ScriptedModel(ask), journal=journal, tools=[clerk.as_tool()])
    async with agent.stream("Go", session="s") as stream:
        while not work.begun:
            await asyncio.sleep(0)
        leaving = asyncio.create_task(stream.leave_open())
        await asyncio.sleep(0)
        work.may_end.set()
        await leaving
    children = [entry for entry in await journal.runs(turn_open=True) if entry.run != "s"]
    (child,) = children
    assert (await keys(journal, child.run))[-1] == "t1.i0.tool.0"
    assert (await keys(journal))[-1] == "t1.i0.begun"


async def test_a_cancellation_counts_although_the_turn_is_being_left() -> None:
    journal, work = MemoryJournal(), Work()
    async with work.agent(journal, calls("pay", "look")).stream("Go", session="s") as stream:
        await work.both_began.wait()
        leaving = asyncio.create_task(stream.leave_open())
        await asyncio.sleep(0)
        stream.cancel()
        await leaving
    assert isinstance((await journal.read("s"))[-1].event, TurnClosed)


async def test_a_turn_that_has_ended_stays_as_it_is() -> None:
    journal = MemoryJournal()
    agent = Agent(ScriptedModel("Done."), journal=journal)
    async with agent.stream("Hi", session="s") as stream:
        async for _ in stream:
            pass
        await stream.leave_open()
        assert stream.result.text == "Done."
    with pytest.raises(ConfigurationError, match="grace"):
        await stream.leave_open(grace=-1)


async def test_a_run_is_cancelled_after_its_writing_tools() -> None:
    journal, work = MemoryJournal(), Work()
    agent = work.agent(journal, calls("pay", "look"), "never asked")
    async with agent.stream("Go", session="s") as stream:
        await work.both_began.wait()
        cancelling = asyncio.create_task(stream.cancel_after_writes(by="ann"))
        await asyncio.sleep(0)
        work.may_end.set()
        await cancelling
        await stream.cancel_after_writes()
    *_, paid, interrupted, closed = [one.event for one in await journal.read("s")]
    assert paid.key == "t1.i0.tool.0"
    assert getattr(interrupted, "by") == "ann"  # noqa: B009  # REASON: a union of events
    assert isinstance(closed, TurnClosed)
    assert closed.status == "cancelled"


async def test_a_process_that_stops_leaves_a_run_open_that_waits_for_its_cancellation() -> None:
    journal, work = MemoryJournal(), Work()
    async with work.agent(journal, calls("pay", "look")).stream("Go", session="s") as stream:
        await work.both_began.wait()
        cancelling = asyncio.create_task(stream.cancel_after_writes())
        await asyncio.sleep(0)
        leaving = asyncio.create_task(stream.leave_open())
        await asyncio.sleep(0)
        work.may_end.set()
        await asyncio.wait_for(asyncio.gather(cancelling, leaving), 60)
    assert (await journal.runs(turn_open=True)) != []


async def test_a_cancellation_after_writes_is_checked_and_may_come_late() -> None:
    agent = Agent(ScriptedModel("Done."), journal=MemoryJournal())
    async with agent.stream("Hi", session="s") as stream:
        async for _ in stream:
            pass
        await stream.cancel_after_writes()
        assert stream.result.text == "Done."
    with pytest.raises(ConfigurationError, match="grace"):
        await stream.cancel_after_writes(grace=-1)
