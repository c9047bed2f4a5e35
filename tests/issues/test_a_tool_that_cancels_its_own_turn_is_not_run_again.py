"""A tool that cancelled the task of its own turn was run again beside other tools, a write too, and two for ever."""

from __future__ import annotations

import asyncio

import pytest

from holdfast import Agent, MemoryJournal, tool
from holdfast.core.messages import Reply, ToolCall
from holdfast.testing import ScriptedModel

pytestmark = pytest.mark.anyio

did: list[str] = []


@tool(effect="write")
async def leave() -> str:
    """Cancel the task that it runs in."""
    did.append("leave")
    if len(did) > 5:
        return "for ever"
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    return await asyncio.Event().wait()  # type: ignore[return-value]


@tool(effect="read")
async def look() -> str:
    """Look."""
    return "a wall"


def agent(*names: str) -> Agent[str]:
    did.clear()
    calls = tuple(ToolCall(f"c{at}", name, "{}") for at, name in enumerate(names))
    model = ScriptedModel(Reply(calls), "Done.")
    return Agent(model, tools=[leave, look], journal=MemoryJournal())


@pytest.mark.parametrize("names", [("leave",), ("leave", "look"), ("leave", "leave")])
async def test_the_turn_is_cancelled_and_the_next_one_runs(
    names: tuple[str, ...],
) -> None:
    one = agent(*names)
    # In a task of its own, which is cancelled by what is called in it.
    run = asyncio.create_task(one.run("Go.", session="s"))
    await asyncio.wait([run])
    assert run.cancelled()
    assert did == [name for name in names if name == "leave"]
    assert (await one.run("And now?", session="s")).text == "Done."
