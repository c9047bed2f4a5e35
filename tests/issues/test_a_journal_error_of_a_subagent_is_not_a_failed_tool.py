"""A record of an agent in a tool could not be kept: its caller was told that the tool had failed.

The calling turn went on to its end, and the run of the agent stayed open for ever.
"""

from __future__ import annotations

import pytest

from holdfast import Agent, MemoryJournal
from holdfast.core.effects import Effect
from holdfast.core.events import Event, ModelReplied, Status
from holdfast.core.messages import ToolCall
from holdfast.journal.journal_errors import JournalStorageError
from holdfast.testing import ScriptedModel

pytestmark = pytest.mark.anyio


class FullOnce(MemoryJournal):
    """Has no room for the first reply of an agent in a tool."""

    full = True

    async def append(
        self, run: str, event: Event, effect: Effect | None = None, *, marker: Event | None = None
    ) -> None:
        if self.full and "/" in run and isinstance(event, ModelReplied):
            self.full = False
            raise JournalStorageError("talk.db", "the disk is full")
        await super().append(run, event, effect, marker=marker)


async def test_and_both_go_on_later() -> None:
    journal = FullOnce()
    clerk = Agent(ScriptedModel("Filed.", "Filed."), name="clerk")
    call = ToolCall("c", "clerk", '{"task": "File."}')
    boss = Agent(ScriptedModel(call, "Done."), tools=[clerk.as_tool()], journal=journal)
    with pytest.raises(JournalStorageError, match="the disk is full"):
        await boss.run("Go.", session="s")
    result = await boss.resume("s")
    assert (result.status, result.text) == (Status.COMPLETED, "Done.")
    assert [entry.run for entry in await journal.runs()] == ["s", "s/t1.i0.tool.0"]
    assert await journal.runs(turn_open=True) == []


async def test_where_the_agent_has_a_journal_of_its_own_its_caller_goes_on() -> None:
    class Full(MemoryJournal):
        async def append(
            self,
            run: str,
            event: Event,
            effect: Effect | None = None,
            *,
            marker: Event | None = None,
        ) -> None:
            raise JournalStorageError("talk.db", "the disk is full")

    clerk = Agent(ScriptedModel(), name="clerk", journal=Full())
    call = ToolCall("c", "clerk", '{"task": "File."}')
    boss = Agent(ScriptedModel(call, "Done."), tools=[clerk.as_tool()])
    assert (await boss.run("Go.", session="s")).text == "Done."
