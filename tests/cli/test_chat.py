"""`holdfast chat`, driven by keys in a terminal and by lines through a pipe."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.cli.terminal import Terminal, holdfast, interrupted, piped, told

from holdfast.testing import Emulator
from holdfast.testing.emulator import ErrorResponse, Pace

Start = Callable[..., Emulator]


def to(provider: Emulator) -> tuple[str, ...]:
    return ("chat", "--model", "openai:demo", "--base-url", provider.base_url)


@pytest.fixture
def state(tmp_path: Path) -> dict[str, str]:
    return {"XDG_STATE_HOME": str(tmp_path)}


def test_each_line_is_a_turn_of_one_conversation(emulator: Start) -> None:
    provider = emulator()
    done = holdfast(*to(provider), said="one\n\n  \r\ntwo\r\nlast without an end")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "You said: one\nYou said: two\nYou said: last without an end\n"
    body = provider.requests[-1].body
    assert isinstance(body, dict)
    assert [message["role"] for message in body["messages"]] == ["user", "assistant"] * 2 + ["user"]


def test_quit_ends_the_chat_and_later_lines_are_not_read(emulator: Start) -> None:
    done = holdfast(*to(emulator()), said="one\n/quit\ntwo\n")
    assert (done.returncode, done.stdout) == (0, "You said: one\n")


def test_no_input_at_all_is_not_a_turn(emulator: Start) -> None:
    assert holdfast(*to(emulator()), said="").stdout == ""


def test_a_failed_turn_is_reported_and_the_next_one_runs(emulator: Start) -> None:
    provider = emulator(faults=[ErrorResponse("bad_key")])
    done = holdfast(*to(provider), said="one\ntwo\n")
    assert done.returncode == 1
    assert done.stdout == "You said: two\n"
    assert "✗ openai denied access" in done.stderr
    assert done.stderr.count("\n") == 1


def test_ctrl_c_stops_the_turn_and_not_the_program(emulator: Start, state: dict[str, str]) -> None:
    provider = emulator(
        lambda request: "one two " * 20 if request.text == "go" else "still here",
        faults=[Pace(1)],
    )
    with Terminal(*to(provider), env=state) as screen:
        screen.wait_for(">")
        screen.press("go\r")
        screen.wait_for("one")
        screen.press("\x03")
        screen.wait_for("stopped")
        screen.wait_for(">")
        screen.press("and now?\r")
        screen.wait_for("still here")
        screen.wait_for(">")
        screen.press("\x04")
        assert screen.status() == 0
        assert "Traceback" not in screen.shown
    body = provider.requests[-1].body
    assert isinstance(body, dict)
    assert [m["role"] for m in body["messages"]][-1] == "user"
    assert "go" in str(body["messages"][0])


def test_ctrl_c_at_the_prompt_forgets_the_line(emulator: Start, state: dict[str, str]) -> None:
    provider = emulator()
    with Terminal(*to(provider), env=state) as screen:
        screen.wait_for(">")
        screen.press("never sent")
        screen.wait_for("sent")
        screen.press("\x03")
        screen.wait_for(">")
        screen.press("hello\r")
        screen.wait_for("You said: hello")
        screen.wait_for(">")
        screen.press("/quit\r")
        assert screen.status() == 0
    assert len(provider.requests) == 1


def test_the_history_of_lines_is_readable_by_its_owner_only(
    emulator: Start, state: dict[str, str], tmp_path: Path
) -> None:
    with Terminal(*to(emulator()), env=state) as screen:
        screen.wait_for(">")
        screen.press("remember me\r")
        screen.wait_for("You said: remember me")
        screen.wait_for(">")
        screen.press("\x04")
        assert screen.status() == 0
    kept = tmp_path / "holdfast" / "chat-history"
    assert "remember me" in kept.read_text()
    assert kept.stat().st_mode & 0o077 == 0


def test_a_chat_works_when_its_history_cannot_be_written(emulator: Start, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    env = {"XDG_STATE_HOME": str(tmp_path / "file")}
    with Terminal(*to(emulator()), env=env) as screen:
        screen.wait_for(">")
        screen.press("hello\r")
        screen.wait_for("You said: hello")


def test_ctrl_c_ends_a_chat_that_waits_for_a_pipe(emulator: Start) -> None:
    with piped(*to(emulator())) as process:
        assert told(process, b"hello\n") == b"You said: hello\n"
        assert interrupted(process) == (130, b"")


WITHOUT_PROMPT_TOOLKIT = (
    sys.executable,
    "-c",
    "import sys; sys.modules['prompt_toolkit'] = None; from holdfast.cli import main; sys.exit(main.main())",
)


def test_a_plain_prompt_is_used_without_prompt_toolkit(emulator: Start) -> None:
    provider = emulator(
        lambda request: "one two " * 20 if request.text == "go" else "still here",
        faults=[Pace(1)],
    )
    with Terminal(*to(provider), program=WITHOUT_PROMPT_TOOLKIT) as screen:
        screen.wait_for("> ")
        screen.press("go\n")
        screen.wait_for("one")
        screen.press("\x03")
        screen.wait_for("stopped")
        screen.wait_for("> ")
        screen.press("and now?\n")
        screen.wait_for("still here")
        screen.wait_for("> ")
        screen.press("\x04")
        assert screen.status() == 0


def test_ctrl_c_at_a_plain_prompt_ends_it(emulator: Start) -> None:
    with Terminal(*to(emulator()), program=WITHOUT_PROMPT_TOOLKIT) as screen:
        screen.wait_for("> ")
        screen.press("\x03")
        assert screen.status() == 130
        assert "Traceback" not in screen.shown
