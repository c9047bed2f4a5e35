"""Toolsets in a turn: tools that functions choose for each model call, and what must be open."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from holdfast import Agent, MemoryJournal, ToolPermission, tool
from holdfast.core.errors import ConfigurationError, MiddlewareError
from holdfast.core.events import ModelReplied, ToolFinished
from holdfast.core.messages import ToolCall
from holdfast.middleware import Rule
from holdfast.testing import CrashAt, ScriptedModel, SimulatedCrash
from holdfast.tools import Tool, Toolset, ToolsetContext


@tool(effect="read")
def read(path: str) -> str:
    """Read a file."""
    return f"text of {path}"


@tool(effect="write")
def write(path: str) -> str:
    """Write a file."""
    return f"wrote {path}"


FILES = Toolset("files", [read, write])
READ, WRITE = ToolCall("r", "read", '{"path": "a"}'), ToolCall("w", "write", '{"path": "a"}')


def offered(model: ScriptedModel) -> list[list[str]]:
    return [[one.name for one in request.tools] for request in model.requests]


def results(journaled: Sequence[Any]) -> list[tuple[str, str]]:
    events = [one.event for one in journaled if isinstance(one.event, ToolFinished)]
    return [(one.result.text, one.error.code or "" if one.error else "") for one in events]


async def test_a_filter_sees_the_context_of_each_model_call() -> None:
    seen: list[tuple[Any, ...]] = []

    async def keep(context: ToolsetContext[str], one: Tool) -> bool:
        seen.append((context.iteration, len(context.messages), one.name))
        return one.effect == "read" or context.deps == "admin"

    model = ScriptedModel("a", READ, "b")
    agent = Agent(model, toolsets=[FILES.filtered(keep)], deps_type=str)
    await agent.run("Hi", deps="guest")
    await agent.run("Hi", deps="admin", metadata={"n": 1})
    assert offered(model) == [["read"], ["read", "write"], ["read", "write"]]
    assert seen[0::2] == [(0, 1, "read"), (0, 1, "read"), (1, 3, "read")]


async def test_a_tool_that_was_not_offered_is_not_run() -> None:
    model = ScriptedModel(WRITE, "done")
    agent = Agent(model, toolsets=[FILES.filtered(lambda _, one: one.effect == "read")])
    result = await agent.run("Hi")
    text = result.messages[2].parts[0].text  # type: ignore[union-attr]
    assert "Function 'write' was not run: there is no such function." in text


async def test_prepared_tools_may_be_others_or_have_other_words() -> None:
    def prepare(context: ToolsetContext, tools: list[Tool]) -> list[Tool]:
        if context.iteration:
            return []
        return [tools[0].replace(description=f"Read a file of {context.metadata['user']}.")]

    model = ScriptedModel(READ, "done")
    result = await Agent(model, toolsets=[FILES.prepared(prepare).prefixed("fs_")]).run(
        "Hi", metadata={"user": "ann"}
    )
    assert offered(model) == [["fs_read"], []]
    assert model.requests[0].tools[0].description == "Read a file of ann."
    assert result.output == "done"


async def test_tools_may_be_listed_by_a_function() -> None:
    async def list_tools(context: ToolsetContext) -> list[Any]:
        await asyncio.sleep(0)
        return [read, lambda: "no"] if context.iteration else [read]

    model = ScriptedModel(READ, "done")
    agent = Agent(model, toolsets=[Toolset("remote", list_tools).renamed({"read": "cat"})])
    with pytest.raises(ConfigurationError, match="a lambda has no name"):
        await agent.run("Hi")
    assert offered(model) == [["cat"]]


async def test_specifications_that_do_not_change_stay_the_same_objects() -> None:
    model = ScriptedModel(READ, READ, "done")
    await Agent(model, toolsets=[FILES.filtered(lambda _, __: True)]).run("Hi")
    first, *rest = [request.tools for request in model.requests]
    assert all(one is first for one in rest)


BAD: list[tuple[Any, type[Exception], str]] = [
    (FILES.filtered(lambda _, __: 1 / 0 > 1), MiddlewareError, "toolset.files raised ZeroDivision"),
    (
        FILES.filtered(lambda _, __: None),
        ConfigurationError,
        "the result of `filtered`: must be True",
    ),  # type: ignore[arg-type, return-value]
    (
        FILES.prepared(lambda _, __: None),
        ConfigurationError,
        "the result of `prepared`: must be a list",
    ),  # type: ignore[arg-type, return-value]
    (FILES.prepared(lambda _, tools: tools * 2), ConfigurationError, "two tools are named 'read'"),
    (Toolset("web", lambda _: [write]), ConfigurationError, "in the tools of the agent and in"),
]


@pytest.mark.parametrize(("toolset", "error", "message"), BAD)
async def test_a_function_that_fails_ends_the_turn_before_the_model_is_called(
    toolset: Toolset, error: type[Exception], message: str
) -> None:
    model = ScriptedModel("no")
    agent = Agent(model, tools=[] if toolset.name == "files" else [write], toolsets=[toolset])
    with pytest.raises(error) as caught:
        await agent.run("Hi")
    assert message in str(caught.value)
    assert model.requests == []


async def test_rules_are_checked_against_prepared_tools() -> None:
    agent = Agent(
        ScriptedModel("no"),
        toolsets=[FILES.filtered(lambda _, __: True)],
        middleware=[ToolPermission(deny=[Rule("write", {"file": "secret"})], default="allow")],
    )
    with pytest.raises(ConfigurationError, match="no parameter of this tool"):
        await agent.run("Hi")


async def test_a_run_may_have_toolsets_besides_those_of_the_agent() -> None:
    model = ScriptedModel(WRITE, "done", "done")
    agent = Agent(model, tools=[read])
    result = await agent.run("Hi", toolsets=[Toolset("more", [write]).filtered(lambda *_: True)])
    assert result.messages[2].parts[0].text == "wrote a"  # type: ignore[union-attr]
    await agent.run("Hi")
    assert offered(model) == [["read", "write"], ["read", "write"], ["read"]]


async def test_a_subagent_has_toolsets_too() -> None:
    inner = Agent(
        ScriptedModel(WRITE, "inner done"), name="inner", toolsets=[FILES.filtered(lambda *_: True)]
    )
    assert inner.as_tool().effect == "idempotent"
    model = ScriptedModel(ToolCall("a", "inner", '{"task": "go"}'), "done")
    result = await Agent(model, toolsets=[Toolset("team", [inner.as_tool()])]).run("Hi")
    assert result.messages[2].parts[0].text == "inner done"  # type: ignore[union-attr]


# --- after a crash


def only(*names: str) -> Toolset:
    return FILES.filtered(lambda _, one: one.name in names)


async def die_after_reply(calls: list[ToolCall], *, begun: bool) -> MemoryJournal:
    """Return the journal of a process that died when its tools had begun, or before."""
    journal = MemoryJournal()
    toolsets = [only("read", "write")]
    # A hook before the tools makes the marker a record of its own.
    with pytest.raises(SimulatedCrash):
        await Agent(
            ScriptedModel(calls),
            toolsets=toolsets,
            middleware=[] if begun else [ToolPermission(default="allow")],
            journal=CrashAt(journal, 3 if begun else 2),
        ).run("Hi", session="s")
    replied = next(one.event for one in await journal.read("s") if one.event.key == "t1.i0.model")
    assert isinstance(replied, ModelReplied)
    assert replied.offered == ("read", "write")
    return journal


async def test_a_call_whose_tool_is_gone_has_a_clear_outcome() -> None:
    journal = await die_after_reply([READ, WRITE], begun=True)
    agent = Agent(ScriptedModel("done"), toolsets=[only("read")], journal=journal)
    assert (await agent.resume("s")).output == "done"
    (gone, read_again) = sorted(results(await journal.read("s")))
    assert read_again == ("text of a", "")
    assert (gone[1], "write" in gone[0]) == ("in_doubt", True)


async def test_a_call_whose_tool_is_gone_and_that_had_not_begun_is_unknown() -> None:
    journal = await die_after_reply([WRITE], begun=False)
    agent = Agent(
        ScriptedModel("done"),
        toolsets=[only("read")],
        middleware=[ToolPermission(default="allow")],
        journal=journal,
    )
    assert (await agent.resume("s")).output == "done"
    ((text, code),) = results(await journal.read("s"))
    assert code in ("unknown_tool", "in_doubt")
    assert "write" in text


async def test_a_tool_that_was_not_offered_before_the_crash_is_not_run_after_it() -> None:
    journal = MemoryJournal()
    with pytest.raises(SimulatedCrash):
        await Agent(ScriptedModel(WRITE), toolsets=[only("read")], journal=CrashAt(journal, 3)).run(
            "Hi", session="s"
        )
    ran: list[str] = []

    @tool(name="write", effect="read")
    def new_write(path: str) -> str:
        """Write a file."""
        ran.append(path)
        return "wrote"

    later = Toolset("files", [read, new_write]).filtered(lambda *_: True)
    model = ScriptedModel("done")
    result = await Agent(model, toolsets=[later], journal=journal).resume("s")
    assert ran == []
    ((_, code),) = results(await journal.read("s"))
    assert code == "in_doubt"
    assert result.output == "done"
    # The next iteration has the tools of today.
    assert offered(model) == [["read", "write"]]


@pytest.mark.parametrize("append", range(1, 8))
@pytest.mark.parametrize("before", [False, True])
async def test_every_crash_point_ends_with_the_same_answer(append: int, before: bool) -> None:
    """The first iteration offers `read`, the second `write`."""

    def answer(request: Any) -> Any:
        said = sum(message.role == "assistant" for message in request.messages)
        return [READ, ToolCall("w", "write", '{"path": "b"}'), "done"][said]

    def keep(context: ToolsetContext[Any], one: Tool) -> bool:
        numbers.append((context.iteration, context.facts.iteration))
        return one.name == ["read", "write", ""][context.iteration]

    def make(journal: Any) -> Agent:
        steps = FILES.filtered(keep)
        return Agent(ScriptedModel(*[answer] * 9), toolsets=[steps], journal=journal)

    journal, numbers = MemoryJournal(), list[tuple[int, int]]()
    with contextlib.suppress(SimulatedCrash):
        await make(CrashAt(journal, append, before=before)).run("Hi", session="s")
    if not await journal.read("s"):
        return
    result = await make(journal).resume("s")
    assert result.output == "done"
    assert [one for one in numbers if one[0] != one[1]] == []
    found = [text for text, _ in results(await journal.read("s"))]
    assert found[0] == "text of a"
    assert found[1] == "wrote b" or "unknown" in found[1] or "may have" in found[1]


# --- what must be open


class Server:
    """Counts how often it was opened and closed, and in which tasks."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.tasks: list[object] = []

    @contextlib.asynccontextmanager
    async def open(self) -> AsyncIterator[str]:
        self.events.append("open")
        self.tasks.append(asyncio.current_task())
        try:
            yield "connection"
        finally:
            self.events.append("close")
            self.tasks.append(asyncio.current_task())


def serving(server: Server) -> Toolset:
    async def list_tools(context: ToolsetContext) -> list[Any]:
        assert context.resource == "connection"
        server.events.append("list")
        return [read]

    return Toolset("server", list_tools, lifespan=server.open)


async def test_a_lifespan_is_open_for_the_runs_that_need_it() -> None:
    server = Server()
    agent = Agent(ScriptedModel(READ, "a", "b"), toolsets=[serving(server).prefixed("x_")])
    assert server.events == []
    await agent.run("Hi")
    assert server.events == ["open", "list", "list", "close"]
    assert server.tasks[0] is server.tasks[1]
    await agent.run("Hi")
    assert server.events[4:] == ["open", "list", "close"]


async def test_runs_at_once_share_what_is_open() -> None:
    server = Server()
    agent = Agent(ScriptedModel(*["x"] * 10), toolsets=[serving(server)])
    await asyncio.gather(*(agent.run("Hi") for _ in range(10)))
    assert (server.events.count("open"), server.events.count("close")) == (1, 1)


async def test_inside_of_the_agent_it_stays_open() -> None:
    server = Server()
    agent = Agent(ScriptedModel("a", "b"), toolsets=[serving(server)])
    async with agent as same:
        assert same is agent
        await agent.run("Hi")
        await agent.run("Hi")
        assert server.events == ["open", "list", "list"]
    assert server.events == ["open", "list", "list", "close"]


def test_each_event_loop_has_its_own() -> None:
    server = Server()
    agent = Agent(ScriptedModel("a", "b"), toolsets=[serving(server)])
    agent.run_sync("Hi")
    asyncio.run(agent.run("Hi"))
    assert server.events == ["open", "list", "close"] * 2


async def test_a_required_lifespan_that_fails_leaves_nothing_saved_and_may_work_later() -> None:
    works = False
    closed: list[bool] = []

    @contextlib.asynccontextmanager
    async def lifespan() -> AsyncIterator[None]:
        if not works:
            raise ConnectionError("sk-secret-12345678901234567890")
        yield
        closed.append(True)

    journal = MemoryJournal()
    toolset = Toolset("server", [read], lifespan=lifespan, required=True)
    agent = Agent(ScriptedModel("done"), toolsets=[toolset], journal=journal)
    with pytest.raises(MiddlewareError) as caught:
        await agent.run("Hi", session="s")
    assert str(caught.value) == "toolset.server.lifespan raised ConnectionError"
    assert list(await journal.read("s")) == []
    works = True
    assert (await agent.run("Hi", session="s")).output == "done"
    assert closed == [True]


async def test_a_cancelled_run_closes_what_it_opened() -> None:
    server, waits = Server(), asyncio.Event()

    async def wait(_request: Any) -> str:
        waits.set()
        await asyncio.sleep(60)
        return "no"

    agent = Agent(ScriptedModel(wait), toolsets=[serving(server)])
    task = asyncio.create_task(agent.run("Hi"))
    await waits.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert server.events == ["open", "list", "close"]


async def test_a_run_that_is_cancelled_while_it_opens_leaves_nothing_open() -> None:
    entered, cancelled = asyncio.Event(), asyncio.Event()

    @contextlib.asynccontextmanager
    async def lifespan() -> AsyncIterator[None]:
        entered.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled.set()
            raise
        yield

    agent = Agent(ScriptedModel("no"), toolsets=[Toolset("slow", [read], lifespan=lifespan)])
    task = asyncio.create_task(agent.run("Hi"))
    await entered.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.wait_for(cancelled.wait(), 60)


async def test_a_lifespan_that_fails_to_close_does_not_fail_the_run(
    caplog: pytest.LogCaptureFixture,
) -> None:
    @contextlib.asynccontextmanager
    async def lifespan() -> AsyncIterator[None]:
        yield
        raise OSError("gone")

    agent = Agent(ScriptedModel("done"), toolsets=[Toolset("server", [read], lifespan=lifespan)])
    assert (await agent.run("Hi")).output == "done"
    assert "the lifespan of toolset server failed to close: OSError: gone" in caplog.text


async def test_a_resumed_turn_opens_its_lifespans() -> None:
    journal, server = MemoryJournal(), Server()
    with pytest.raises(SimulatedCrash):
        await Agent(
            ScriptedModel(READ), toolsets=[serving(server)], journal=CrashAt(journal, 3)
        ).run("Hi", session="s")
    server.events.clear()
    agent = Agent(ScriptedModel("done"), toolsets=[serving(server)], journal=journal)
    assert (await agent.resume("s")).output == "done"
    assert server.events == ["open", "list", "list", "close"]
