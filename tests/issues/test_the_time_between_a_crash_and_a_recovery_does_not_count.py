"""A turn that a crash cut short ended at its time limit when it was recovered later than that.

And until then it had no deadline at all: its calls could be retried for longer than it had left.
"""

from __future__ import annotations

import pytest

from holdfast import Agent, LimitError, Limits, MemoryJournal, ToolContext, tool
from holdfast.core.events import Status, ToolFinished
from holdfast.core.machine import SessionMachine
from holdfast.core.messages import ToolCall
from holdfast.core.model_request import ModelRequest
from holdfast.journal.port import Journal
from holdfast.testing import CrashAt, FakeClock, ScriptedModel, SimulatedCrash

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


async def test_so_it_does_after_a_second_outage() -> None:
    bench = Bench(takes=10.0)
    await bench.crash(3, before=False)
    with pytest.raises(SimulatedCrash):
        await bench.agent(CrashAt(bench.journal, 2)).resume("s")
    bench.clock.advance(OUTAGE)
    assert (await bench.agent().resume("s")).output == "done"
    kept = [record.event for record in await bench.journal.read("s")]
    assert sum(getattr(event, "downtime", 0.0) for event in kept) == 2 * OUTAGE


@pytest.mark.parametrize("moment", range(2, EVENTS + 1))
async def test_what_was_worked_counts_on_both_sides_of_it(moment: int) -> None:
    bench = Bench(takes=LIMIT / 2 + 1)
    await bench.crash(min(moment, 4), before=False)
    (recovered,) = await bench.agent().recover()
    assert recovered.error is not None
    assert "time limit of 300 seconds" in str(recovered.error)


async def test_a_turn_whose_time_was_over_before_it_only_has_to_be_closed() -> None:
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


async def test_a_run_that_nobody_left_says_nothing_of_it() -> None:
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
