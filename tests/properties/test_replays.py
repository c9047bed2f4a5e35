"""Whatever a run did, wherever it was cut off: the same agent does the same when it is played again."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast import Agent, HoldfastError, Limits, MemoryJournal, RetryOptions, ToolError, tool
from holdfast.core.events import ToolFinished
from holdfast.core.messages import ToolCall
from holdfast.middleware.tool_permission import ToolPermission
from holdfast.testing import ReplayDifference, ScriptedModel, replay
from holdfast.testing.crash import CrashAt, SimulatedCrash

TURNED_OFF: list[str] = []


@tool(effect="read")
async def look(what: int) -> str:
    """Look at something."""
    return _done("look", what)


@tool(effect="write")
async def pay(what: int) -> str:
    """Pay for something."""
    return _done("pay", what)


def _done(name: str, what: int) -> str:
    assert not TURNED_OFF, f"{name} ran in a replay"
    if what == 1:
        raise ToolError("Not today.")
    if what == 2:
        raise RuntimeError("broken")
    return f"{name} {what}"


CALLS = st.builds(
    lambda name, what: (name, f'{{"what": {what}}}'),
    st.sampled_from(["look", "pay", "gone"]),
    st.sampled_from(["0", "1", "2", '"x"']),
)
BATCHES = st.lists(st.lists(CALLS, min_size=1, max_size=3), max_size=3)
LIMITS = st.builds(Limits, iterations=st.integers(1, 4), tool_calls=st.none() | st.integers(1, 4))
MIDDLEWARE = st.sampled_from(
    [(), (ToolPermission(allow=["look"]),), (ToolPermission(allow=["look"], ask=["pay"]),)]
)


def script(batches: list[list[tuple[str, str]]]) -> list[Any]:
    lines: list[Any] = [
        tuple(ToolCall(f"c{at}", name, said) for at, (name, said) in enumerate(batch))
        for batch in batches
    ]
    return [*lines, "Done."]


async def record(
    batches: list[list[tuple[str, str]]], append: int, options: dict[str, Any]
) -> MemoryJournal:
    journal = MemoryJournal()
    agent = Agent(
        ScriptedModel(*script(batches)),
        journal=CrashAt(journal, append),  # type: ignore[arg-type]
        retry=RetryOptions(max_retries=0),
        **options,
    )
    with suppress(SimulatedCrash, HoldfastError):
        await agent.run("Go.", session="ada")
    return journal


@settings(max_examples=40)
@given(BATCHES, st.integers(2, 30), LIMITS, MIDDLEWARE)
def test_a_run_is_played_again_without_a_difference(
    batches: list[list[tuple[str, str]]], append: int, limits: Limits, middleware: tuple[Any, ...]
) -> None:
    options = {"tools": [look, pay], "limits": limits, "middleware": middleware}

    async def both() -> None:
        journal = await record(batches, append, options)
        TURNED_OFF.append("tools")
        try:
            again = Agent("openai:none", api_key="none", **options)
            found = await replay(journal, again)
        finally:
            TURNED_OFF.clear()
        assert found.turns == 1

    asyncio.run(both())


@settings(max_examples=20)
@given(BATCHES.filter(bool), LIMITS)
def test_a_tool_that_is_gone_is_noticed_when_it_was_asked_for(
    batches: list[list[tuple[str, str]]], limits: Limits
) -> None:
    options: dict[str, Any] = {"tools": [look, pay], "limits": limits}

    async def both() -> None:
        journal = await record(batches, 99, options)
        ran = [
            record.event.result.name
            for record in await journal.read("ada")
            if isinstance(record.event, ToolFinished)
        ]
        again = Agent("openai:none", api_key="none", limits=limits)
        if not ran:
            await replay(journal, again)
            return
        with pytest.raises(ReplayDifference):
            await replay(journal, again)

    asyncio.run(both())
