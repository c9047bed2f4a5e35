"""What type checkers must see of the keywords of one run. Checked by mypy and pyright, never run."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import assert_type

from holdfast import (
    Agent,
    Limits,
    ModelSettings,
    RecoveredRun,
    Result,
    RunStream,
    Skills,
    StructuredOutput,
    Tool,
)
from holdfast.journal import InterruptedRun
from holdfast.tools import Toolset, ToolsetContext


@dataclass
class Trip:
    city: str


@dataclass
class Hotel:
    name: str


class Db:
    def __init__(self, user: object) -> None:
        self.user = user


def read(path: str) -> str:
    return path


def may_read(context: ToolsetContext[Db], one: Tool) -> bool:
    return bool(assert_type(context.deps, Db).user) and one.effect == "read"


async def prepare(context: ToolsetContext, tools: list[Tool]) -> list[Tool]:
    assert_type(context.deps, object)
    return tools[: context.iteration]


@asynccontextmanager
async def connect() -> AsyncIterator[str]:
    yield "connection"


def list_tools(context: ToolsetContext[Db]) -> list[Tool]:
    return []


FILES = Toolset("files", [read])
assert_type(FILES.filtered(may_read).prepared(prepare).prefixed("fs_"), Toolset)
SERVER = Toolset("server", list_tools, lifespan=connect)
ALL = Toolset("all", [FILES, SERVER, read])


def open_db(run: InterruptedRun) -> Db:
    return Db(run.metadata["user"])


async def open_db_later(run: InterruptedRun) -> Db:
    return Db(run.run_id)


async def use(db: Db) -> None:
    agent = Agent("ollama:qwen3", deps_type=Db, toolsets=[FILES, Skills("skills")])
    assert_type(await agent.run("Hi", deps=db, output=Trip), Result[Trip])
    assert_type(await agent.run("Hi", deps=db, output=list[Trip]), Result[list[Trip]])
    assert_type(await agent.run("Hi", deps=db, output=StructuredOutput(Trip)), Result[Trip])
    assert_type(await agent.run("Hi", deps=db), Result[str])
    assert_type(agent.run_sync("Hi", deps=db, output=Trip), Result[Trip])
    assert_type(agent.stream("Hi", deps=db, output=Trip), RunStream[Trip])
    assert_type(await agent.resume("s", deps=open_db, output=Trip), Result[Trip])
    assert_type(agent.resume_stream("s", deps=db, output=Trip), RunStream[Trip])
    assert_type(await agent.recover(deps=open_db_later), list[RecoveredRun[str]])
    assert_type(await agent.recover(deps=db, output=Trip), list[RecoveredRun[str | Trip]])

    hotels = Agent("ollama:qwen3", output=Hotel)
    assert_type(await hotels.run("Hi", output=str), Result[str])
    await hotels.run(
        "Hi",
        model="ollama:other",
        settings=ModelSettings(temperature=0),
        limits=Limits(iterations=1),
        metadata={"user": "ann"},
        tools=[read],
        toolsets=[ALL],
    )
    async with hotels as same:
        assert_type(same, Agent[Hotel, None])


async def use_wrongly(db: Db) -> None:
    agent = Agent("ollama:qwen3", deps_type=Db)
    await agent.run("Hi", temperature=0)  # type: ignore[call-overload]
    await agent.run("Hi", deps=db, settings={"temperature": 0})  # type: ignore[call-overload]
    await agent.run("Hi", deps=db, metadata="ann")  # type: ignore[call-overload]
    await agent.run("Hi", deps=open_db)  # type: ignore[call-overload]
    await agent.resume("s", deps=db, settings=ModelSettings())  # type: ignore[call-overload]
    await agent.resume("s", deps=read)  # type: ignore[arg-type]
    Agent("ollama:qwen3", toolsets=[read])  # type: ignore[list-item]
    Agent("ollama:qwen3", temperature=0)  # type: ignore[call-arg]
    FILES.filtered(prepare)  # type: ignore[arg-type]
    FILES.prepared(may_read)  # type: ignore[arg-type]
