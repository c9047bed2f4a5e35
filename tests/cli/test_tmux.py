"""`holdfast chat` as a person sees it: in tmux, with questions, edits, limits and Ctrl-C."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.cli.terminal import HOLDFAST, environment
from tests.cli.tmux import TMUX, Screen

from holdfast.testing import Emulator
from holdfast.testing.emulator import call

pytestmark = [  # needs a terminal
    pytest.mark.slow,
    pytest.mark.skipif(
        TMUX is None, reason="TMUX IS NOT INSTALLED: nobody drives the real terminal here"
    ),
]

Start = Callable[..., Emulator]

TOOLS = '''
from holdfast import tool

@tool(effect="write")
def pay(to: str, euros: int) -> str:
    """Pay somebody."""
    return f"{to} got {euros} euros"

@tool(effect="read")
def look(place: int) -> str:
    """Look somewhere."""
    return f"nothing at {place}"
'''


def choose_reply(request: Any) -> object:
    """Return a reply that pays for "pay", calls tools forever for "search", and otherwise answers."""
    messages = request.body["messages"]
    last = messages[-1]
    asked = next(one["content"] for one in reversed(messages) if one["role"] == "user")
    looked = sum(one["role"] == "tool" for one in messages)
    if asked.startswith("pay"):
        if last["role"] == "tool":
            return f"It says: {last['content']}."
        return call("pay", {"to": asked.split()[1], "euros": 10}, id=f"p{len(messages)}")
    if asked == "search":
        return call("look", {"place": looked}, id=f"l{len(messages)}")
    if asked == "markdown":
        return "# Porto\n\nIt has **six** bridges.\n\n- one\n"
    if asked == "who":
        return f"I am {request.body['model']}."
    return f"You said {asked}."


@pytest.fixture
def screen(tmp_path: Path, emulator: Start) -> Iterator[Screen]:
    (tmp_path / "desk.py").write_text(TOOLS)
    file = tmp_path / "agent.toml"
    url = emulator(choose_reply).base_url
    file.write_text(
        f'model = "openai:demo"\nbase_url = "{url}"\n'
        'tools = ["desk:pay", "desk:look"]\n'
        '[permissions]\nask = ["pay"]\nallow = ["look"]\n[continuation]\niterations = 2\n'
    )
    env = {
        "OPENAI_API_KEY": "k",
        "PYTHONPATH": os.pathsep.join((str(tmp_path), os.environ.get("PYTHONPATH", ""))),
        "XDG_STATE_HOME": str(tmp_path),
        "PATH": environment().get("PATH", ""),
        "LANG": "C.UTF-8",
    }
    with Screen([HOLDFAST, "chat", "--agent", str(file)], tmp_path, env) as screen:
        screen.shows("Ctrl-C stops a turn")
        yield screen


def test_a_person_approves_edits_always_and_denies(screen: Screen) -> None:
    screen.type("pay Ann")
    for shown in ("? May pay run with", '"Ann"', "10"):
        screen.shows(shown)
    screen.type("maybe")
    screen.shows("not a valid answer")
    screen.type('e {"to": "Ann", "euros": 3}')
    screen.shows("It says: Ann got 3 euros.")
    screen.type("pay Bob")
    screen.shows('"Bob"')
    screen.type("n not him")
    screen.shows("It says: not him.")
    screen.type("pay Cid")
    screen.shows('"Cid"')
    screen.type("a")
    screen.shows("It says: Cid got 10 euros.")
    screen.type("pay Dan")
    shown = screen.shows("It says: Dan got 10 euros.")
    assert shown.count("? May pay run with") == 4  # the first of them twice, and none for Dan
    screen.type("/quit")
    screen.shows("ended with 0")


def test_a_turn_continues_after_its_limit_when_a_person_says_so(screen: Screen) -> None:
    screen.type("search")
    screen.shows("? ")
    screen.type("y 1")
    screen.shows("The limit of 3 iterations is reached")
    screen.type("n")
    screen.shows("continuation was not approved")
    screen.type("hello")
    screen.shows("You said hello.")


def test_ctrl_c_stops_a_question_and_the_next_turn_runs(screen: Screen) -> None:
    screen.type("pay Ann")
    screen.shows("with other arguments\n>")
    screen.press("C-c")
    screen.shows("stopped")
    screen.type("hello")
    screen.shows("so far\n>")  # before the prompt is there, it would not be read as a key
    screen.press("C-d")
    screen.shows("ended with 0")


def test_markdown_is_rendered(screen: Screen) -> None:
    screen.type("markdown")
    shown = screen.shows("• one")
    assert "It has six bridges." in shown
    assert "**" not in shown


def test_the_tokens_stand_below_a_turn(screen: Screen) -> None:
    screen.type("hello")
    screen.shows("tokens in")


def test_a_paste_is_one_message(screen: Screen) -> None:
    screen.shows("\n>")
    screen.paste("one\ntwo\nthree")
    screen.shows("three")
    screen.press("Enter")
    screen.shows("You said one\ntwo\nthree.".replace("\n", " "))


def test_a_paste_while_a_turn_runs_is_one_message_afterwards(screen: Screen) -> None:
    screen.type("pay Ann")
    screen.shows("with other arguments\n>")
    screen.type("y")
    screen.paste("one\ntwo")
    screen.shows("It says: Ann got 10 euros.")
    screen.shows("two")
    screen.press("Enter")
    screen.shows("You said one two.")


def test_commands_change_the_conversation(screen: Screen, tmp_path: Path) -> None:
    screen.type("/help")
    screen.shows("/retry")
    screen.type("hello")
    screen.shows("You said hello.")
    screen.type("/retry")
    screen.type("bye")
    shown = screen.shows("You said bye.")
    assert shown.count("You said hello.") == 2
    screen.type("/undo")
    screen.shows("forgot: bye")
    saved = tmp_path / "talk.md"
    screen.type(f"/save {saved}")
    screen.shows("saved 2 messages")
    assert "You said hello." in saved.read_text()
    assert "bye" not in saved.read_text()
    screen.type(f"/save {saved}")
    screen.shows("cannot be written: File exists")
    screen.type("/new other")
    screen.shows("the conversation is now other")
    screen.type("/undo")
    screen.shows("there is no session 'other'")
    screen.type("/tools")
    screen.shows("tools: pay, look")
    screen.type("/sessions")
    screen.shows("1 turn ")
    screen.type("/nothing")
    screen.shows("/nothing: is not a command")
    screen.type("/etc/hosts is a file")
    screen.shows("You said /etc/hosts is a file.")
    screen.type("/quit")
    screen.shows("ended with 0")


def test_the_model_of_the_next_turns_can_be_changed(screen: Screen) -> None:
    screen.type("/model")
    screen.shows("model: openai:demo")
    screen.type("/model opnai:other")
    screen.shows("unknown provider 'opnai'")
    screen.type("who")
    screen.shows("I am demo.")
    screen.type("/model openai:other")
    screen.shows("model: openai:other")
    screen.type("who")
    screen.shows("I am other.")
    screen.type("/new talk")
    screen.shows("the conversation is now talk")
    screen.type("/model")
    assert screen.shows("so far").count("model: openai:") >= 2
    screen.type("/retry")
    screen.shows("there is no session 'talk'")
