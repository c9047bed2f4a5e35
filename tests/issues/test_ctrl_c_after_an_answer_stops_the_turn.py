"""Ctrl-C was swallowed in `holdfast chat` when the turn had asked something at a prompt before.

The prompt had a handler of its own for the signal, and took the one of the chat with it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from tests.cli.terminal import Terminal

from holdfast.testing import Emulator
from holdfast.testing.emulator import EmulatedRequest, Pace, call
from holdfast.testing.emulator.script import ReplyLike

TOOLS = '''
from holdfast import tool

@tool(effect="write")
def pay(to: str) -> str:
    """Pay somebody."""
    return f"{to} is paid"
'''


def choose_reply(request: EmulatedRequest) -> ReplyLike:
    return "one two " * 30 if request.tool_results else call("pay", {"to": "Ann"})


def test_it_does(tmp_path: Path, emulator: Callable[..., Emulator]) -> None:
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
