"""A tool was cancelled while it asked, and the journal could not say whether the question was kept.

The turn went on as if it was not, and ended with a ConflictError when the tool asked again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from holdfast import Agent, ClarificationQuestion, MemoryJournal, ToolContext, tool
from holdfast.core.effects import Effect
from holdfast.core.events import Event, QuestionAsked
from holdfast.core.messages import ToolCall
from holdfast.journal.journal_errors import JournalUnreachableError
from holdfast.journal.port import Record
from holdfast.testing import FakeClock, ScriptedModel

pytestmark = pytest.mark.anyio


class Leaving(MemoryJournal):
    """Keeps a question, and is gone before it can say so."""

    def __init__(self) -> None:
        super().__init__()
        self.gone = asyncio.Event()

    async def append(
        self, run: str, event: Event, effect: Effect | None = None, *, marker: Event | None = None
    ) -> None:
        await super().append(run, event, effect, marker=marker)
        if isinstance(event, QuestionAsked):
            self.gone.set()
            await asyncio.Event().wait()

    async def read(self, run: str, after: int = 0) -> Sequence[Record]:
        if self.gone.is_set():
            self.gone.clear()
            raise JournalUnreachableError("talk", "cannot be reached")
        return await super().read(run, after)


async def test_with_the_error_of_the_journal() -> None:
    journal = Leaving()

    @tool(effect="idempotent")
    async def ask(context: ToolContext) -> str:
        """Ask."""
        asking = asyncio.create_task(context.ask(ClarificationQuestion(question="Sure?")))
        if context.attempt > 1:
            return await asking
        await journal.gone.wait()
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        raise ConnectionError("is tried again")

    agent = Agent(
        ScriptedModel(ToolCall("c", "ask", "{}"), "Done."),
        tools=[ask],
        journal=journal,
        on_question=silent,
        clock=FakeClock(),
    )
    with pytest.raises(JournalUnreachableError):
        await agent.run("Go.", session="s")


async def silent(_: object) -> object:
    return await asyncio.Event().wait()
