"""Ctrl-C ended `holdfast chat` when the current turn had waited for an answer before."""

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


@pytest.mark.parametrize("first", ["Porto", "Hello?"])
async def test_the_program_goes_on(capsys: pytest.CaptureFixture[str], first: str) -> None:
    journal = MemoryJournal()
    begun = asyncio.Event()

    async def never(_: object) -> str:
        begun.set()
        await asyncio.Event().wait()
        return ""

    model = ScriptedModel(ToolCall("c", "book", "{}"), never, "Hello.", "Hello.")
    agent = Agent(model, tools=[book], journal=journal, on_wait="suspend")
    await agent.run("Book.", session="ada")
    if first != "Porto":  # answered elsewhere, and nobody went on
        (question,) = await agent.questions("ada")
        await agent.answer("ada", question.answer("Porto"))
    typed = iter([first, "and now?"])

    async def read() -> str | None:
        return next(typed, None)

    talk = ChatLoop(conversation(agent), read, keep_open=True)
    talking = asyncio.ensure_future(talk.run_until_end())
    async with asyncio.timeout(20):
        await begun.wait()
        talk._on_interrupt()
        await talking
    shown = capsys.readouterr()
    assert shown.err.count("■ stopped") == 1
    assert shown.out == "Hello.\n" * (1 if first == "Porto" else 2)
    assert not talk.failures
