"""A process that dies after, or before, any append: the next one goes on where it was."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.free_ports import free_port
from tests.tool_results import texts_of_results

from adh.transcript.outcome import OutcomeKind, describe_failure
from holdfast import Agent, SqliteJournal, assistant, tool, user
from holdfast.core.errors import (
    ConfigurationError,
    RefusedError,
    ReplayMismatchError,
    TransportError,
    exception_for,
)
from holdfast.core.events import ModelReplied
from holdfast.core.messages import Message, Reply, ToolCall
from holdfast.core.model_request import ModelRequest
from holdfast.journal.memory import MemoryJournal
from holdfast.testing import CrashAt, FakeClock, ScriptedModel, SimulatedCrash

EVENTS = 8
"""Of the run below: opened, replied, begun, three tools, replied, closed."""


class World:
    """What tools did to the outside, across all processes."""

    def __init__(self) -> None:
        self.paid: list[int] = []
        self.looked = 0
        self.asked = 0

    def tools(self) -> list[Callable[..., object]]:
        @tool(effect="read")
        def look(city: str) -> str:
            """Look."""
            self.looked += 1
            return f"sun in {city}"

        @tool(effect="write")
        def pay(amount: int) -> str:
            """Pay."""
            self.paid.append(amount)
            return "paid"

        return [look, pay]

    def answer(self, request: ModelRequest) -> Reply | str:
        self.asked += 1
        if request.messages[-1].role == "user":
            return Reply(
                (
                    ToolCall("a", "look", '{"city": "Porto"}'),
                    ToolCall("b", "pay", '{"amount": 5}'),
                    ToolCall("c", "look", '{"city": "Faro"}'),
                )
            )
        return "done"

    def agent(self, journal: object) -> Agent[str]:
        return Agent(ScriptedModel(*[self.answer] * 9), tools=self.tools(), journal=journal)


@pytest.mark.parametrize("before", [False, True], ids=["after", "before"])
@pytest.mark.parametrize("moment", range(1, EVENTS + 1))
async def test_every_crash_point_ends_with_a_true_history(moment: int, before: bool) -> None:
    world, journal = World(), MemoryJournal()
    with pytest.raises(SimulatedCrash):
        await world.agent(CrashAt(journal, moment, before=before)).run("go", session="s")
    if not await journal.read("s"):
        result = await world.agent(journal).run("go", session="s")
    else:
        result = await world.agent(journal).resume("s")
    assert result.output == "done"
    texts = texts_of_results(result.messages)
    assert [texts[0], texts[2]] == ["sun in Porto", "sun in Faro"]
    assert world.paid in ([5], [])
    if texts[1] == "paid":
        assert world.paid == [5]
    else:
        assert "Whether it took effect is unknown" in texts[1]
    replies = [r for r in await journal.read("s") if isinstance(r.event, ModelReplied)]
    assert len(replies) == 2
    assert len({record.event.key for record in await journal.read("s")}) == EVENTS


async def test_what_is_in_the_journal_is_not_paid_for_twice() -> None:
    world, journal = World(), MemoryJournal()
    with pytest.raises(SimulatedCrash):
        await world.agent(CrashAt(journal, 6)).run("go", session="s")
    assert world.asked == 1
    await world.agent(journal).resume("s")
    assert (world.asked, world.looked, world.paid) == (2, 2, [5])


async def test_a_finished_run_gives_its_result_again_and_asks_nobody() -> None:
    world, journal = World(), MemoryJournal()
    first = await world.agent(journal).run("go", session="s")
    asked = world.asked
    again = await world.agent(journal).resume("s")
    assert (again.output, again.messages) == (first.output, first.messages)
    assert world.asked == asked


async def test_an_unknown_run_and_a_missing_journal_are_named() -> None:
    with pytest.raises(ConfigurationError, match="knows no run 'nobody'"):
        await World().agent(MemoryJournal()).resume("nobody")
    with pytest.raises(ConfigurationError, match="journal"):
        await Agent(ScriptedModel()).resume("s")


async def test_a_journal_whose_plan_differs_is_refused_loudly() -> None:
    world, journal = World(), MemoryJournal()
    await world.agent(journal).run("go", session="s")
    kept = journal._runs["s"]
    event, effect = kept["t1.i0.tool.1"]
    other = ToolCall("b", "pay", '{"amount": 500}')
    kept["t1.i0.tool.1"] = (event, type(effect)(effect.key, other, 1))
    with pytest.raises(ReplayMismatchError, match=r"t1\.i0\.tool\.1"):
        await world.agent(journal).resume("s")


# The history that a run was given.

HISTORY = [user("My name is Ada."), assistant("Hello, Ada.")]


@pytest.mark.parametrize("append", [1, 2, 3])
async def test_a_run_with_a_history_is_resumed_with_its_history(
    tmp_path: Path, append: int
) -> None:
    with SqliteJournal(tmp_path / "runs.db") as journal:
        first = ScriptedModel("You are Ada.")
        with pytest.raises(SimulatedCrash):
            await Agent(first, journal=CrashAt(journal, append)).run("Who am I?", history=HISTORY)
        [entry] = await journal.runs()
        second = ScriptedModel("You are Ada.")
        agent = Agent(second, journal=journal)
        asked: list[Message] = [*HISTORY, user("Who am I?")]
        if append < 3:
            result = await agent.resume(entry.run)
            assert list(result.history) == [*asked, assistant("You are Ada.")]
        seen = [list(request.messages)[:3] for request in (*first.requests, *second.requests)]
        assert seen == [asked]


async def test_a_run_in_memory_keeps_no_second_copy_of_its_history() -> None:
    seen = []
    agent = Agent(ScriptedModel("Hi"))
    async with agent.stream("Hello", history=HISTORY) as run:
        seen = [item async for item in run]
    assert seen[0].history == ()  # type: ignore[union-attr]  # the first event opens the turn


async def test_a_saved_refused_connection_is_not_a_refusal_of_the_model(tmp_path: Path) -> None:
    with SqliteJournal(tmp_path / "talk.db") as journal:
        address = f"http://127.0.0.1:{free_port()}/v1"
        agent = Agent("openai:x", base_url=address, api_key="k", journal=journal, clock=FakeClock())
        with pytest.raises(TransportError) as caught:
            await agent.run("Hi.", session="s")
    saved = caught.value.info
    assert saved.code == "connection_refused"
    again = exception_for(saved)
    assert isinstance(again, TransportError)
    assert not isinstance(again, RefusedError)
    outcome = describe_failure(saved)
    assert outcome.kind is OutcomeKind.FAILED
    assert "declined" not in outcome.text
