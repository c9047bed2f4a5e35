"""A conversation that waits for somebody outlives the terminal, and goes on in the next one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.cli.terminal import holdfast

from holdfast.testing import Emulator
from holdfast.testing.emulator import call

Start = Callable[..., Emulator]

TOOLS = '''
from holdfast import ClarificationRequest, ToolContext, tool

@tool(effect="write")
async def book(ctx: ToolContext, city: str) -> str:
    """Book a trip."""
    return city + ": " + await ctx.ask(ClarificationRequest(question="Which class?", options=("1", "2")))
'''


@pytest.fixture
def chat(tmp_path: Path, emulator: Start) -> Callable[..., tuple[int, str, str]]:
    """`holdfast chat` over one journal, with these lines typed."""

    def reply(request: object) -> object:
        messages = request.body["messages"]  # type: ignore[attr-defined]
        if messages[-1]["role"] == "tool":
            return f"Booked {messages[-1]['content']}."
        asked = request.text == "book"  # type: ignore[attr-defined]
        return call("book", {"city": "Porto"}, id="1") if asked else "Hello."

    (tmp_path / "trips.py").write_text(TOOLS)
    file = tmp_path / "agent.toml"
    url = emulator(reply).base_url
    file.write_text(f'model = "openai:demo"\nbase_url = "{url}"\ntools = ["trips:book"]\n')
    journal = f"sqlite:///{tmp_path}/talk.db"
    env = {"OPENAI_API_KEY": "k", "PYTHONPATH": str(tmp_path)}

    def typed(said: str, *more: str) -> tuple[int, str, str]:
        done = holdfast(
            "chat", "--agent", str(file), "--journal", journal, *more, said=said, env=env
        )
        return done.returncode, done.stdout, done.stderr

    return typed


def test_a_question_that_nobody_answers_waits_for_the_next_terminal(
    chat: Callable[..., tuple[int, str, str]],
) -> None:
    status, out, margin = chat("book\n")
    assert (status, out) == (0, "")
    assert "? Which class?" in margin
    assert "the question stays open" in margin
    # Nobody answers now either, and it still waits.
    assert "the question stays open" in chat("")[2]
    status, out, margin = chat("2\nand now?\n")
    assert (status, out) == (0, "Booked Porto: 2.\nHello.\n")
    assert "? Which class?" in margin
    assert chat("hi\n")[1:] == ("Hello.\n", "")


def test_a_question_is_answered_in_line_as_ever(
    chat: Callable[..., tuple[int, str, str]],
) -> None:
    status, out, _ = chat("book\n1\nhi\n")
    assert (status, out) == (0, "Booked Porto: 1.\nHello.\n")


def test_another_session_is_another_conversation(
    chat: Callable[..., tuple[int, str, str]],
) -> None:
    chat("book\n")
    assert chat("hi\n", "--session", "other")[1:] == ("Hello.\n", "")
    assert "? Which class?" in chat("")[2]


def test_what_is_no_journal_is_said_by_its_option() -> None:
    done = holdfast("chat", "--model", "ollama:x", "--journal", "talk.txt", said="hi\n")
    assert done.returncode == 2
    assert "--journal" in done.stderr
    assert "Traceback" not in done.stderr
