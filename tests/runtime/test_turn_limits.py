"""The time and the iterations of a turn: clocks that step, outages, and counts."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel

from holdfast import Agent, Limits, MemoryJournal, ToolContext, tool
from holdfast.core.events import Status, ToolFinished
from holdfast.core.machine import SessionMachine
from holdfast.core.messages import Reply, ToolCall
from holdfast.core.model_request import ModelRequest
from holdfast.core.questions import PermissionQuestion
from holdfast.errors import LimitError
from holdfast.journal.port import Journal
from holdfast.testing import CrashAt, FakeClock, ScriptedModel, SimulatedCrash

# A wall clock that steps.

STEPS = [3600.0, -3600.0, 8 * 3600.0]


def call(name: str) -> Reply:
    return Reply((ToolCall("1", name, "{}"),))


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("durable", [True, False])
async def test_a_turn_goes_on_after_a_step_of_the_clock(step: float, durable: bool) -> None:
    clock = FakeClock()

    @tool
    def look() -> str:
        clock.advance(1)
        clock.step(step)
        return "there"

    model = ScriptedModel(call("look"), call("look"), "done")
    journal = MemoryJournal() if durable else None
    agent = Agent(model, tools=[look], clock=clock, journal=journal, limits=Limits(seconds=60))
    assert (await agent.run("Look", session="ada")).output == "done"


@pytest.mark.parametrize("step", STEPS)
async def test_the_time_of_a_turn_counts_beside_steps_of_the_clock(step: float) -> None:
    """Also after a step back, which gives a turn no more time."""
    clock = FakeClock()

    @tool
    def look() -> str:
        clock.step(step)
        clock.advance(40)
        return "there"

    agent = Agent(
        ScriptedModel(*[call("look")] * 9), tools=[look], clock=clock, limits=Limits(seconds=60)
    )
    with pytest.raises(LimitError) as caught:
        await agent.run("Look")
    assert caught.value.result.iterations == 2


@pytest.mark.parametrize("step", STEPS)
async def test_a_step_while_a_person_is_asked_counts_once(step: float) -> None:
    clock = FakeClock()

    async def answer(question: Any) -> Any:
        clock.step(step)
        await clock.sleep(30)
        return question.approve()

    @tool
    async def look(ctx: ToolContext) -> str:
        await ctx.ask(PermissionQuestion(tool="look"))
        clock.advance(10)
        return "there"

    model = ScriptedModel(call("look"), call("look"), "done")
    limits = Limits(seconds=60)
    agent = Agent(model, tools=[look], clock=clock, limits=limits, on_question=answer)
    assert (await agent.run("Look")).output == "done"


async def test_repairs_of_an_output_take_their_own_time() -> None:
    class Trip(BaseModel):
        city: str

    clock = FakeClock()

    def reply(_: object) -> str:
        clock.step(3600)
        return "no trip" if len(replies) < 2 else '{"city": "Porto"}'

    replies: list[str] = []

    async def model(request: object) -> str:
        replies.append(reply(request))
        return replies[-1]

    limits = Limits(seconds=60, output_repair_seconds=30)
    agent = Agent(ScriptedModel(model, model, model), output=Trip, clock=clock, limits=limits)
    assert (await agent.run("Where?")).output == Trip(city="Porto")


# The time between a crash and a recovery does not count.

LIMIT = 300.0
OUTAGE = 36_000.0
EVENTS = 7
"""Opened, replied, begun, looked, replied, begun, and looked; then the answer and the end at once."""


class Bench:
    """One agent in one process after another, each of whose tools takes its time."""

    def __init__(self, takes: float) -> None:
        self.journal = MemoryJournal()
        self.clock = FakeClock()
        self.takes = takes
        self.told: list[float | None] = []

    def agent(self, journal: Journal | None = None) -> Agent[str]:
        @tool(effect="read")
        async def look(context: ToolContext) -> str:
            """Look."""
            self.told.append(context.remaining)
            self.clock.advance(self.takes)
            return "sun"

        def answer(request: ModelRequest) -> ToolCall | str:
            seen = sum(message.role == "tool" for message in request.messages)
            return ToolCall(f"c{seen}", "look") if seen < 2 else "done"

        return Agent(
            ScriptedModel(*[answer] * 9),
            tools=[look],
            journal=journal or self.journal,
            clock=self.clock,
            limits=Limits(seconds=LIMIT),
        )

    async def crash(self, at: int, *, before: bool) -> None:
        with pytest.raises(SimulatedCrash):
            await self.agent(CrashAt(self.journal, at, before=before)).run("go", session="s")
        self.clock.advance(OUTAGE)


@pytest.mark.parametrize("before", [False, True], ids=["after", "before"])
@pytest.mark.parametrize("moment", range(2, EVENTS + 1))
async def test_a_turn_goes_on_however_long_nobody_drove_it(moment: int, before: bool) -> None:
    bench = Bench(takes=10.0)
    await bench.crash(moment, before=before)
    (recovered,) = await bench.agent().recover()
    assert recovered.result is not None
    assert recovered.result.output == "done"
    assert all(left is not None and LIMIT - 60 < left <= LIMIT for left in bench.told)


async def test_a_turn_goes_on_after_a_second_outage() -> None:
    bench = Bench(takes=10.0)
    await bench.crash(3, before=False)
    with pytest.raises(SimulatedCrash):
        await bench.agent(CrashAt(bench.journal, 2)).resume("s")
    bench.clock.advance(OUTAGE)
    assert (await bench.agent().resume("s")).output == "done"
    kept = [record.event for record in await bench.journal.read("s")]
    assert sum(getattr(event, "downtime", 0.0) for event in kept) == 2 * OUTAGE


@pytest.mark.parametrize("moment", range(2, EVENTS + 1))
async def test_the_time_worked_counts_on_both_sides_of_an_outage(moment: int) -> None:
    bench = Bench(takes=LIMIT / 2 + 1)
    await bench.crash(min(moment, 4), before=False)
    (recovered,) = await bench.agent().recover()
    assert recovered.error is not None
    assert "time limit of 300 seconds" in str(recovered.error)


async def test_a_turn_whose_time_was_over_before_an_outage_is_only_closed() -> None:
    bench = Bench(takes=LIMIT + 1)
    with pytest.raises(SimulatedCrash):
        # Opened, replied, begun, looked, and then it would be closed.
        await bench.agent(CrashAt(bench.journal, 5, before=True)).run("go", session="s")
    bench.clock.advance(OUTAGE)
    with pytest.raises(LimitError, match="time limit of 300 seconds"):
        await bench.agent().resume("s")
    kept = [record.event for record in await bench.journal.read("s")]
    assert [type(event).__name__ for event in kept].count("TurnClosed") == 1
    assert len(bench.told) == 1


async def test_a_run_without_an_outage_has_no_downtime() -> None:
    bench = Bench(takes=10.0)
    await bench.agent().run("go", session="s")
    assert all(
        not getattr(record.event, "downtime", 0.0) for record in await bench.journal.read("s")
    )


async def test_the_fold_knows_what_both_processes_worked() -> None:
    bench = Bench(takes=10.0)
    await bench.crash(3, before=False)
    await bench.agent().resume("s")
    machine = SessionMachine()
    kept = [record.event for record in await bench.journal.read("s")]
    for event in kept:
        machine.apply(event)
    assert machine.status is Status.COMPLETED
    assert machine.working_seconds(kept[-1].at) == 20.0
    assert [event.downtime for event in kept if isinstance(event, ToolFinished)] == [OUTAGE, 0.0]


# Iterations are the model calls that were made.


async def test_a_turn_at_its_limit_counts_what_it_did() -> None:
    @tool
    def look() -> str:
        """Look."""
        return "nothing"

    again = ToolCall("c", "look")
    agent = Agent(ScriptedModel(again, again), tools=[look], limits=Limits(iterations=2))
    with pytest.raises(LimitError) as caught:
        await agent.run("go")
    assert caught.value.result.iterations == 2


async def test_a_turn_without_tools_has_one() -> None:
    assert (await Agent(ScriptedModel("hi")).run("go")).iterations == 1
