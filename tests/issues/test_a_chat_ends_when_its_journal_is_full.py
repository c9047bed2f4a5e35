"""`holdfast chat` asked again and again for a turn that waits and could not go on: its disk was full."""

from __future__ import annotations

import asyncio

import pytest
from tests.cli.terminal import conversation

from holdfast import Agent, ClarificationQuestion, MemoryJournal, ToolContext, tool
from holdfast.cli.chat_loop import ChatLoop
from holdfast.core.effects import Effect
from holdfast.core.events import Event, TurnResumed
from holdfast.core.messages import ToolCall
from holdfast.journal.journal_errors import JournalStorageError
from holdfast.testing import ScriptedModel


class FullJournal(MemoryJournal):
    """Has no room for a turn to go on."""

    full = True

    async def append(
        self, run: str, event: Event, effect: Effect | None = None, *, marker: Event | None = None
    ) -> None:
        if self.full and isinstance(event, TurnResumed):
            raise JournalStorageError("talk.db", "the disk is full")
        await super().append(run, event, effect, marker=marker)


@tool(effect="write")
async def book(ctx: ToolContext) -> str:
    """Book a trip."""
    return await ctx.ask(ClarificationQuestion(question="Where?"))


async def test_it_says_so_and_takes_the_next_line(capsys: pytest.CaptureFixture[str]) -> None:
    journal = FullJournal()
    model = ScriptedModel(ToolCall("c", "book", "{}"), "Booked.", "Hello.")
    agent = Agent(model, tools=[book], journal=journal, on_wait="suspend")
    await agent.run("Book.", session="ada")
    (question,) = await agent.questions("ada")
    await agent.answer("ada", question.answer("Porto"))
    typed = iter(["one", "two"])

    async def read() -> str | None:
        line = next(typed, None)
        journal.full = line == "one"
        return line

    talk = ChatLoop(conversation(agent), read, keep_open=True)
    async with asyncio.timeout(20):
        await talk.run_until_end()
    shown = capsys.readouterr()
    assert shown.out == "Booked.\nHello.\n"
    assert shown.err.count("the disk is full") == 1
    assert shown.err.count("The turn of 'ada' was") == 1
    assert "request itself" not in shown.err, "no provider refused anything"
    assert talk.failures == 2
