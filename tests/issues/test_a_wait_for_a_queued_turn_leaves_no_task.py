"""A `QueuedRun.wait` whose time is over, or that is cancelled, leaves no task behind."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from holdfast import Agent
from holdfast.runtime.queued_runs.queued_run import QueuedRun
from holdfast.testing import ScriptedModel


async def submit(folder: Path) -> QueuedRun[str]:
    agent = Agent(ScriptedModel("Hello."), name="a", journal=f"sqlite:///{folder}/talk.db")
    return await agent.submit("Hi.", session="s")


async def test_a_wait_whose_time_is_over_leaves_no_task(tmp_path: Path) -> None:
    run = await submit(tmp_path)
    before = asyncio.all_tasks()
    with pytest.raises(TimeoutError):
        await run.wait(0.05)
    assert asyncio.all_tasks() == before


async def test_a_cancelled_wait_leaves_no_task(tmp_path: Path) -> None:
    run = await submit(tmp_path)
    before = asyncio.all_tasks()
    waiting = asyncio.create_task(run.wait())
    await asyncio.wait([waiting], timeout=0.05)
    waiting.cancel()
    await asyncio.wait([waiting])
    assert asyncio.all_tasks() == before
