"""A process was told to end while it saved that the tools of a reply begin. A writing tool did not run
then, and the next process said that it may have taken effect.
"""

from __future__ import annotations

import asyncio
from typing import Any

from holdfast import Agent, MemoryJournal, tool
from holdfast.core.events import Event, ModelReplied
from holdfast.core.messages import Reply, ToolCall
from holdfast.testing import ScriptedModel


async def test_it_runs() -> None:
    paid: list[str] = []

    @tool(effect="write")
    async def pay(whom: str) -> str:
        """Pay."""
        paid.append(whom)
        await asyncio.sleep(0)
        return "paid"

    @tool(effect="read")
    async def look() -> str:
        """Look."""
        return "seen"

    calls = [ToolCall(whom, "pay", f'{{"whom": "{whom}"}}') for whom in ("ada", "bob")]
    reply = Reply((*calls, ToolCall("c", "look", "{}")))
    leaving: list[asyncio.Task[None]] = []

    class SlowJournal(MemoryJournal):
        async def append(self, run: str, event: Event, *more: Any, **named: Any) -> None:
            if isinstance(event, ModelReplied) and not leaving:
                leaving.append(asyncio.create_task(stream.leave_open(grace=10)))
                await asyncio.sleep(0.01)
            await super().append(run, event, *more, **named)

    journal = SlowJournal()

    def make(*replies: Reply | str) -> Agent[str]:
        model = ScriptedModel(*replies)
        return Agent(model, tools=[pay, look], journal=journal)

    async with make(reply).stream("Pay.", session="s") as stream:
        async for _ in stream:
            pass
    await leaving[0]
    assert paid == ["ada", "bob"]
    result = await make("Done.").resume("s")
    assert result.text == "Done."
    assert paid == ["ada", "bob"]
    results: list[Any] = [part for message in result.messages for part in message.parts]
    assert "It may have taken effect" not in repr(results)
    assert "stopped before it finished" not in repr(results)
