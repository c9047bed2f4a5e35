"""Two tenants of one store have equal names, ids and requests everywhere, and never meet."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.postgres_server import PostgresServer

from holdfast import Agent, MemoryJournal, PostgresJournal, SqliteJournal, ToolContext, tool
from holdfast.cli.main import main
from holdfast.core.events import Status
from holdfast.core.messages import Reply, ToolCall
from holdfast.core.questions import PermissionQuestion
from holdfast.errors import ConfigurationError, SessionBusyError
from holdfast.journal.port import Journal
from holdfast.testing import ScriptedModel


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def journal(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Journal]:
    if request.param == "memory":
        yield MemoryJournal()
    elif request.param == "sqlite":
        with SqliteJournal(tmp_path / "talk.db") as opened:
            yield opened
    else:
        server: PostgresServer = request.getfixturevalue("postgres")
        with PostgresJournal(server.new_url()) as shared:
            yield shared


NAMES = ("acme", "beta")


async def test_sessions_with_equal_names_are_two(journal: Journal) -> None:
    agents = {
        name: Agent(
            ScriptedModel(f"answer of {name}", f"more of {name}"), journal=journal.for_tenant(name)
        )
        for name in NAMES
    }
    for name, agent in agents.items():
        done = await agent.run(f"secret of {name}", session="ada", request="r1")
        assert done.output == f"answer of {name}"
        await agent.sessions.rename("ada", f"title of {name}")
        await agent.sessions.fork("ada", to="eve")
    for name, agent in agents.items():
        other = NAMES[name == "acme"]
        sessions = agent.sessions
        assert {info.session for info in await sessions.list()} == {"eve", "ada"}
        assert (await sessions.info("ada")).title == f"title of {name}"
        assert {hit.text for hit in await sessions.search("secret")} == {f"secret of {name}"}
        assert not await sessions.search(other)
        assert other not in "".join([line async for line in sessions.export("ada")])
        again = await agent.run("Hi", session="ada", request="r1")
        assert again.output == f"answer of {name}"
    lines = [line async for line in agents["acme"].sessions.export("ada")]
    assert await agents["acme"].sessions.delete("ada") == 4
    with pytest.raises(ConfigurationError, match="there is no session"):
        await agents["acme"].sessions.info("ada")
    assert (await agents["beta"].run("More", session="ada")).output == "more of beta"
    with pytest.raises(ConfigurationError, match="already exists"):
        await agents["beta"].sessions.import_(lines)
    await agents["acme"].sessions.import_(lines)
    assert [
        info.session for info in await Agent(ScriptedModel(), journal=journal).sessions.list()
    ] == []


async def test_runs_that_wait_or_were_interrupted_are_of_one_tenant(journal: Journal) -> None:
    @tool
    async def pay(ctx: ToolContext) -> str:
        await ctx.ask(PermissionQuestion(tool="pay"))
        return "paid"

    def make(name: str, *replies: Any) -> Agent:
        return Agent(
            ScriptedModel(*replies),
            tools=[pay],
            journal=journal.for_tenant(name),
            on_wait="suspend",
        )

    call = Reply((ToolCall("1", "pay", "{}"),))
    acme, beta = make("acme", call, "acme paid"), make("beta", call, "beta paid")
    for agent in (acme, beta):
        assert (await agent.run("Pay", session="ada")).status is Status.WAITING
    (question,) = await acme.questions("ada")
    assert await acme.answer("ada", question, question.approve().value)
    assert (await acme.resume("ada")).output == "acme paid"
    assert len(await beta.questions("ada")) == 1
    assert [found.run_id for found in await acme.recover()] == []
    with pytest.raises(ConfigurationError):
        await make("gamma").resume("ada")
    assert (await beta.abandon("ada")).status is Status.CANCELLED


async def test_a_turn_makes_no_session_of_another_tenant_busy(journal: Journal) -> None:
    release = asyncio.Event()

    async def hang(_: object) -> str:
        await release.wait()
        return "late"

    acme = Agent(ScriptedModel(hang), journal=journal.for_tenant("acme"))
    working = asyncio.create_task(acme.run("Hi", session="ada"))
    while not await acme.sessions.list():
        await asyncio.sleep(0.01)
    for name, busy in (("acme", True), ("beta", False)):
        rival = Agent(ScriptedModel("Hi"), journal=journal.for_tenant(name), on_busy="refuse")
        try:
            await rival.run("Hi", session="ada")
        except SessionBusyError:
            assert busy
        else:
            assert not busy
    release.set()
    assert (await working).output == "late"


async def test_the_command_line_selects_a_tenant(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "talk.db"
    with SqliteJournal(path) as journal:
        for name in ("", "acme"):
            agent = Agent(ScriptedModel("hi"), journal=journal.for_tenant(name))
            await agent.run(f"hello {name or 'nobody'}", session="ada")
    for options, wanted in (([], "hello nobody"), (["--tenant", "acme"], "hello acme")):
        for words in (["sessions", "list"], ["sessions", "search"], ["journal", "export"]):
            more = ["hello"] if words[1] == "search" else []
            assert await asyncio.to_thread(main, [*words, str(path), *more, *options]) == 0
            said = capsys.readouterr().out
            assert wanted in said
            assert said.count("hello") == 1
    assert await asyncio.to_thread(main, ["journal", "verify", str(path)]) == 0
    assert capsys.readouterr().out.startswith("2 runs")
    assert await asyncio.to_thread(main, ["journal", "show", str(path), "--tenant", "beta"]) == 0
    assert capsys.readouterr().out == ""
