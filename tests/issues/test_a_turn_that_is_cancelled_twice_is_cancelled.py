"""A turn that was cancelled again while it read what was saved of its end raised ConflictError."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from holdfast import Agent, MemoryJournal
from holdfast.core.effects import Effect
from holdfast.core.events import Event
from holdfast.journal.port import Record
from holdfast.testing import ScriptedModel

pytestmark = pytest.mark.anyio


class CancelledAtTheEnd(MemoryJournal):
    """Keeps the end of a turn, whose task is cancelled then, and again while it reads that."""

    task: asyncio.Task[object]
    reads = 0

    async def append(
        self, run: str, event: Event, effect: Effect | None = None, *, marker: Event | None = None
    ) -> None:
        await super().append(run, event, effect, marker=marker)
        if marker is not None and marker.key == "t1.closed":
            self.task.cancel()
            await asyncio.sleep(0)

    async def read(self, run: str, after: int = 0) -> Sequence[Record]:
        self.reads += 1
        if self.reads == 2:  # the first is at the beginning of the turn
            asyncio.get_running_loop().call_soon(self.task.cancel)
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        return await super().read(run, after)


async def test_and_its_turn_has_one_end() -> None:
    journal = CancelledAtTheEnd()
    agent = Agent(ScriptedModel("Hi.", "Here I am."), journal=journal)
    journal.task = asyncio.create_task(agent.run("Hello", session="ada"))
    with pytest.raises(asyncio.CancelledError):
        await journal.task
    keys = [record.event.key for record in await journal.read("ada")]
    assert keys == ["t1", "t1.i0.model", "t1.closed"]
    assert (await agent.run("Are you there?", session="ada")).text == "Here I am."
