"""A session that waits for an answer continues in the next terminal."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.cli.terminal import Terminal, conversation, holdfast

from holdfast import Agent, ClarificationQuestion, MemoryJournal, ToolContext, tool
from holdfast.cli.chat_loop import ChatLoop
from holdfast.core.messages import ToolCall, ToolResult
from holdfast.testing import Emulator, ScriptedModel
from holdfast.testing.emulator import EmulatedRequest, Pace, call
from holdfast.testing.emulator.script import ReplyLike

Start = Callable[..., Emulator]
Given = Callable[[Emulator], tuple[tuple[str, ...], dict[str, str]]]

TOOLS = '''
from holdfast import ClarificationQuestion, ToolContext, tool

@tool(effect="write")
async def book(ctx: ToolContext, city: str) -> str:
    """Book a trip."""
    return city + ": " + await ctx.ask(ClarificationQuestion(question="Which class?", options=("1", "2")))
'''


def choose_reply(request: EmulatedRequest) -> ReplyLike:
    """Return a reply that books one city, or two in turn, and then names the results."""
    turn = list(request.messages)
    while any(message.role == "user" for message in turn[1:]):
        del turn[0]
    said = turn[0].text
    if not said.startswith("book"):
        return "Hello."
    booked = [part.text for m in turn for part in m.parts if isinstance(part, ToolResult)]
    cities = ["Porto", "Faro"][: len(said.split())]
    if len(booked) < len(cities):
        return call("book", {"city": cities[len(booked)]}, id=str(len(booked)))
    return f"Booked {', '.join(booked)}."


@pytest.fixture
def given(tmp_path: Path) -> Given:
    """The arguments of `holdfast chat` with one journal, and its environment."""

    def of(provider: Emulator) -> tuple[tuple[str, ...], dict[str, str]]:
        (tmp_path / "trips.py").write_text(TOOLS)
        file = tmp_path / "agent.toml"
        url = provider.base_url
        file.write_text(f'model = "openai:demo"\nbase_url = "{url}"\ntools = ["trips:book"]\n')
        path = os.pathsep.join((str(tmp_path), os.environ.get("PYTHONPATH", "")))
        env = {"OPENAI_API_KEY": "k", "PYTHONPATH": path, "XDG_STATE_HOME": str(tmp_path)}
        journal = f"sqlite:///{tmp_path}/talk.db"
        return ("chat", "--agent", str(file), "--journal", journal), env

    return of


@pytest.fixture
def chat(given: Given, emulator: Start) -> Callable[..., tuple[int, str, str]]:
    """Type these lines."""
    arguments, env = given(emulator(choose_reply))

    def typed(said: str, *more: str) -> tuple[int, str, str]:
        done = holdfast(*arguments, *more, said=said, env=env)
        return done.returncode, done.stdout, done.stderr

    return typed


@pytest.mark.slow  # starts several terminals
def test_a_question_that_nobody_answers_waits_for_the_next_terminal(
    chat: Callable[..., tuple[int, str, str]],
) -> None:
    status, out, margin = chat("book\n")
    assert (status, out) == (0, "")
    assert "? Which class?" in margin
    assert "the question stays open" in margin
    # Without an answer it still waits.
    assert "the question stays open" in chat("")[2]
    status, out, margin = chat("2\nand now?\n")
    assert (status, out) == (0, "Booked Porto: 2.\nHello.\n")
    assert "? Which class?" in margin
    assert margin.endswith('  ▸ book({"city":"Porto"})\n  ✓ book: Porto: 2\n')
    assert chat("hi\n")[1:] == ("Hello.\n", "")


@pytest.mark.slow  # starts several terminals
def test_later_questions_of_the_turn_are_answered_in_the_chat(
    chat: Callable[..., tuple[int, str, str]],
) -> None:
    chat("book both\n")
    status, out, margin = chat("2\n1\nhi\n")
    assert (status, out) == (0, "Booked Porto: 2, Faro: 1.\nHello.\n")
    assert margin.count("? Which class?") == 2


@tool(effect="write")
async def book(ctx: ToolContext) -> str:
    """Book a trip."""
    where = await ctx.ask(ClarificationQuestion(question="Where?"))
    return f"{where}, {await ctx.ask(ClarificationQuestion(question='When?'))}"


async def waiting() -> Agent[str]:
    """An agent whose session "ada" waits for an answer."""
    model = ScriptedModel(ToolCall("c", "book", "{}"), "Booked.", "Hello.")
    agent = Agent(model, tools=[book], journal=MemoryJournal(), on_wait="suspend")
    await agent.run("Book.", session="ada")
    return agent


async def test_later_questions_stay_open_at_the_end_of_the_input(
    capsys: pytest.CaptureFixture[str],
) -> None:
    agent = await waiting()
    typed = iter(["Porto", None, "never read"])

    async def read() -> str | None:
        return next(typed)

    await ChatLoop(conversation(agent), read, keep_open=True).run_until_end()
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.count("? When?") == 1
    assert shown.err.count("the question stays open") == 1
    assert [question.key for question in await agent.questions("ada")] == ["t1.i0.tool.0.ask.1"]


async def test_the_result_of_a_turn_that_another_process_finished_is_shown(
    capsys: pytest.CaptureFixture[str],
) -> None:
    agent = await waiting()
    typed = iter(["Faro"])

    async def read() -> str | None:
        line = next(typed, None)
        if line is not None:
            for answer in ("Porto", "May"):
                (question,) = await agent.questions("ada")
                await agent.answer("ada", question, answer)
                await agent.resume("ada")
        return line

    await ChatLoop(conversation(agent), read, keep_open=True).run_until_end()
    assert capsys.readouterr().out == "Booked.\n"


@pytest.mark.slow  # starts several terminals
def test_the_continued_turn_is_streamed_and_ctrl_c_stops_it(given: Given, emulator: Start) -> None:
    arguments, env = given(emulator(choose_reply, faults=[None, Pace(1)]))
    holdfast(*arguments, said="book\n", env=env)
    with Terminal(*arguments, env=env) as screen:
        screen.wait_for("Which class?")
        screen.wait_for(">")
        screen.press("2\r")
        screen.wait_for("▸ book")
        screen.wait_for("Booked")
        screen.press("\x03")
        screen.wait_for("stopped")
        screen.wait_for(">")
        screen.press("and now?\r")
        screen.wait_for("Hello.")
        screen.wait_for(">")
        screen.press("\x04")
        assert screen.status() == 0


@pytest.mark.slow  # starts a program or a server
def test_a_question_is_answered_in_the_chat(
    chat: Callable[..., tuple[int, str, str]],
) -> None:
    status, out, _ = chat("book\n1\nhi\n")
    assert (status, out) == (0, "Booked Porto: 1.\nHello.\n")


@pytest.mark.slow  # starts several terminals
def test_another_session_is_another_conversation(
    chat: Callable[..., tuple[int, str, str]],
) -> None:
    chat("book\n")
    assert chat("hi\n", "--session", "other")[1:] == ("Hello.\n", "")
    assert "? Which class?" in chat("")[2]


def test_an_invalid_journal_is_reported_by_its_option() -> None:
    done = holdfast("chat", "--model", "ollama:x", "--journal", "mysql://talk", said="hi\n")
    assert done.returncode == 2
    assert "--journal" in done.stderr
    assert "Traceback" not in done.stderr
