"""Ctrl-C for the `holdfast` command in a process of its own: the exit status, the journal, and the terminal."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.cli.terminal import Terminal, environment, interrupted, piped, told

from holdfast import Agent, SqliteJournal
from holdfast.cli.main import main
from holdfast.testing import Emulator, ScriptedModel
from holdfast.testing.emulator import EmulatedRequest, Pace, call
from holdfast.testing.emulator.script import ReplyLike

pytestmark = pytest.mark.slow  # interrupts processes, one of them in a terminal

PATIENCE = 60
INTERRUPT = "os.kill(os.getpid(), signal.SIGINT)"
BEGIN = "import atexit, os, signal, sys;"
END = "from holdfast.cli.main import main; sys.exit(main())"
AT_END = f"{BEGIN} atexit.register(lambda: {INTERRUPT}); {END}"
AT_IMPORT = f"""
{BEGIN}
class Finder:
    def find_spec(name, *_):
        if name == {{name!r}}:
            {INTERRUPT}
sys.meta_path.insert(0, Finder)
{END}
"""


def ended(code: str, *words: str) -> tuple[int, str, str]:
    done = subprocess.run(
        [sys.executable, "-c", code, *words],
        capture_output=True,
        text=True,
        env=environment(),
        timeout=PATIENCE,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(
    "name",
    ["argparse", "holdfast.cli.sessions_command", "holdfast.core.errors", "msgspec", "asyncio"],
)
def test_ctrl_c_while_modules_are_loaded(name: str) -> None:
    assert ended(AT_IMPORT.format(name=name), "sessions", "list", "no.db") == (130, "", "")


def test_ctrl_c_while_the_program_ends() -> None:
    status, out, margin = ended(AT_END, "--version")
    assert (status, margin) == (130, "")
    assert out.startswith("holdfast ")


def test_ctrl_c_is_ignored_where_the_program_was_started_so() -> None:
    ignoring = f"import signal; signal.signal(signal.SIGINT, signal.SIG_IGN); {AT_END}"
    assert ended(ignoring, "--version")[0] == 0


@pytest.fixture
def path(tmp_path: Path) -> str:
    with SqliteJournal(tmp_path / "talk.db") as journal:
        asyncio.run(Agent(ScriptedModel("Hi"), journal=journal).run("Hi", session="ada"))
    return str(tmp_path / "talk.db")


def test_ctrl_c_at_the_question_whether_to_delete(path: str) -> None:
    with piped("sessions", "delete", path, "ada") as process:
        assert process.stderr is not None
        said = b""
        while not said.endswith(b"Type yes: "):
            piece = process.stderr.read(1)
            assert piece, said
            said += piece
        assert interrupted(process) == (130, b"")
    assert main(["sessions", "show", path, "ada"]) == 0


PRINTS = """
import sys
from holdfast.cli import emulate_command
from holdfast.cli.main import main

def interrupted(_):
    print("something")
    raise KeyboardInterrupt

emulate_command.main = interrupted
sys.exit(main())
"""


def test_ctrl_c_closes_the_journal(tmp_path: Path, emulator: Callable[..., Emulator]) -> None:
    model = ("--model", "openai:demo", "--base-url", emulator().base_url)
    file = f"sqlite:///{tmp_path / 'talk.db'}"
    with piped("chat", *model, "--journal", file) as process:
        assert told(process, b"hello\n") == b"You said: hello\n"
        assert interrupted(process) == (130, b"")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["talk.db", "talk.db.lock"]


def test_ctrl_c_waits_for_no_reader_of_the_output() -> None:
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb"), os.fdopen(writing, "wb", buffering=0) as full:
        os.set_blocking(writing, False)
        while full.write(b" " * 1024):
            pass
        os.set_blocking(writing, True)
        done = subprocess.run(
            [sys.executable, "-c", PRINTS, "emulate"],
            stdout=full,
            stderr=subprocess.PIPE,
            env=environment(PYTHONUNBUFFERED=""),
            timeout=PATIENCE,
            check=False,
        )
    assert (done.returncode, done.stderr) == (130, b"")


TOOLS = '''
from holdfast import tool

@tool(effect="write")
def pay(to: str) -> str:
    """Pay somebody."""
    return f"{to} is paid"
'''


def choose_reply(request: EmulatedRequest) -> ReplyLike:
    return "one two " * 30 if request.tool_results else call("pay", {"to": "Ann"})


def test_ctrl_c_after_an_answer_at_a_prompt_stops_the_turn(
    tmp_path: Path, emulator: Callable[..., Emulator]
) -> None:
    (tmp_path / "desk.py").write_text(TOOLS)
    url = emulator(choose_reply, faults=[None, Pace(1)]).base_url
    (tmp_path / "agent.toml").write_text(
        f'model = "openai:demo"\nbase_url = "{url}"\n'
        'tools = ["desk:pay"]\n[permissions]\nask = ["pay"]\n'
    )
    env = {
        "OPENAI_API_KEY": "k",
        "PYTHONPATH": os.pathsep.join((str(tmp_path), os.environ.get("PYTHONPATH", ""))),
        "XDG_STATE_HOME": str(tmp_path),
    }
    with Terminal("chat", "--agent", str(tmp_path / "agent.toml"), env=env) as screen:
        screen.wait_for(">")
        screen.press("pay Ann\r")
        screen.wait_for("May pay run with")
        screen.wait_for("with other arguments")
        screen.wait_for(">")
        screen.press("y\r")
        screen.wait_for("one")
        screen.press("\x03")
        screen.wait_for("stopped")
        screen.wait_for(">")
        screen.press("\x04")
        assert screen.status() == 0
