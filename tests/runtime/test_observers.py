"""Observers see all of it, in order, each run apart, and cannot do any harm."""

from __future__ import annotations

import asyncio
import logging
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import pytest

from holdfast import (
    Agent,
    MemoryJournal,
    RetryOptions,
    RetryScheduled,
    SqliteJournal,
    ToolStarted,
    tool,
)
from holdfast.core.deltas import TextDelta
from holdfast.core.errors import ConfigurationError, ErrorCategory, ErrorInfo, ProviderError
from holdfast.core.events import ModelReplied, ToolFinished, TurnClosed, TurnOpened
from holdfast.core.messages import ToolCall
from holdfast.core.model_request import ModelRequest
from holdfast.events import FromAgent, Observation
from holdfast.testing import CrashAt, FakeClock, ScriptedModel, SimulatedCrash


@tool(effect="read")
async def look(n: int = 0) -> str:
    """Look."""
    await asyncio.sleep(0)
    return f"saw {n}"


class Watcher:
    """Keeps what it is shown."""

    def __init__(self) -> None:
        self.seen: list[Observation] = []

    def on_event(self, seen: Observation) -> None:
        self.seen.append(seen)

    def names(self) -> list[str]:
        return [type(one.item).__name__ for one in self.seen]


async def test_it_sees_the_events_and_notices_of_a_run_that_nobody_streams() -> None:
    watcher = Watcher()
    info = ErrorInfo(category=ErrorCategory.SERVER_ERROR, safe="down")
    model = ScriptedModel(ProviderError("down", info=info), ToolCall("1", "look"), "done")
    agent = Agent(model, name="scout", tools=[look], observers=[watcher], clock=FakeClock())
    await agent.run("go", session="s")
    assert [name for name in watcher.names() if name not in ("TextDelta", "AttemptStarted")] == [
        "TurnOpened",
        "RetryScheduled",
        "ModelReplied",
        "ToolsBegun",
        "ToolStarted",
        "ToolFinished",
        "ModelReplied",
        "TurnClosed",
    ]
    assert {(one.agent, one.run_id) for one in watcher.seen} == {("scout", "s")}
    assert [request.stream for request in model.requests] == [False] * 3
    assert any(isinstance(one.item, RetryScheduled) for one in watcher.seen)


async def test_it_sees_what_a_stream_shows_in_the_same_order() -> None:
    watcher = Watcher()
    model = ScriptedModel(ToolCall("1", "look"), "some words here")
    agent = Agent(model, tools=[look], observers=[watcher])
    async with agent.stream("go") as run:
        shown = [item async for item in run]
    assert [one.item for one in watcher.seen] == shown
    assert [request.stream for request in model.requests] == [True, True]
    assert sum(isinstance(one.item, TextDelta) for one in watcher.seen) == 3


async def test_what_it_raises_is_logged_and_harms_neither_the_run_nor_another(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def broken(seen: Observation) -> None:
        raise KeyError(type(seen.item).__name__)

    watcher = Watcher()
    agent = Agent(
        ScriptedModel(ToolCall("1", "look"), "done"), tools=[look], observers=[broken, watcher]
    )
    with caplog.at_level(logging.WARNING, logger="holdfast"):
        assert (await agent.run("go")).output == "done"
    assert "TurnClosed" in watcher.names()
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == len(watcher.seen)
    assert said[0].startswith("the observer ")
    assert said[0].endswith("broken failed on TurnOpened")
    assert all(record.exc_info for record in caplog.records)


async def test_a_hundred_runs_at_once_are_seen_each_in_its_order() -> None:
    watcher = Watcher()

    def script(request: ModelRequest) -> ToolCall | str:
        wanted = int(request.messages[0].text)
        done = sum(message.role == "tool" for message in request.messages)
        return ToolCall("1", "look", f'{{"n": {done}}}') if done < wanted else f"done {wanted}"

    agent = Agent(ScriptedModel(*[script] * 1000), tools=[look], observers=[watcher])
    results = await asyncio.gather(
        *(agent.run(str(number % 7), session=f"s{number}") for number in range(100))
    )
    assert len(results) == 100
    for number in range(100):
        mine = [one.item for one in watcher.seen if one.run_id == f"s{number}"]
        assert isinstance(mine[0], TurnOpened)
        assert isinstance(mine[-1], TurnClosed)
        told = [item.result.text for item in mine if isinstance(item, ToolFinished)]
        assert told == [f"saw {n}" for n in range(number % 7)]
        starts = [item for item in mine if isinstance(item, ToolStarted)]
        assert len(starts) == number % 7


async def test_an_agent_in_a_tool_is_seen_by_its_own_and_by_its_callers_observers() -> None:
    outer, inner = Watcher(), Watcher()
    model = ScriptedModel("found")
    child = Agent(model, name="scout", observers=[inner]).as_tool()
    call = ToolCall("1", "scout", '{"task": "look"}')
    boss = Agent(ScriptedModel(call, "done"), name="boss", tools=[child], observers=[outer])
    await boss.run("go")
    through = [one.item.item for one in outer.seen if isinstance(one.item, FromAgent)]
    assert through == [one.item for one in inner.seen]
    assert model.requests[0].stream is False


async def test_a_resumed_run_is_seen_from_where_it_goes_on() -> None:
    journal, watcher = MemoryJournal(), Watcher()
    with pytest.raises(SimulatedCrash):
        await Agent(
            ScriptedModel(ToolCall("1", "look")), tools=[look], journal=CrashAt(journal, 2)
        ).run("go", session="s")
    agent = Agent(ScriptedModel("done"), tools=[look], journal=journal, observers=[watcher])
    await agent.resume("s")
    assert watcher.names()[0] == "ToolStarted"
    assert watcher.names()[-1] == "TurnClosed"


async def test_it_sees_how_a_turn_failed() -> None:
    watcher = Watcher()
    agent = Agent(
        ScriptedModel(ProviderError("down")),
        observers=[watcher],
        retry=RetryOptions(max_retries=0),
    )
    with pytest.raises(ProviderError):
        await agent.run("go")
    assert watcher.names()[-2:] == ["ModelFailed", "TurnClosed"]


async def slow(_seen: Observation) -> None:
    """No observer: it is async."""


class SlowObject:
    async def on_event(self, _seen: Observation) -> None:
        """No observer either."""


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ("print", r"observers: must be a list"),
        (print, r"observers: must be a list"),
        ([Watcher], r"observers\[0\]: is the class Watcher"),
        ([print, 3], r"observers\[1\]: must be a function or an object with on_event, got int"),
        ([slow], r"observers\[0\]: is async"),
        ([SlowObject()], r"observers\[0\]: is async"),
    ],
)
def test_what_is_no_observer_is_named(given: Any, problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        Agent(ScriptedModel(), observers=given)


class Exit(BaseException):
    """As pytest's own outcomes are."""


def observer(seen: Observation) -> None:
    if isinstance(seen.item, ModelReplied) and seen.run_id == "s":
        raise Exit


async def test_an_observer_that_raises_a_base_exception_ends_no_other_turn(tmp_path: Path) -> None:
    model = ScriptedModel(*["Done."] * 9)
    with SqliteJournal(tmp_path / "talk.db") as journal:
        agent = Agent(model, journal=journal, observers=[observer])
        runs = [agent.run("Go.", session=name) for name in "rstuvwxyz"]
        async with asyncio.timeout(60):
            outcomes = await asyncio.gather(*runs, return_exceptions=True)
    texts = [outcome.text for outcome in outcomes if not isinstance(outcome, BaseException)]
    assert texts == ["Done."] * 8
    assert isinstance(outcomes[1], Exit)


request = ContextVar("request", default="none")


@tool(effect="write")
async def pay() -> str:
    """Pay."""
    return "paid"


async def test_each_item_is_shown_in_the_context_of_whoever_runs_the_agent(tmp_path: Path) -> None:
    seen: list[tuple[str, str]] = []

    def observer(one: Observation) -> None:
        seen.append((type(one.item).__name__, request.get()))

    request.set("7")
    with SqliteJournal(tmp_path / "talk.db") as journal:
        model = ScriptedModel(ToolCall("c", "pay", "{}"), "Done.")
        agent = Agent(model, tools=[pay], journal=journal, observers=[observer])
        await agent.run("Pay.")
    assert ("ToolFinished", "7") in seen
    assert [name for name, of in seen if of != "7"] == []
