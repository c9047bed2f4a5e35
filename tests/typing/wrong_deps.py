"""Mistakes with dependencies that type checkers must find: an unused `ignore` is an error.

Checked by mypy and pyright, never run.
"""

from __future__ import annotations

from holdfast import Agent, InstructionsContext, ToolContext


class Db: ...


class Other: ...


def greeting(context: InstructionsContext[Other]) -> str:
    return str(context.deps)


async def use(db: Db, other: Other, context: ToolContext[Db]) -> None:
    agent = Agent("ollama:qwen3", deps_type=Db)
    await agent.run("Hi", deps=other)  # type: ignore[call-overload]
    agent.run_sync("Hi", deps="db")  # type: ignore[call-overload]
    agent.stream("Hi", deps=other)  # type: ignore[call-overload]
    await agent.resume("ada", deps=other)  # type: ignore[call-overload]
    agent.resume_stream("ada", deps=other)  # type: ignore[call-overload]
    await agent.recover(deps=other)  # type: ignore[call-overload]

    plain = Agent("ollama:qwen3")
    await plain.run("Hi", deps=db)  # type: ignore[call-overload]

    Agent[str, Db]("ollama:qwen3", deps_type=Db, instructions=greeting)  # type: ignore[arg-type]
    Agent("ollama:qwen3", instructions=7)  # type: ignore[arg-type]
    Agent("ollama:qwen3", deps_type=db)  # type: ignore[arg-type]
    context.deps.missing  # type: ignore[attr-defined]  # noqa: B018
