"""A typed answer and a process that dies: at every append, between reply and check, and after a deploy."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest

from holdfast import Agent, MemoryJournal, OutputError, OutputRejected, StructuredOutput, tool
from holdfast.core.effects import CheckOutput, effect_digest
from holdfast.core.errors import ConfigurationError, IllegalEventError, ReplayMismatchError
from holdfast.core.events import ModelReplied, Status, TurnOpened
from holdfast.core.limits import Limits
from holdfast.core.machine import SessionMachine
from holdfast.core.messages import Reply, Text, ToolCall, user
from holdfast.core.output_retries import OUTPUT_CHECKED
from holdfast.core.session_state import Phase
from holdfast.events import OutputChecked
from holdfast.journal.encoding import decode, encode, record_of, to_line
from holdfast.testing import CrashAt, ScriptedModel, SimulatedCrash


@dataclass
class Trip:
    city: str
    days: int


@dataclass
class LongerTrip:
    """The same type after a deploy: a new field is required."""

    city: str
    days: int
    guide: str


RIGHT = 'So:\n```json\n{"city": "Porto", "days": 2}\n```'
TEXTS = ('{"city": "Porto"}', '{"city": "Porto", "days": 9}', RIGHT)
EVENTS = 8
"""Opened, then replied and checked three times, closed."""


def short(trip: Trip) -> None:
    if trip.days > 3:
        raise OutputRejected("At most 3 days.")


class World:
    """What was asked of the model, across all processes."""

    def __init__(self) -> None:
        self.asked = 0

    def answer(self, request: Any) -> str:
        self.asked += 1
        return TEXTS[sum(message.role == "assistant" for message in request.messages)]

    def agent(self, journal: Any, output: Any = None) -> Agent[Any]:
        wanted = output or StructuredOutput(Trip, validators=[short])
        return Agent(ScriptedModel(*[self.answer] * 9), output=wanted, journal=journal)


async def keys(journal: MemoryJournal) -> list[str]:
    return [record.event.key for record in await journal.read("s")]


@pytest.mark.parametrize("before", [False, True], ids=["after", "before"])
@pytest.mark.parametrize("moment", range(1, EVENTS + 1))
async def test_every_crash_point_ends_with_the_same_answer(moment: int, before: bool) -> None:
    calm = MemoryJournal()
    wanted = await World().agent(calm).run("go", session="s")
    world, journal = World(), MemoryJournal()
    with pytest.raises(SimulatedCrash):
        await world.agent(CrashAt(journal, moment, before=before)).run("go", session="s")
    if await journal.read("s"):
        result = await world.agent(journal).resume("s")
    else:
        result = await world.agent(journal).run("go", session="s")
    assert (result.output, result.parsed_by) == (Trip("Porto", 2), "embedded")
    assert result.messages == wanted.messages
    assert await keys(journal) == await keys(calm)
    # Only a reply that died before it was kept is paid for twice.
    assert world.asked == 3 + (before and moment in (2, 4, 6))


@pytest.mark.parametrize("before", [False, True], ids=["after", "before"])
@pytest.mark.parametrize("moment", range(1, 10))
async def test_by_a_tool_and_beside_tools_every_crash_point_ends_the_same(
    moment: int, before: bool
) -> None:
    paid: list[int] = []

    @tool(effect="write")
    def pay(amount: int) -> str:
        """Pay."""
        paid.append(amount)
        return "paid"

    def answer(request: Any) -> ToolCall:
        if request.messages[-1].role == "user" and len(request.messages) == 1:
            return ToolCall("a", "pay", '{"amount": 1}')
        right = request.messages[-1].role == "user"
        return ToolCall("b", "final_answer", RIGHT[12:-4] if right else '{"city": "Porto"}')

    def agent(journal: Any) -> Agent[Any]:
        output = StructuredOutput(Trip, mode="tool")
        return Agent(ScriptedModel(*[answer] * 9), output=output, tools=[pay], journal=journal)

    journal = MemoryJournal()
    with pytest.raises(SimulatedCrash):
        await agent(CrashAt(journal, moment, before=before)).run("go", session="s")
    if await journal.read("s"):
        result = await agent(journal).resume("s")
    else:
        result = await agent(journal).run("go", session="s")
    assert result.output == Trip("Porto", 2)
    assert len(paid) <= 1
    assert [message.role for message in result.messages] == [
        "user",
        "assistant",
        "tool",
        "assistant",
        "user",
        "assistant",
    ]
    assert await keys(journal) == [
        "t1",
        "t1.i0.model",
        "t1.i0.begun",
        "t1.i0.tool.0",
        "t1.i1.model",
        "t1.i1.output",
        "t1.i2.model",
        "t1.i2.output",
        "t1.closed",
    ]


async def test_a_crash_between_reply_and_check_asks_nobody_again() -> None:
    world, journal = World(), MemoryJournal()
    with pytest.raises(SimulatedCrash):
        await world.agent(CrashAt(journal, 6)).run("go", session="s")
    assert (await keys(journal))[-1] == "t1.i2.model"
    assert (await world.agent(journal).resume("s")).output == Trip("Porto", 2)
    assert world.asked == 3


async def test_a_changed_type_leaves_old_sessions_readable() -> None:
    world, journal = World(), MemoryJournal()
    await world.agent(journal).run("go", session="s")
    again = '{"city": "Faro", "days": 1, "guide": "Ada"}'
    for output, text, value in (
        (LongerTrip, again, LongerTrip("Faro", 1, "Ada")),
        (list[int], "[1]", [1]),
        (str, "text", "text"),
        (Trip, '{"city": "Rome", "days": 1}', Trip("Rome", 1)),
    ):
        agent: Agent[Any] = Agent(ScriptedModel(text), output=output, journal=journal)  # type: ignore[arg-type]
        assert (await agent.run("and now?", session="s")).output == value


async def test_an_answer_whose_type_was_changed_before_the_end_says_so() -> None:
    world, journal = World(), MemoryJournal()
    with pytest.raises(SimulatedCrash):
        await world.agent(CrashAt(journal, EVENTS - 1)).run("go", session="s")
    with pytest.raises(OutputError, match="type was changed") as caught:
        await world.agent(journal, LongerTrip).resume("s")
    assert caught.value.raw == RIGHT
    assert [problem.path for problem in caught.value.problems] == ["guide"]
    assert (await world.agent(journal).resume("s")).output == Trip("Porto", 2)


async def test_a_check_waits_for_an_agent_that_has_a_type() -> None:
    world, journal = World(), MemoryJournal()
    with pytest.raises(SimulatedCrash):
        await world.agent(CrashAt(journal, 6)).run("go", session="s")
    with pytest.raises(ConfigurationError, match="output: run 's' waits"):
        await Agent(ScriptedModel(), journal=journal).resume("s")
    assert (await world.agent(journal).resume("s")).output == Trip("Porto", 2)


async def test_a_raw_answer_is_found_again() -> None:
    journal = MemoryJournal()
    output = StructuredOutput(Trip, attempts=1, raw_on_failure=True)
    with pytest.raises(SimulatedCrash):
        await Agent(ScriptedModel("no"), output=output, journal=CrashAt(journal, 3)).run(
            "go", session="s"
        )
    result = await Agent(ScriptedModel(), output=output, journal=journal).resume("s")
    assert (result.output, result.parsed_by) == ("no", "raw")


async def test_a_session_that_was_left_in_a_check_takes_the_next_message() -> None:
    world, journal = World(), MemoryJournal()
    with pytest.raises(SimulatedCrash):
        await world.agent(CrashAt(journal, 6)).run("go", session="s")
    result = await Agent(ScriptedModel("well"), journal=journal).run("and now?", session="s")
    assert result.output == "well"
    assert [message.role for message in result.messages[-3:]] == ["assistant", "user", "assistant"]


async def test_a_check_that_was_planned_with_another_history_is_refused() -> None:
    world, journal = World(), MemoryJournal()
    await world.agent(journal).run("go", session="s")
    records = [
        (record.event, CheckOutput(record.event.key, 99))
        if isinstance(record.event, OutputChecked)
        else (record.event, None)
        for record in await journal.read("s")
    ]
    other = MemoryJournal()
    for event, effect in records:
        await other.append("s", event, effect)
    with pytest.raises(ReplayMismatchError, match=r"t1\.i0\.output"):
        await world.agent(other).resume("s")


def test_the_digest_of_a_check_is_for_ever() -> None:
    assert effect_digest(CheckOutput("t1.i0.output", 2)) == "99367d68286da7df"


def opened(flags: int) -> SessionMachine:
    machine = SessionMachine()
    machine.apply(TurnOpened("t1", 0.0, user("go"), Limits(), flags))
    machine.apply(ModelReplied("t1.i0.model", 1.0, Reply((Text("7"),))))
    return machine


def test_the_flags_of_a_turn_say_what_happens_with_an_answer() -> None:
    assert opened(0).phase is Phase.CLOSING
    machine = opened(OUTPUT_CHECKED)
    assert machine.phase is Phase.OUTPUT
    assert machine.pending_effects() == (CheckOutput("t1.i0.output", 2),)
    machine.apply(OutputChecked("t1.i0.output", 2.0, "strict"))
    assert (machine.status, machine.parsed_by) == (Status.COMPLETED, "strict")


def test_flags_of_a_newer_version_are_refused_and_change_nothing() -> None:
    machine = SessionMachine()
    with pytest.raises(IllegalEventError, match="newer version"):
        machine.apply(TurnOpened("t1", 0.0, user("go"), Limits(), 2))
    assert machine.phase is Phase.IDLE
    assert machine.event_count == 0


def test_the_event_survives_its_json() -> None:
    journal, agent = MemoryJournal(), World()
    asyncio.run(agent.agent(journal).run("go", session="s"))
    for seq, record in enumerate(asyncio.run(journal.read("s")), 1):
        assert record_of(decode(encode(to_line("s", seq, record)))) == record
