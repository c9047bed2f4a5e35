"""Ctrl-C in a chat stops the current turn, or ends the chat where there is none."""

from __future__ import annotations

import asyncio
import io
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from prompt_toolkit.application import create_app_session
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput
from tests.cli.terminal import conversation

from holdfast import Agent, ClarificationQuestion, MemoryJournal, ToolContext, tool
from holdfast.cli.chat_loop import ChatLoop
from holdfast.cli.input_lines import LineReader
from holdfast.cli.prompt import make_prompt_reader
from holdfast.core.messages import ToolCall
from holdfast.testing import ScriptedModel


@tool(effect="write")
async def book(ctx: ToolContext) -> str:
    """Book a trip."""
    return await ctx.ask(ClarificationQuestion(question="Where?"))


@pytest.mark.parametrize("first", ["Porto", "Hello?"])
async def test_ctrl_c_stops_a_continued_turn(
    capsys: pytest.CaptureFixture[str], first: str
) -> None:
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
    async with asyncio.timeout(60):
        await begun.wait()
        talk._on_interrupt()
        await talking
    shown = capsys.readouterr()
    assert shown.err.count("■ stopped") == 1
    assert shown.out == "Hello.\n" * (1 if first == "Porto" else 2)
    assert not talk.failures


async def test_ctrl_c_at_a_repeated_question_finds_no_turn_to_stop(
    capsys: pytest.CaptureFixture[str],
) -> None:
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
    async with asyncio.timeout(60):
        await talk.run_until_end()
    assert stopped == [False]
    assert capsys.readouterr().out == "Booked.\nHello.\n"


@pytest.mark.slow  # starts a program or a server
async def test_ctrl_c_between_a_turn_and_the_prompt_does_not_end_the_chat(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    with create_pipe_input() as keys, create_app_session(input=keys, output=DummyOutput()):
        came = iter(["one\r", "two\r", "/quit\r"])

        async def read() -> str | None:
            # The signal is there, and nobody has looked at it, when the prompt begins.
            os.kill(os.getpid(), signal.SIGINT)
            keys.send_text(next(came))
            return await prompt()

        talk = ChatLoop(conversation(Agent(ScriptedModel("One.", "Two."))), read)
        prompt = make_prompt_reader(LineReader(0), talk.stop_turn, talk.catch_interrupts)
        try:
            async with asyncio.timeout(60):
                await asyncio.ensure_future(talk.run_until_end())
        finally:
            asyncio.get_running_loop().remove_signal_handler(signal.SIGINT)
    printed = capsys.readouterr().out.replace("\x1b[?2004h", "")  # asks for the marks of a paste
    assert printed == "One.\nTwo.\n"


# A chat in a pipe.


class _Pipe(io.StringIO):
    """Standard output; `told` is called for each line that is whole."""

    told: Callable[[], None]

    def write(self, text: str) -> int:
        written = super().write(text)
        if "\n" in text:
            self.told()
        return written


def _chat(agent: Agent[str], lines: list[str]) -> ChatLoop:
    typed = iter(lines)

    async def read() -> str | None:
        return next(typed, None)

    return ChatLoop(conversation(agent), read, prompts=False)


async def test_ctrl_c_after_an_answer_ends_a_chat_in_a_pipe(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pipe = _Pipe()
    monkeypatch.setattr("sys.stdout", pipe)
    model = ScriptedModel("One.", "Two.")
    talk = _chat(Agent(model, journal=MemoryJournal()), ["one", "two"])
    pipe.told = talk._on_interrupt
    with pytest.raises(asyncio.CancelledError):
        async with asyncio.timeout(60):
            await asyncio.ensure_future(talk.run_until_end())
    assert pipe.getvalue() == "One.\n"
    assert len(model.requests) == 1


async def test_ctrl_c_during_a_turn_ends_a_chat_in_a_pipe(
    capsys: pytest.CaptureFixture[str],
) -> None:
    begun = asyncio.Event()

    async def never(_: object) -> str:
        begun.set()
        await asyncio.Event().wait()
        return ""

    agent = Agent(ScriptedModel(never, "Two."), journal=MemoryJournal())
    talk = _chat(agent, ["one", "two"])
    talking = asyncio.ensure_future(talk.run_until_end())
    async with asyncio.timeout(60):
        await begun.wait()
        talk._on_interrupt()
        with pytest.raises(asyncio.CancelledError):
            await talking
    assert capsys.readouterr() == ("", "")
    # The turn has its end in the journal, and the conversation can go on.
    result = await agent.run("again", session="ada")
    assert result.text == "Two."
    assert [message.text for message in result.history if message.role == "user"] == [
        "one",
        "again",
    ]
