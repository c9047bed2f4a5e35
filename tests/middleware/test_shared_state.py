"""Hooks and tools of one turn hand values to each other without globals, by the class of an object."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass, field

import pytest

from holdfast import Agent, MemoryJournal, Middleware, ToolContext, tool
from holdfast.core.errors import ConfigurationError
from holdfast.core.messages import ToolCall
from holdfast.middleware import AfterReply, AfterTurn, BeforeIteration, RunFacts
from holdfast.testing import CrashAt, ScriptedModel, SimulatedCrash


@dataclass
class Notes:
    """What the hooks of these tests share."""

    lines: list[str] = field(default_factory=list)


class Writes(Middleware):
    async def before_iteration(self, context: BeforeIteration) -> None:
        context.shared(Notes).lines.append(f"{context.turn}.{context.iteration}")


class Reads(Middleware):
    def __init__(self) -> None:
        self.read: list[list[str]] = []

    def enabled(self, hook: str, facts: RunFacts) -> bool:
        return hook != "after_reply" or bool(facts.shared(Notes).lines)

    async def after_reply(self, context: AfterReply) -> None:
        context.shared(Notes).lines.append("reply")

    async def after_turn(self, context: AfterTurn) -> None:
        self.read.append(context.shared(Notes).lines)


@tool(effect="read")
def note(text: str, context: ToolContext) -> str:
    """Write a note, in a thread."""
    context.shared(Notes).lines.append(text)
    return "ok"


async def test_one_hook_reads_what_another_hook_and_a_tool_wrote() -> None:
    reads = Reads()
    model = ScriptedModel(ToolCall("1", "note", '{"text": "tool"}'), "done")
    agent = Agent(model, tools=[note], middleware=[Writes(), reads])
    await agent.run("Go")
    assert reads.read == [["1.0", "reply", "tool", "1.1", "reply"]]


async def test_turns_of_a_session_and_runs_at_the_same_time_share_nothing() -> None:
    reads = Reads()
    agent = Agent(ScriptedModel(*["done"] * 4), middleware=[Writes(), reads])
    await agent.run("Go", session="ada")
    await agent.run("Go", session="ada")
    await asyncio.gather(agent.run("Go"), agent.run("Go"))
    assert reads.read == [["1.0", "reply"], ["2.0", "reply"], ["1.0", "reply"], ["1.0", "reply"]]


async def test_an_agent_that_runs_as_a_tool_has_a_state_of_its_own() -> None:
    reads = Reads()
    child = Agent(ScriptedModel("ok"), name="child", middleware=[Writes(), reads])
    model = ScriptedModel(ToolCall("1", "child", '{"task": "a"}'), "done")
    await Agent(model, tools=[child.as_tool()], middleware=[Writes(), reads]).run("Go")
    assert reads.read == [["1.0", "reply"], ["1.0", "reply", "1.1", "reply"]]


async def test_a_resumed_turn_begins_without_the_shared_state() -> None:
    reads, journal = Reads(), MemoryJournal()
    model = ScriptedModel(ToolCall("1", "note", '{"text": "tool"}'), "done")
    middleware = [Writes(), reads]
    agent = Agent(model, tools=[note], middleware=middleware, journal=CrashAt(journal, 4))
    with pytest.raises(SimulatedCrash):
        await agent.run("Go", session="ada")
    again = Agent(ScriptedModel("done"), tools=[note], middleware=middleware, journal=journal)
    await again.resume("ada")
    assert reads.read == [["1.1", "reply"]]


def test_threads_that_ask_at_the_same_time_get_the_same_object() -> None:
    made: list[object] = []
    both = threading.Barrier(2)

    class Slow:
        def __init__(self) -> None:
            both.wait(5)

    context = ToolContext(run_id="r", key="t1.i0.tool.0")
    threads = [threading.Thread(target=lambda: made.append(context.shared(Slow))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 2
    assert made[0] is made[1]


@dataclass
class Needy:
    name: str


@pytest.mark.parametrize("wrong", [Needy, Notes(), [], None])
def test_what_is_not_a_class_without_arguments_is_refused(wrong: type[object]) -> None:
    context = ToolContext(run_id="r", key="t1.i0.tool.0")
    with pytest.raises(ConfigurationError, match="shared: needs a class that can be called"):
        context.shared(wrong)
