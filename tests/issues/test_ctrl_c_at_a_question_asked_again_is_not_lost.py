"""Ctrl-C at a question that `holdfast chat` asked again, because a line met a turn that waits, hung it.

It was taken for a wish to stop the turn of that line, which had ended, and the prompt waited for
the question to be taken back.
"""

from __future__ import annotations

import asyncio

import pytest
from tests.cli.terminal import conversation

from holdfast import Agent, ClarificationQuestion, MemoryJournal, ToolContext, tool
from holdfast.cli.chat_loop import ChatLoop
from holdfast.core.messages import ToolCall
from holdfast.testing import ScriptedModel


@tool(effect="write")
async def book(ctx: ToolContext) -> str:
    """Book a trip."""
    return await ctx.ask(ClarificationQuestion(question="Where?"))


async def test_there_is_no_turn_to_stop(capsys: pytest.CaptureFixture[str]) -> None:
    model = ScriptedModel(ToolCall("c", "book", "{}"), "Booked.", "Hello.")
    agent = Agent(model, tools=[book], journal=MemoryJournal(), on_wait="suspend")
    typed = iter(["book", None, "and now?", "Porto"])
    stopped = []

    async def read() -> str | None:
        line = next(typed, None)
        if line == "Porto":
            stopped.append(talk.stop_turn())  # as a prompt asks at Ctrl-C
        return line

    talk = ChatLoop(conversation(agent), read, keep_open=True)
    async with asyncio.timeout(20):
        await talk.run_until_end()
    assert stopped == [False]
    assert capsys.readouterr().out == "Booked.\nHello.\n"
