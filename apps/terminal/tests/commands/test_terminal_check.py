from __future__ import annotations

import pytest

from adh.commands.terminal_check import find_screen_problem


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
