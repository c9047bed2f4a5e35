"""Other people's MCP servers, from npm: their tools in turns, and kills of their process at random moments."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
from contextlib import suppress
from pathlib import Path
from typing import Any, get_args

import pytest
from conformance.node_clients import FOLDER, NODE, needs_node
from tests.mcp.chaos import run_turns

from holdfast import Agent, MemoryJournal
from holdfast.core.messages import Media, ToolCall, ToolResult
from holdfast.mcp import McpProgress, McpServer, McpTimeouts
from holdfast.testing import ScriptedModel
from holdfast.testing.mcp_emulator import McpEra

pytestmark = pytest.mark.timeout(900)

IS_FULL = bool(os.environ.get("HOLDFAST_FULL"))
KILLS = 200 if IS_FULL else 20


def make_server(program: str, *words: str, **keywords: Any) -> McpServer:
    file = FOLDER / "node_modules" / "@modelcontextprotocol" / program / "dist" / "index.js"
    command = [str(NODE), str(file), *words]
    return McpServer("npm", command=command, timeouts=McpTimeouts(start=120.0), **keywords)


def call(name: str, n: int = 0, **arguments: object) -> ToolCall:
    return ToolCall(f"{name}{n}", name, json.dumps(arguments))


def read_results(result: Any) -> list[ToolResult]:
    return [
        one for message in result.messages for one in message.parts if isinstance(one, ToolResult)
    ]


@needs_node
async def test_server_everything_gives_every_kind_of_content(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-proj-12345678901234567890123456789012")
    server = make_server("server-everything", "stdio", resources=True)
    calls = (
        call("echo", message="hi"),
        call("get-tiny-image"),
        call("get-structured-content", location="New York"),
        call("get-resource-links", count=2),
        call("trigger-long-running-operation", duration=1, steps=4),
        call("get-env"),
        call("read_resource", uri="demo://resource/static/document/architecture.md"),
        call("get-sum", a="one", b=2),
    )
    async with Agent(ScriptedModel(*calls, "done"), toolsets=[server]).stream("Try.") as run:
        items = [item async for item in run]
    assert run.result is not None
    echo, image, weather, links, slow, env, document, total = read_results(run.result)
    assert echo.text == "Echo: hi"
    assert [type(one) for one in image.content].count(Media) == 1
    assert "temperature" in json.loads(weather.text)
    assert "demo://resource/dynamic/" in links.text
    assert slow.outcome == "done"
    assert len([one for one in items if isinstance(one, McpProgress)]) == 4
    assert "OPENAI_API_KEY" not in env.text
    assert "PATH" in env.text
    assert "Everything Server" in document.text
    # Our own check of the schema refuses the call before the server sees it.
    assert total.outcome == "failed"


@needs_node
async def test_server_filesystem_refuses_what_is_outside(tmp_path: Path) -> None:
    inside, outside = tmp_path / "in", tmp_path / "secret.txt"
    inside.mkdir()
    outside.write_text("secret", "utf-8")
    server = make_server("server-filesystem", str(inside), trust=True)
    calls = (
        call("write_file", path=str(inside / "a.txt"), content="hello"),
        call("read_text_file", path=str(inside / "a.txt")),
        call("read_text_file", 2, path=str(outside)),
    )
    result = await Agent(ScriptedModel(*calls, "done"), toolsets=[server]).run("Write.")
    wrote, read, refused = read_results(result)
    assert (wrote.outcome, read.text) == ("done", "hello")
    assert (refused.outcome, "secret" in refused.text.replace("secret.txt", "")) == (
        "failed",
        False,
    )


def list_children() -> list[int]:
    """The processes that this one has started and that have not been waited for."""
    found: list[int] = []
    for task in Path("/proc/self/task").iterdir():
        with suppress(OSError):
            found += [int(one) for one in (task / "children").read_text().split()]
    return found


@needs_node
async def test_a_server_that_is_killed_at_a_random_moment_loses_no_turn(tmp_path: Path) -> None:
    """Each write is a line of its own file: done, in doubt, or told as failed and then not done."""
    server = make_server("server-filesystem", str(tmp_path), effects={"list_directory": "read"})
    rng = random.Random(5)
    others = set(list_children())
    agent = Agent(ScriptedModel("unused"), toolsets=[server], journal=MemoryJournal())
    outcomes: dict[int, ToolResult] = {}
    async with agent:
        await agent.run("Hi.", model=ScriptedModel("hello"))
        for number in range(KILLS):
            files = [tmp_path / f"{number}-{place}.txt" for place in range(3)]
            calls = [
                call("write_file", number * 3 + place, path=str(file), content="x")
                for place, file in enumerate(files)
            ]
            turn = asyncio.create_task(agent.run("Write.", model=ScriptedModel(*calls, "done")))
            await asyncio.sleep(rng.random() * 0.03)
            for process in set(list_children()) - others:
                with suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
            result = await asyncio.wait_for(turn, 300)
            assert result.output == "done"
            for place, one in enumerate(read_results(result)):
                outcomes[number * 3 + place] = one
                exists = files[place].exists()
                assert (one.outcome, exists) in {
                    ("done", True),
                    ("in_doubt", True),
                    ("in_doubt", False),
                    ("failed", False),
                }, one
            again = ScriptedModel(call("list_directory", path=str(tmp_path)), "done")
            (listed,) = read_results(await agent.run("List.", model=again))
            assert listed.outcome == "done"
    assert len(outcomes) == KILLS * 3


@pytest.mark.skipif(not IS_FULL, reason="takes minutes: ./run conformance --full")
@pytest.mark.parametrize("era", get_args(McpEra))
@pytest.mark.parametrize("kind", ["stdio", "http"])
async def test_many_turns_against_an_emulated_server_lose_and_double_nothing(
    tmp_path: Path, kind: str, era: McpEra
) -> None:
    tally = await run_turns(tmp_path, kind, era, turns=125, share=0.2, kills=50, seed=11)
    assert (tally.lost_turns, tally.twice, tally.untold, tally.false) == (0, 0, 0, 0), tally
