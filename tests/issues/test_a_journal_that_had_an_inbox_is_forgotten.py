"""The inbox and the readers of a journal held it for ever: its entry in a weak mapping was held by its value."""

from __future__ import annotations

import gc
from pathlib import Path
from weakref import ref

import pytest

from holdfast import Agent, MemoryJournal, SqliteJournal
from holdfast.testing import ScriptedModel
from holdfast.worker import Worker


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_a_journal_that_had_an_inbox_is_forgotten(kind: str, tmp_path: Path) -> None:
    async def use() -> list[ref[object]]:
        journal = MemoryJournal() if kind == "memory" else SqliteJournal(tmp_path / "talk.db")
        agent = Agent(ScriptedModel("Hello."), name="greeter", journal=journal)
        run = await agent.submit("Hi.")
        async with Worker(agent):
            assert (await run.wait(20)).text == "Hello."
            async for _ in run.events():
                pass
        shared = journal._tenants if isinstance(journal, MemoryJournal) else journal._writer
        return [ref(journal), ref(shared)]

    left = await use()
    gc.collect()
    assert [one() for one in left] == [None, None]
