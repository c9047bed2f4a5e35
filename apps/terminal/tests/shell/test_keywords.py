"""The words of bash's grammar before a command: bash itself says which program it runs after them."""

from __future__ import annotations

import posixpath
import shutil
import subprocess
from pathlib import Path

import pytest

from adh.rules.facts import CommandUse
from adh.shell import find_uses, parse_command_line

BASH = shutil.which("bash") or "bash"
NOTE = 'command_not_found_handle() { printf "%s\\0" "$@" >&9; }; '
CERTAIN = (
    "time a", "time -p a", "time -- a", "time -p -- a", "time time a", "time -- time -p a", "time -p time -- a b",
    "time -p {a,b}", "time -p a >o", "time >o a", "time x=1 a", "time -p x=1 a", "! time -p -- a", "coproc a b",
    "time -p 'a' -p", "if time -p a; then :; fi", ">o time", "x=1 time", "\\time -- a",
)  # fmt: skip
UNCERTAIN = (
    "time -pq", "time -v a", "time -f %e a", "time -o f a", "time - a", "time -p -p a", "time -p -p -- a",
    "time -- -p a", "time -- -- a", "time -p -- -- a", "time -p -- -p a", 'time "-p" a', "time '-p' a",
    "time \\-p a", "time $'-p' a", "time -''p a", "time '--' a", "time {-p,a}", "time -p {-p,a}", "time >o -p a",
    "time -p>o -- a", "time 2>&1 -- a", "time time -p -p a", "time -- time -pq", "! time -- -p", "coproc -- a",
    "if time -p -p a; then b; fi", "{ time -pq; }", "(time -p -p)", "a && time -pq", "a | b; time -- -p",
    "time -p\\\n -p a", "time -p | time -pq", "a $(time -p -p)", "f() { time -pq; }; f", "time -p -x?", "time -$x a",
)  # fmt: skip


def judge(line: str) -> tuple[CommandUse, ...]:
    """Return the uses of a line, which must be whole."""
    parsed = parse_command_line(line)
    return find_uses(parsed, "/p", "/h", posixpath.normpath)


@pytest.mark.parametrize("line", CERTAIN)
def test_what_bash_runs_after_a_word_of_its_grammar_was_judged(line: str, tmp_path: Path) -> None:
    uses = judge(line)
    assert not any(use.problems for use in uses)
    with (tmp_path / "ran").open("wb") as ran:
        subprocess.run(
            [BASH, "--norc", "-c", f"exec 9>&{ran.fileno()}; {NOTE}{line}; wait"], cwd=tmp_path,
            check=False, timeout=20, capture_output=True, pass_fds=[ran.fileno()], env={"PATH": "/none"},
        )  # fmt: skip
    words = tuple((tmp_path / "ran").read_text().split("\0")[:-1])
    assert words
    assert any(use.argv == words for use in uses)


def test_another_option_after_a_word_of_the_grammar_needs_a_person() -> None:
    for line in UNCERTAIN:
        problem = parse_command_line(line).problem
        assert problem or any(use.problems for use in judge(line)), line


@pytest.mark.parametrize(
    "line", ["/usr/bin/time -v a", "\\time -v a", "env time -v a", "x=1 time -v a"]
)
def test_the_options_of_the_program_are_its_own(line: str) -> None:
    uses = judge(line)
    assert uses[-1].argv == ("a",)
    assert not any(use.problems for use in uses)
