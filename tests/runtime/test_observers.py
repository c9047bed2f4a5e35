"""Observers see all of it, in order, each run apart, and cannot do any harm."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager
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
from holdfast.events import (
    FromAgent,
    Observation,
    ObservedAttempt,
    ObservedCall,
    ObservedTool,
    ObservedTurn,
)
from holdfast.resilience.pipeline import Done, Failed
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
    assert watcher.names()[:2] == ["TurnContinued", "ToolStarted"]
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


INSIDE: ContextVar[tuple[str, ...]] = ContextVar("inside", default=())


class Scopes(Watcher):
    """Enters a context manager around each part of a run, and follows the agents in tools."""

    reads_deltas = False
    follows_agents = True

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[ObservedCall] = []

    @contextmanager
    def around(self, call: ObservedCall) -> Iterator[None]:
        self.calls.append(call)
        if isinstance(call, ObservedTurn) and not call.is_continued:
            call.trace, call.own = "00-" + "a" * 32 + "-" + "b" * 16 + "-01", "mine"
        token = INSIDE.set((*INSIDE.get(), call.key))
        try:
            yield
        finally:
            INSIDE.reset(token)


@tool(effect="read")
def where() -> str:
    """Say in which scopes a thread works."""
    return " > ".join(INSIDE.get())


async def test_what_happens_inside_of_a_part_of_a_run_finds_the_context_of_an_observer() -> None:
    scopes = Scopes()
    agent = Agent(ScriptedModel(ToolCall("1", "where"), "done"), tools=[where], observers=[scopes])
    await agent.run("go", session="s")
    assert [(type(one), one.key) for one in scopes.calls] == [
        (ObservedTurn, "t1"),
        (ObservedAttempt, "t1.i0.model"),
        (ObservedTool, "t1.i0.tool.0"),
        (ObservedAttempt, "t1.i1.model"),
    ]
    (result,) = [one.item.result for one in scopes.seen if isinstance(one.item, ToolFinished)]
    assert result.text == "t1 > t1.i0.tool.0"
    assert INSIDE.get() == ()


async def test_an_attempt_says_how_it_ended() -> None:
    scopes = Scopes()
    info = ErrorInfo(category=ErrorCategory.SERVER_ERROR, safe="down")
    failing = ProviderError("down", info=info)
    agent = Agent(ScriptedModel(failing, "done"), observers=[scopes], clock=FakeClock())
    await agent.run("go")
    first, second = [one for one in scopes.calls if isinstance(one, ObservedAttempt)]
    assert (first.attempt, second.attempt) == (1, 2)
    assert isinstance(first.outcome, Failed)
    assert first.outcome.info.category is ErrorCategory.SERVER_ERROR
    assert isinstance(second.outcome, Done)


async def test_an_observer_follows_the_agents_in_tools_of_its_own() -> None:
    scopes = Scopes()
    child = Agent(ScriptedModel(ToolCall("1", "where"), "here"), name="scout", tools=[where])
    call = ToolCall("1", "scout", '{"task": "look"}')
    boss = Agent(
        ScriptedModel(call, "done"), name="boss", tools=[child.as_tool()], observers=[scopes]
    )
    await boss.run("go")
    turns = [one for one in scopes.calls if isinstance(one, ObservedTurn)]
    assert [(one.agent, one.is_nested) for one in turns] == [("boss", False), ("scout", True)]
    assert "FromAgent" not in scopes.names()
    results = [one.item.result.text for one in scopes.seen if isinstance(one.item, ToolFinished)]
    assert results == ["t1 > t1.i0.tool.0 > t1 > t1.i0.tool.0", "here"]


async def test_the_trace_of_a_turn_is_saved_and_its_next_drive_finds_it() -> None:
    journal, first, second = MemoryJournal(), Scopes(), Scopes()
    with pytest.raises(SimulatedCrash):
        await Agent(
            ScriptedModel(ToolCall("1", "look")),
            tools=[look],
            journal=CrashAt(journal, 2),
            observers=[first],
        ).run("go", session="s")
    agent = Agent(ScriptedModel("done"), tools=[look], journal=journal, observers=[second])
    await agent.resume("s")
    assert await agent.resume("s")  # it has ended: no drive, and no third scope
    drives = [one for one in second.calls if isinstance(one, ObservedTurn)]
    assert [(one.key, one.is_continued, one.drive) for one in drives] == [("t1", True, "mine")]
    assert drives[0].trace.startswith("00-aaaa")


async def test_the_trace_of_a_caller_is_passed_to_the_observer_and_a_malformed_one_is_not() -> None:
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    journal = MemoryJournal()
    agent = Agent(ScriptedModel("a", "b"), journal=journal)
    await agent.run("go", session="s", trace=trace)
    await agent.run("go", session="s", trace="00-zz")
    opened = [one.event for one in await journal.read("s") if isinstance(one.event, TurnOpened)]
    assert opened[0].options is not None
    assert opened[0].options.trace == trace
    assert opened[1].options is None
    with pytest.raises(ConfigurationError, match="trace"):
        await agent.run("go", trace=7)  # type: ignore[arg-type]


class Broken(Watcher):
    """Fails wherever it can."""

    def __init__(self, *, on_exit: bool) -> None:
        super().__init__()
        self.on_exit = on_exit

    @contextmanager
    def around(self, _call: ObservedCall) -> Iterator[None]:
        if not self.on_exit:
            raise RuntimeError("broken")
        yield
        raise RuntimeError("broken")


@pytest.mark.parametrize("on_exit", [False, True])
async def test_a_context_manager_that_fails_changes_nothing(
    on_exit: bool, caplog: pytest.LogCaptureFixture
) -> None:
    scopes = Scopes()
    agent = Agent(
        ScriptedModel(ToolCall("1", "where"), "done"),
        tools=[where],
        observers=[Broken(on_exit=on_exit), scopes],
    )
    assert (await agent.run("go")).output == "done"
    assert len(scopes.calls) == 4
    assert sum("around failed" in one.message for one in caplog.records) == 4


async def test_a_tool_that_fails_passes_through_the_context_managers() -> None:
    @tool(effect="write")
    def pay() -> str:
        """Pay."""
        raise RuntimeError("no money")

    scopes = Scopes()
    agent = Agent(ScriptedModel(ToolCall("1", "pay"), "done"), tools=[pay], observers=[scopes])
    await agent.run("go")
    (call,) = [one for one in scopes.calls if isinstance(one, ObservedTool)]
    assert call.failure is not None
    assert call.name == "pay"


def test_an_observer_whose_options_are_wrong_is_named() -> None:
    class Wrong(Watcher):
        around = 5

    class Odd(Watcher):
        follows_agents = "yes"

    for wrong, field in ((Wrong(), "around"), (Odd(), "follows_agents")):
        with pytest.raises(ConfigurationError, match=rf"observers\[0\].{field}"):
            Agent("openai:m", api_key="k", observers=[wrong])
