"""The tools of a server in a turn: names, effects, lists, what the model reads, and what a server never gets."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from holdfast import Agent, MemoryJournal
from holdfast.core.errors import ConfigurationError, MiddlewareError
from holdfast.core.messages import Media, Text, ToolCall, ToolResult
from holdfast.mcp import McpLimits, McpServer, McpServerChanged, McpTimeouts
from holdfast.testing import ScriptedModel
from holdfast.testing.mcp_emulator import McpEmulator
from holdfast.tools import Toolset

pytestmark = pytest.mark.slow  # each test starts a server, a process of its own
SECRET = "sk-proj-12345678901234567890123456789012"


def look(n: int = 1) -> ToolCall:
    return ToolCall(f"c{n}", "look", f'{{"n": {n}}}')


def describe(name: str, schema: object = None, **hints: bool) -> dict[str, object]:
    return {
        "name": name,
        "description": f"Do {name}.",
        "inputSchema": {"type": "object"} if schema is None else schema,
        "annotations": hints,
    }


def texts(result: Any) -> list[str]:
    return [
        part.text
        for message in result.messages
        for part in message.parts
        if isinstance(part, ToolResult)
    ]


async def list_tools(server: McpServer) -> dict[str, str | None]:
    """The tools that a model is offered, with their effects."""
    seen: dict[str, str | None] = {}

    def prepare(_context: object, tools: list[Any]) -> list[Any]:
        seen.update({one.name: one.effect for one in tools})
        return tools

    await Agent(ScriptedModel("Hello."), toolsets=[Toolset("all", [server]).prepared(prepare)]).run(
        "Hi"
    )
    return seen


async def test_tools_are_writes_unless_the_program_says_otherwise(tmp_path: Path) -> None:
    tools = [
        describe("get", readOnlyHint=True),
        describe("put", idempotentHint=True),
        describe("pay", readOnlyHint=False),
        describe("lie", readOnlyHint=True, idempotentHint=True),
    ]
    command = McpEmulator(tmp_path, tools=tools).command
    assert set((await list_tools(McpServer("shop", command=command))).values()) == {"write"}
    server = McpServer("shop", command=command, trust=True, effects={"lie": "write"}, prefix="s_")
    assert await list_tools(server) == {
        "s_get": "read",
        "s_put": "idempotent",
        "s_pay": "write",
        "s_lie": "write",
    }
    chosen = McpServer("shop", command=command, tools=["p*"], limits=McpLimits(tools=1))
    assert list(await list_tools(chosen)) == ["put"]


async def test_a_tool_that_cannot_be_offered_is_left_out_and_named(tmp_path: Path) -> None:
    tools = [
        describe("good"),
        describe("far", {"type": "object", "properties": {"x": {"$ref": "https://x.example/s"}}}),
        describe("good"),
    ]
    server = McpServer("shop", command=McpEmulator(tmp_path, tools=tools).command)
    model = ScriptedModel("Hello.")
    async with Agent(model, toolsets=[server]).stream("Hi") as run:
        notices = [item async for item in run if isinstance(item, McpServerChanged)]
    assert [one.name for one in model.requests[0].tools] == ["good"]
    (notice,) = notices
    assert (notice.is_available, notice.tools) == (True, ("good",))
    assert sorted(notice.refused) == ["far", "good"]
    assert "twice" in notice.refused["good"]


async def test_two_servers_with_a_tool_of_one_name_are_both_named(tmp_path: Path) -> None:
    command = McpEmulator(tmp_path).command
    both = [McpServer("one", command=command), McpServer("two", command=command)]
    with pytest.raises(ConfigurationError) as caught:
        await Agent(ScriptedModel("no"), toolsets=both).run("Hi")
    assert "two tools are named 'look', in toolset 'one' and in toolset 'two'" in str(caught.value)
    third = McpServer("two", command=command, prefix="two_")
    assert (await Agent(ScriptedModel("Hi."), toolsets=[both[0], third]).run("Hi")).output == "Hi."


MISSING = "The server gone cannot be reached at the moment, so its tools are missing."


async def test_a_server_that_is_not_there_leaves_its_tools_out_and_the_model_reads_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    gone = McpServer("gone", command=["/nonexistent/mcp-server"])
    here = McpServer("here", command=McpEmulator(tmp_path).command)
    model = ScriptedModel(look(), "done")
    async with Agent(model, instructions="Be brief.", toolsets=[gone, here]).stream("Hi") as run:
        notices = [item async for item in run if isinstance(item, McpServerChanged)]
    assert [one.name for one in model.requests[0].tools] == ["look", "pay"]
    assert [one.instructions for one in model.requests] == [f"Be brief.\n\n{MISSING}"] * 2
    (notice,) = notices
    assert (notice.server, notice.is_available) == ("gone", False)
    assert "'/nonexistent/mcp-server' cannot be started" in notice.reason
    assert "'/nonexistent/mcp-server' cannot be started" in caplog.text


async def test_a_required_server_that_is_not_there_is_an_error() -> None:
    gone = McpServer("gone", command=["/nonexistent/mcp-server"], required=True)
    with pytest.raises(MiddlewareError, match=r"toolset\.gone\.lifespan raised"):
        await Agent(ScriptedModel("no"), toolsets=[gone]).run("Hi")


async def test_the_last_words_of_a_program_that_is_no_server_are_logged_redacted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    program = f"import sys; sys.stderr.write('no config, token={SECRET}'); sys.exit(3)"
    server = McpServer("bad", command=[sys.executable, "-c", program])
    assert await list_tools(server) == {}
    assert "no config" in caplog.text
    assert SECRET not in caplog.text


async def test_a_program_that_never_answers_delays_a_turn_by_its_time_to_start_alone() -> None:
    server = McpServer(
        "mute", command=[sys.executable, "-c", "input()"], timeouts=McpTimeouts(start=0.3)
    )
    began = asyncio.get_running_loop().time()
    assert await list_tools(server) == {}
    # Its process is stopped as well, which may take a while on a busy machine.
    assert asyncio.get_running_loop().time() - began < 60


async def test_a_child_gets_none_of_our_variables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    seen = tmp_path / "env"
    program = f"import os; open({str(seen)!r}, 'w').write(repr(dict(os.environ)))"
    server = McpServer("nosy", command=[sys.executable, "-c", program], env={"MINE": "given"})
    await list_tools(server)
    text = seen.read_text("utf-8")
    assert SECRET not in text
    assert "'MINE': 'given'" in text
    assert "'PATH'" in text


async def test_turns_share_one_process_and_it_ends_with_the_agent(tmp_path: Path) -> None:
    emulator = McpEmulator(tmp_path, era="2025-11-25")
    server = McpServer("shop", command=emulator.command)
    model = ScriptedModel(*[look(), "done"] * 50)
    agent = Agent(model, toolsets=[server], journal=MemoryJournal())
    async with agent:
        for _ in range(50):
            assert texts(await agent.run("Look.")) == ['look {"n": 1}']
        (process,) = emulator.processes
        os.kill(process, 0)
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)
    # This server says when its list changes, so it is asked once.
    assert len([one for one in emulator.log if one["kind"] == "list"]) == 1


async def test_a_list_is_made_anew_for_each_turn_or_when_its_time_is_over(tmp_path: Path) -> None:
    for ttl, count in ((0, 3), (3_600_000, 1)):
        folder = tmp_path / str(ttl)
        folder.mkdir()
        emulator = McpEmulator(folder, ttl=ttl)
        model = ScriptedModel(*[look(1), look(2), "done"] * 3)
        agent = Agent(model, toolsets=[McpServer("shop", command=emulator.command)])
        async with agent:
            for _ in range(3):
                await agent.run("Look.")
        assert len([one for one in emulator.log if one["kind"] == "list"]) == count


async def test_a_cancelled_turn_leaves_the_server_as_it_is(tmp_path: Path) -> None:
    emulator = McpEmulator(tmp_path, faults=["silent"])
    model = ScriptedModel(look(1), look(2), "done")
    agent = Agent(model, toolsets=[McpServer("shop", command=emulator.command)])
    async with agent:
        task = asyncio.create_task(agent.run("Look."))
        while not any(one["kind"] == "call" for one in emulator.log):
            await asyncio.sleep(0.005)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert texts(await agent.run("Look.")) == ['look {"n": 2}']
    assert len(emulator.processes) == 1


@asynccontextmanager
async def answering(head: bytes) -> Any:
    """A server that answers each request with these bytes, and the requests that came."""
    requests: list[bytes] = []

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        requests.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(head)
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(handle, "127.0.0.1", 0) as listening:
        yield f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}", requests


async def test_headers_do_not_follow_a_redirect_to_another_place() -> None:
    async with answering(b"HTTP/1.1 200 X\r\ncontent-length: 0\r\n\r\n") as (elsewhere, stolen):
        away = f"HTTP/1.1 307 X\r\nlocation: {elsewhere}/mcp\r\ncontent-length: 0\r\n\r\n"
        async with answering(away.encode()) as (url, requests):
            server = McpServer(
                "shop", url=f"{url}/mcp", headers={"Authorization": f"Bearer {SECRET}"}
            )
            assert await list_tools(server) == {}
            assert SECRET.encode() in requests[0]
        assert stolen == []


async def test_a_function_gives_headers_and_fresh_ones_after_a_401(tmp_path: Path) -> None:
    given: list[str] = []

    async def make_headers() -> dict[str, str]:
        given.append(f"token {len(given)}")
        return {"x-token": given[-1]}

    emulator = McpEmulator(tmp_path, faults=["unauthorized"])
    async with emulator.serve_http() as url:
        server = McpServer("shop", url=url, headers=make_headers)
        model = ScriptedModel(ToolCall("p", "pay", '{"n": 1}'), "done")
        result = await Agent(model, toolsets=[server]).run("Pay.")
    assert texts(result) == ['pay {"n": 1}']
    assert emulator.effects == [{"n": 1}]


async def test_a_url_where_nobody_listens_is_missing_at_once() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        assert await list_tools(McpServer("gone", url=f"http://127.0.0.1:{port}/mcp")) == {}


async def test_a_result_is_cut_at_its_limit(tmp_path: Path) -> None:
    server = McpServer("shop", command=McpEmulator(tmp_path).command, limits=McpLimits(result=4))
    model = ScriptedModel(look(), "done")
    (text,) = texts(await Agent(model, toolsets=[server]).run("Look."))
    assert text.startswith("look\n[cut: ")


SDK_SERVER = '''
import asyncio
from mcp.server.mcpserver import Context, Image, MCPServer

server = MCPServer("studio")

@server.tool()
async def draw(ctx: Context) -> list:
    """Draw."""
    await ctx.report_progress(1, 2, "half")
    return ["a picture", Image(data=b"\\x89PNG\\r\\n\\x1a\\n", format="png")]

@server.tool()
def count() -> dict[str, int]:
    """Count."""
    return {"n": 7}

@server.resource("note://{name}")
def note(name: str) -> str:
    return f"the note {name}"

@server.prompt()
def greet(name: str) -> str:
    return f"Greet {name}."

server.run("stdio")
'''


async def test_a_server_of_the_sdk_gives_pictures_progress_resources_and_prompts(
    tmp_path: Path,
) -> None:
    file = tmp_path / "server.py"
    file.write_text(SDK_SERVER, "utf-8")
    server = McpServer(
        "studio",
        command=[sys.executable, str(file)],
        resources=True,
        timeouts=McpTimeouts(start=60.0),
    )
    calls = [
        ToolCall("1", "draw", "{}"),
        ToolCall("2", "count", "{}"),
        ToolCall("3", "read_resource", '{"uri": "note://a"}'),
    ]
    agent = Agent(ScriptedModel(*calls, "done", "never"), toolsets=[server])
    with pytest.raises(ConfigurationError, match="is not open here"):
        await server.resource("note://b")
    seen: list[Any] = []
    async with agent:
        async with agent.stream("Draw.") as run:
            seen += [item async for item in run]
        assert run.result is not None
        assert await server.resource("note://b") == [Text("the note b")]
        assert await server.prompt("greet", name="Ada") == [Text("Greet Ada.")]
    found = [
        list(part.content)
        for message in run.result.messages
        for part in message.parts
        if isinstance(part, ToolResult)
    ]
    assert found[0] == [Text("a picture"), Media("image/png", data=b"\x89PNG\r\n\x1a\n")]
    assert '"n"' in found[1][0].text  # type: ignore[union-attr]
    assert found[2] == [Text("the note a")]
    (progress,) = [one for one in seen if type(one).__name__ == "McpProgress"]
    assert (progress.server, progress.progress, progress.total, progress.message) == (
        "studio",
        1.0,
        2.0,
        "half",
    )
