"""What type checkers must see of typed dependencies. Checked by mypy and pyright, never run."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, assert_type

from holdfast import (
    Agent,
    InstructionsContext,
    Middleware,
    OutputContext,
    Reply,
    RunStream,
    StructuredOutput,
    ToolContext,
    tool,
)
from holdfast.compat import AgentBuilder
from holdfast.middleware import BeforeIteration, BeforeTurn, ModelCall, Patch


class Db:
    def find(self, name: str) -> str:
        return name


class SqlDb(Db): ...


@tool(effect="read")
async def find(name: str, context: ToolContext[Db]) -> str:
    assert_type(context.deps, Db)
    return context.deps.find(name)


class Greet(Middleware):
    async def before_turn(self, context: BeforeTurn[Db]) -> Patch | None:
        assert_type(context.deps, Db)
        return Patch(instructions=context.deps.find("greeting"))

    async def before_iteration(self, context: BeforeIteration) -> None:
        assert_type(context.deps, object)

    async def wrap_model(
        self, context: ModelCall[Db], call_next: Callable[[ModelCall[Db]], Awaitable[Reply]]
    ) -> Reply:
        assert_type(context.deps, Db)
        return await call_next(context)


def greeting(context: InstructionsContext[Db]) -> str:
    return assert_type(context.deps, Db).find("greeting")


async def of_any_agent(context: InstructionsContext) -> str | None:
    return context.session


def of_nobody() -> str:
    return "Be brief."


def known(name: str, context: OutputContext[Db]) -> None:
    assert_type(context.deps, Db)


async def use(db: Db, sql: SqlDb) -> None:
    agent = Agent(
        "ollama:qwen3",
        deps_type=Db,
        instructions=["Be kind.", of_nobody, greeting, of_any_agent],
        tools=[find],
        middleware=[Greet()],
    )
    assert_type(agent, Agent[str, Db])
    assert_type((await agent.run("Hi", deps=db)).output, str)
    await agent.run("Hi", deps=sql)
    assert_type(agent.stream("Hi", deps=db), RunStream[str])
    agent.run_sync("Hi", deps=db)
    await agent.resume("ada", deps=db)
    agent.resume_stream("ada", deps=db)
    await agent.recover(deps=db)

    number = Agent("ollama:qwen3", deps_type=Db, output=int)
    assert_type(number, Agent[int, Db])
    assert_type(Agent("ollama:qwen3", deps_type=dict[str, int]), Agent[str, dict[str, int]])
    assert_type(Agent("ollama:qwen3", instructions=greeting, deps_type=Db), Agent[str, Db])
    checked = StructuredOutput(str, validators=[known])
    assert_type(Agent("ollama:qwen3", deps_type=Db, output=checked), Agent[str, Db])

    # An agent that needs less can take the place of an agent that needs more.
    less: Agent[str, SqlDb] = agent
    await less.run("Hi", deps=sql)


async def use_none() -> None:
    agent = Agent("ollama:qwen3")
    assert_type(agent, Agent[str, None])
    await agent.run("Hi")
    await agent.run("Hi", deps=None)


def build() -> None:
    built = AgentBuilder().with_model("ollama:qwen3").with_deps_type(Db).with_output(int).build()
    assert_type(built, Agent[int, Db])
    assert_type(Agent.from_file("agent.toml"), Agent[object, Any])
