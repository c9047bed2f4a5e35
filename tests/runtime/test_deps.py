"""Typed dependencies: a run with wrong or missing `deps` is refused before it begins."""

from __future__ import annotations

from typing import Protocol, TypedDict

import pytest

from holdfast import Agent, MemoryJournal, ToolContext, tool
from holdfast.core.errors import ConfigurationError
from holdfast.core.messages import ToolCall
from holdfast.core.turn_options import InterruptedRun
from holdfast.testing import CrashAt, ScriptedModel, SimulatedCrash


class Db:
    name = "db"


class SqlDb(Db):
    name = "sql"


class HasName(Protocol):
    name: str


class Row(TypedDict):
    name: str


@tool(effect="read")
async def look(context: ToolContext[Db]) -> str:
    """Look."""
    return context.deps.name


async def test_a_tool_reads_the_deps_of_its_run() -> None:
    model = ScriptedModel(*[ToolCall("a", "look", "{}"), "done"] * 2)
    agent = Agent(model, deps_type=Db, tools=[look])
    assert (await agent.run("Hi", deps=Db())).messages[2].parts[0].text == "db"  # type: ignore[union-attr]
    assert (await agent.run("Hi", deps=SqlDb())).messages[2].parts[0].text == "sql"  # type: ignore[union-attr]


WRONG = [
    (None, "deps: is missing; the agent has deps_type=Db. Pass deps=, a Db"),
    ("db", "deps: must be Db, got str"),
]


@pytest.mark.parametrize(("deps", "message"), WRONG)
async def test_wrong_deps_are_refused_before_anything_is_saved(deps: object, message: str) -> None:
    journal, model = MemoryJournal(), ScriptedModel("no")
    agent = Agent(model, deps_type=Db, journal=journal)
    for start in (agent.run, agent.run_sync, agent.stream):
        with pytest.raises(ConfigurationError) as caught:
            await start("Hi", session="s", deps=deps)  # type: ignore[misc, operator]
        assert str(caught.value) == message
    assert await journal.read("s") == []
    assert model.requests == []


@pytest.mark.parametrize(("deps", "message"), WRONG)
async def test_a_turn_that_continues_needs_its_deps_too(deps: object, message: str) -> None:
    journal = MemoryJournal()
    with pytest.raises(SimulatedCrash):
        await Agent(ScriptedModel("no"), deps_type=Db, journal=CrashAt(journal, 1)).run(
            "Hi", session="s", deps=Db()
        )
    agent = Agent(ScriptedModel("done"), deps_type=Db, journal=journal)
    for going_on in (agent.resume("s", deps=deps), agent.recover(deps=deps)):  # type: ignore[arg-type]
        with pytest.raises(ConfigurationError) as caught:
            await going_on
        assert str(caught.value) == message
    with pytest.raises(ConfigurationError):
        async with agent.resume_stream("s", deps=deps) as run:  # type: ignore[arg-type]
            await run.wait()
    assert (await agent.resume("s", deps=Db())).output == "done"


@pytest.mark.parametrize(
    ("kind", "deps"),
    [
        (dict[str, int], {"a": 1}),
        (HasName, Db()),
        (Row, {"name": "x"}),
        (object, 5),
        (type(None), None),
        (None, "any object"),
    ],
)
async def test_any_kind_of_type_can_be_declared(kind: type[object], deps: object) -> None:
    agent = Agent(ScriptedModel("ok"), deps_type=kind)
    assert (await agent.run("Hi", deps=deps)).output == "ok"


async def test_an_agent_that_is_a_tool_refuses_the_deps_of_another_kind_of_caller() -> None:
    inner = ScriptedModel("no")
    helper = Agent(inner, name="helper", deps_type=Db)
    outer = ScriptedModel(ToolCall("a", "helper", '{"task": "Help"}'), "ok")
    result = await Agent(outer, tools=[helper.as_tool()]).run("Hi")
    assert result.messages[2].parts[0].is_error  # type: ignore[union-attr]
    assert inner.requests == []


def test_what_is_no_type_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"^deps_type: must be type or None, got Db"):
        Agent("ollama:qwen3", deps_type=Db())  # type: ignore[arg-type]


async def test_an_agent_has_deps_for_runs_that_are_passed_none() -> None:
    model = ScriptedModel(*[ToolCall("a", "look", "{}"), "done"] * 2)
    agent = Agent(model, deps_type=Db, deps=Db(), tools=[look])
    assert (await agent.run("Hi")).messages[2].parts[0].text == "db"  # type: ignore[union-attr]
    assert (await agent.run("Hi", deps=SqlDb())).messages[2].parts[0].text == "sql"  # type: ignore[union-attr]


async def test_the_deps_of_an_agent_may_be_a_function_of_the_run() -> None:
    seen: list[tuple[str, object]] = []

    async def open_db(run: InterruptedRun) -> Db:
        seen.append((run.run_id, run.metadata.get("db")))
        return SqlDb()

    model = ScriptedModel(ToolCall("a", "look", "{}"), "done")
    agent = Agent(model, deps_type=Db, deps=open_db, tools=[look], journal=MemoryJournal())
    result = await agent.run("Hi", session="ada", metadata={"db": "main"})
    assert result.messages[2].parts[0].text == "sql"  # type: ignore[union-attr]
    assert seen == [("ada", "main")]


async def test_a_turn_that_continues_gets_the_deps_of_its_agent() -> None:
    journal = MemoryJournal()
    model = ScriptedModel(ToolCall("a", "look", "{}"), "done")
    agent = Agent(model, deps_type=Db, deps=Db(), tools=[look], journal=CrashAt(journal, 3))
    with pytest.raises(SimulatedCrash):
        await agent.run("Hi", session="ada")
    after = Agent(model, deps_type=Db, deps=SqlDb(), tools=[look], journal=journal)
    assert (await after.resume("ada")).messages[2].parts[0].text == "sql"  # type: ignore[union-attr]


def test_wrong_deps_of_an_agent_are_refused_when_it_is_made() -> None:
    with pytest.raises(ConfigurationError, match="deps: must be Db, got str"):
        Agent(ScriptedModel("no"), deps_type=Db, deps="db")  # type: ignore[arg-type]
