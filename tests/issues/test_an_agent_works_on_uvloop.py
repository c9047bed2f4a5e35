"""A whole agent on uvloop: its transports and handles are no subclasses of asyncio's."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest
import uvloop

from holdfast import Agent, RetryOptions, SqliteJournal, tool
from holdfast.core.deltas import TextDelta
from holdfast.core.messages import ToolCall
from holdfast.errors import TransportError
from holdfast.testing import FakeClock
from holdfast.testing.emulator import DropAfter, Emulator, ResetBeforeHeaders, Stall
from holdfast.transport.port import Timeouts

pytestmark = pytest.mark.parametrize("anyio_backend", [("asyncio", {"use_uvloop": True})])

CALLS = (ToolCall("a", "in_thread", '{"n": 1}'), ToolCall("b", "on_loop", '{"n": 2}'))


@tool
def in_thread(n: int) -> str:
    """Work in a thread."""
    time.sleep(0)
    return str(n)


@tool
async def on_loop(n: int) -> str:
    """Work on the loop."""
    assert isinstance(asyncio.get_running_loop(), uvloop.Loop)
    return str(n)


def agent(emulator: Emulator, journal: SqliteJournal | None = None, **more: object) -> Agent[str]:
    return Agent(
        "openai:m",
        base_url=emulator.base_url,
        api_key="k",
        tools=[in_thread, on_loop],
        journal=journal,
        **more,  # type: ignore[arg-type]
    )


async def test_a_turn_with_tools_a_journal_and_faults(tmp_path: Path) -> None:
    faults = [ResetBeforeHeaders(), None, DropAfter(2)]
    async with Emulator([CALLS, CALLS, "done", "done"], faults=faults) as emulator:
        with SqliteJournal(tmp_path / "talk.db") as journal:
            async with agent(emulator, journal, clock=FakeClock()).stream(
                "go", session="s"
            ) as stream:
                said = [notice.text async for notice in stream if isinstance(notice, TextDelta)]
            assert "".join(said).endswith("done")
            assert stream.result.output == "done"
            assert len(await journal.read("s")) > 5


async def test_a_turn_that_is_cancelled_closes_its_connection() -> None:
    async with Emulator(["never"], faults=[Stall(seconds=30)]) as emulator:
        turn = asyncio.ensure_future(agent(emulator).run("go"))
        while not emulator.requests:
            await asyncio.sleep(0.005)
        turn.cancel()
        await asyncio.wait([turn])
        assert turn.cancelled()
        await emulator.wait_idle()


async def test_a_server_that_falls_silent_is_left() -> None:
    timeouts = Timeouts(between_chunks=0.2)
    async with Emulator(["never"], faults=[Stall(after=2, seconds=30)]) as emulator:
        made = agent(emulator, timeouts=timeouts, retry=RetryOptions(max_retries=0))
        async with made.stream("go") as stream:
            with pytest.raises(TransportError, match="no new content"):
                async for _ in stream:
                    pass
