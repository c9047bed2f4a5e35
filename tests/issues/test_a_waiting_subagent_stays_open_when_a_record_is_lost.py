"""A cancelled turn that could keep nothing any more ended the agent that waited in its tools.

The turn itself was left open, and went on later: with another agent, that began from new.
"""

from __future__ import annotations

import asyncio

import pytest
from tests.issues.test_an_abandoned_turn_leaves_no_subagent_open import (
    CLERK,
    boss,
    clerk,
    scout,
)
from tests.runtime.slow_journal import SlowJournal

from holdfast import tool
from holdfast.journal.journal_errors import JournalStorageError

pytestmark = pytest.mark.anyio


async def test_and_goes_on_with_its_turn() -> None:
    journal, waits = SlowJournal(), asyncio.Event()
    journal.slow = False

    @tool(effect="write")
    async def pay(task: str) -> str:
        """Pay."""
        await waits.wait()
        journal.slow = True
        return "paid"

    agent = boss(journal, clerk(scout().as_tool()).as_tool(), pay)
    run = asyncio.create_task(agent.run("Go.", session="s"))
    under_way = agent._engine.answering.active_turns
    while "s" not in under_way or not under_way["s"].effects.suspended_count:
        await asyncio.sleep(0)
    waits.set()
    await journal.until("t1.i0.tool.1")
    journal.fail(JournalStorageError("talk.db", "the disk is full"))
    await asyncio.sleep(0)
    run.cancel()
    journal.let_go()
    with pytest.raises(JournalStorageError):
        await run
    still_open = [entry.run for entry in await journal.runs(turn_open=True)]
    assert [run for run in still_open if run in ("s", CLERK)] == ["s", CLERK]
