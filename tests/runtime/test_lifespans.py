"""Lifespans that die, cannot be opened, or are opened anew while turns use them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from holdfast import Agent, ToolError, tool
from holdfast.core.errors import ConfigurationError, MiddlewareError
from holdfast.core.messages import ToolCall
from holdfast.server import Service
from holdfast.testing import ScriptedModel
from holdfast.tools import Toolset, ToolsetContext

READ = ToolCall("r", "read", '{"path": "a"}')


class Connection:
    """One connection to a server, which may have died."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.is_dead = False
        self.is_closed = False


class Server:
    """Opens connections, and can refuse to, or break them."""

    def __init__(self) -> None:
        self.connections: list[Connection] = []
        self.is_down = False
        self.tries = 0
        self.broken = asyncio.Event()

    @contextlib.asynccontextmanager
    async def open(self) -> AsyncIterator[Connection]:
        self.tries += 1
        if self.is_down:
            raise ConnectionRefusedError("sk-secret-12345678901234567890")
        connection = Connection(len(self.connections) + 1)
        self.connections.append(connection)
        try:
            yield connection
        finally:
            connection.is_closed = True

    def kill(self) -> None:
        """The process of the server dies; the lifespan does not see it."""
        self.connections[-1].is_dead = True


def serving(server: Server, *, required: bool = False) -> Toolset:
    """The recipe: the tools of a server, whose list fails when the connection is dead."""

    async def list_tools(context: ToolsetContext) -> list[Any]:
        connection = context.resource
        assert isinstance(connection, Connection)
        if connection.is_dead:
            raise ConnectionResetError("the server died")

        @tool(effect="read")
        def read(path: str) -> str:
            """Read a file."""
            if connection.is_dead:
                context.reopen()
                raise ToolError("the server died")  # this attempt cannot get another connection
            return f"{path} by {connection.number}"

        return [read]

    return Toolset("server", list_tools, lifespan=server.open, required=required)


def killing(server: Server, reply: ToolCall | str) -> Callable[[Any], Awaitable[ToolCall | str]]:
    async def reply_after_death(_request: Any) -> ToolCall | str:
        server.kill()
        return reply

    return reply_after_death


def offered(model: ScriptedModel) -> list[list[str]]:
    return [[one.name for one in request.tools] for request in model.requests]


async def test_a_server_that_dies_in_a_turn_has_its_tools_in_the_next_iteration_and_turn() -> None:
    server = Server()
    model = ScriptedModel(killing(server, READ), READ, "a", READ, "b")
    agent = Agent(model, toolsets=[serving(server)])
    async with agent:
        first = await agent.run("Hi")
        second = await agent.run("Hi")
        # The dead one is left as soon as no turn holds its tools.
        assert [one.is_closed for one in server.connections] == [True, False]
    assert first.messages[2].parts[0].is_error  # type: ignore[union-attr]
    assert first.messages[4].parts[0].text == "a by 2"  # type: ignore[union-attr]
    assert second.messages[2].parts[0].text == "a by 2"  # type: ignore[union-attr]
    assert all(one.is_closed for one in server.connections)


async def test_a_list_that_fails_is_made_again_on_a_new_connection(
    caplog: pytest.LogCaptureFixture,
) -> None:
    server = Server()
    model = ScriptedModel("a", READ, "b")
    agent = Agent(model, toolsets=[serving(server)])
    async with agent:
        await agent.run("Hi")
        server.kill()
        result = await agent.run("Hi")
    assert result.messages[2].parts[0].text == "a by 2"  # type: ignore[union-attr]
    assert (
        "could not be listed, so its lifespan is opened anew: ConnectionResetError" in caplog.text
    )


async def test_a_list_that_fails_twice_ends_the_turn_and_not_the_next_one() -> None:
    server, is_broken = Server(), True

    def list_tools(_context: ToolsetContext) -> list[Any]:
        if is_broken:
            raise KeyError("x")
        return []

    agent = Agent(
        ScriptedModel("a"), toolsets=[Toolset("server", list_tools, lifespan=server.open)]
    )
    async with agent:
        with pytest.raises(MiddlewareError, match=r"toolset\.server raised KeyError"):
            await agent.run("Hi")
        is_broken = False
        assert (await agent.run("Hi")).output == "a"
    assert all(one.is_closed for one in server.connections)


async def test_a_turn_that_holds_a_dead_connection_does_not_lose_it_by_another_turn() -> None:
    """Whoever finds it dead may be wrong: a call in progress of another turn keeps its connection."""
    server, inside, proceed = Server(), asyncio.Event(), asyncio.Event()

    async def list_tools(context: ToolsetContext[str]) -> list[Any]:
        connection = context.resource
        assert isinstance(connection, Connection)

        @tool(effect="read")
        async def read(path: str) -> str:
            """Read a file."""
            if context.deps == "reopens":
                context.reopen()
                context.reopen()
            else:
                inside.set()
                await proceed.wait()
            return f"{connection.number} {connection.is_closed}"

        return [read]

    toolset = Toolset("server", list_tools, lifespan=server.open)
    model = ScriptedModel(READ, READ, "b", "a")
    agent = Agent(model, toolsets=[toolset], deps_type=str)
    async with agent:
        slow = asyncio.create_task(agent.run("Hi", deps="waits"))
        await inside.wait()
        await agent.run("Hi", deps="reopens")
        assert [one.is_closed for one in server.connections] == [False, False]
        proceed.set()
        result = await slow
        assert result.messages[2].parts[0].text == "1 False"  # type: ignore[union-attr]
        assert [one.is_closed for one in server.connections] == [True, False]


async def test_a_late_word_about_an_old_connection_does_not_close_the_new_one() -> None:
    server = Server()
    contexts: list[ToolsetContext] = []

    def list_tools(context: ToolsetContext) -> list[Any]:
        contexts.append(context)
        return []

    agent = Agent(
        ScriptedModel(*"abc"), toolsets=[Toolset("server", list_tools, lifespan=server.open)]
    )
    async with agent:
        await agent.run("Hi")
        contexts[0].reopen()
        await agent.run("Hi")
        contexts[0].reopen()
        await agent.run("Hi")
    assert len(server.connections) == 2
    contexts[-1].reopen()  # after the end of the block: without effect


async def test_a_lifespan_that_ends_by_itself_is_opened_anew(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """As of a client whose own block raises when its server dies."""
    breaks, opened = asyncio.Event(), 0

    @contextlib.asynccontextmanager
    async def connect() -> AsyncIterator[int]:
        nonlocal opened
        opened += 1
        async with asyncio.TaskGroup() as group:

            async def watch() -> None:
                await breaks.wait()
                breaks.clear()
                raise ConnectionResetError("gone")

            watching = group.create_task(watch())
            yield opened
            watching.cancel()

    seen: list[object] = []
    toolset = Toolset(
        "server", lambda context: seen.append(context.resource) or [], lifespan=connect
    )  # type: ignore[func-returns-value]
    agent = Agent(ScriptedModel("a", "b"), toolsets=[toolset])
    async with agent:
        await agent.run("Hi")
        breaks.set()
        while "ended by itself" not in caplog.text:
            await asyncio.sleep(0.001)
        await agent.run("Hi")
    assert seen == [1, 2]
    assert "the lifespan of toolset server ended by itself" in caplog.text


async def test_a_lifespan_that_cancels_itself_does_not_cancel_the_turn() -> None:
    @contextlib.asynccontextmanager
    async def connect() -> AsyncIterator[None]:
        raise asyncio.CancelledError
        yield

    agent = Agent(ScriptedModel("a"), toolsets=[Toolset("server", [], lifespan=connect)])
    assert (await agent.run("Hi")).output == "a"


async def test_tools_whose_lifespan_cannot_be_opened_are_left_out_and_come_back(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.runtime.lifespans._FIRST_WAIT", 1_000.0)
    monkeypatch.setattr("holdfast.runtime.lifespans._LONGEST_WAIT", 1_000.0)
    server = Server()
    server.is_down = True

    @tool(effect="read")
    def read(path: str) -> str:
        """Read a file."""
        return path

    # Fixed tools need their lifespan too; a prefix and an outer toolset keep that.
    fixed = Toolset("all", [Toolset("fixed", [read], lifespan=server.open).prefixed("f_")])
    model = ScriptedModel("a", "b", "c")
    agent = Agent(model, toolsets=[fixed, serving(server)])
    async with agent:
        await agent.run("Hi")
        assert server.tries == 1, "both have one lifespan, which has one wait"
        await agent.run("Hi")
        assert server.tries == 1, "it waits before the next try"
    server.is_down = False
    async with agent:
        await agent.run("Hi")
    assert offered(model)[0] == []
    assert offered(model)[-1] == ["f_read", "read"]
    assert "toolset server cannot be opened, so its tools are left out: Connection" in caplog.text
    assert "sk-secret" not in caplog.text


async def test_the_next_model_call_tries_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.runtime.lifespans._FIRST_WAIT", 0.0)
    server = Server()
    server.is_down = True

    def come_back(_request: Any) -> ToolCall:
        server.is_down = False
        return ToolCall("x", "other", "{}")

    @tool(effect="read")
    def other() -> str:
        """Do another thing."""
        return ""

    model = ScriptedModel(come_back, "a")
    await Agent(model, tools=[other], toolsets=[serving(server)]).run("Hi")
    assert offered(model) == [["other"], ["other", "read"]]


async def test_one_that_is_down_does_not_delay_the_others() -> None:
    """All are opened at the same time."""
    opening: set[str] = set()
    all_open = asyncio.Event()

    def make(name: str) -> Toolset:
        @contextlib.asynccontextmanager
        async def connect() -> AsyncIterator[None]:
            opening.add(name)
            if len(opening) == 3:
                all_open.set()
            await asyncio.wait_for(all_open.wait(), 20)
            yield

        return Toolset(name, [], lifespan=connect)

    async with Agent(ScriptedModel("a"), toolsets=[make(name) for name in "abc"]):
        assert opening == set("abc")


async def test_a_service_serves_the_agent_whose_toolset_can_be_opened() -> None:
    down, up = Server(), Server()
    down.is_down = True
    agents = [
        Agent(ScriptedModel("a"), name="down", toolsets=[serving(down)]),
        Agent(ScriptedModel("b"), name="up", toolsets=[serving(up)]),
    ]
    async with Service(agents) as service:
        assert up.connections
        assert not down.connections
        for name, answer in (("down", "a"), ("up", "b")):
            turn = await service.start(name, "Hi", session=name, request=name)
            assert (await service.wait(turn)).text == answer


async def test_a_required_lifespan_is_an_error_of_the_block_too() -> None:
    down, up = Server(), Server()
    down.is_down = True
    both = [serving(up), serving(down, required=True).prefixed("x_")]
    agent = Agent(ScriptedModel("a"), toolsets=both)
    with pytest.raises(MiddlewareError, match=r"server\.lifespan raised ConnectionRefusedError"):
        await agent.__aenter__()
    assert [one.is_closed for one in up.connections] == [True]
    down.is_down = False
    async with agent:
        assert (await agent.run("Hi")).output == "a"


def test_required_needs_a_lifespan() -> None:
    with pytest.raises(ConfigurationError, match="required: is of the lifespan, and there is none"):
        Toolset("x", [], required=True)
