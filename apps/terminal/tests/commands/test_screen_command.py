"""What the screen imports before its prompt is painted."""

from __future__ import annotations

import subprocess
import sys

import pytest

from adh.commands.screen_command import find_screen_problem

HEAVY = ("holdfast", "adh.workspace", "adh.conversation", "adh.agents", "adh.approval")

PROGRAM = f"""
import sys
import adh.commands.screen_command
print(*[name for name in sys.modules if name.startswith({HEAVY!r})])
"""


@pytest.mark.slow  # starts a program or a server
def test_the_prompt_waits_neither_for_the_library_nor_for_the_agent() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == []


class Stream:
    def __init__(self, *, terminal: bool) -> None:
        self.terminal = terminal

    def isatty(self) -> bool:
        return self.terminal


@pytest.mark.parametrize(
    ("term", "stdin", "stdout", "said"),
    [
        ("xterm-256color", True, True, ""),
        ("tmux-256color", True, True, ""),
        ("xterm", False, True, "standard input"),
        ("xterm", True, False, "standard output"),
        ("dumb", True, True, "TERM is dumb"),
        ("", True, True, "TERM is not set"),
    ],
)
def test_the_screen_needs_a_terminal_that_can_show_it(
    term: str, stdin: bool, stdout: bool, said: str
) -> None:
    problem = find_screen_problem({"TERM": term}, Stream(terminal=stdin), Stream(terminal=stdout))
    assert said in problem
    assert bool(problem) is bool(said)
