"""Bash itself says what a line runs: all of it must be among what was judged, or have a problem."""

from __future__ import annotations

import os
import posixpath
from pathlib import Path

import pytest
from apps.terminal.tests.conformance.shell.generated_lines import LineGenerator
from apps.terminal.tests.conformance.shell.sandbox import Ran, build_stubs, find_missing, run_lines

from adh.rules.facts import CommandUse
from adh.shell import find_uses, parse_command_line
from adh.shell.program_table import PROGRAMS

FULL = os.environ.get("HOLDFAST_FULL") == "1"
LINES = int(os.environ.get("LINES", "0")) or 50_000 if FULL else 1_500
BATCH = 250
SEED = int(os.environ.get("HOLDFAST_SEED", "20"))
missing = find_missing()


def matches(argv: tuple[str | None, ...], words: tuple[str, ...]) -> bool:
    """Whether a judged use covers what ran: an unknown word stands for any words."""
    reached = {0}
    for word in argv:
        if word is None:
            reached = set(range(min(reached), len(words) + 1)) if reached else reached
        else:
            reached = {i + 1 for i in reached if i < len(words) and words[i] == word}
    return len(words) in reached


def find_excuses(text: str) -> tuple[list[str], list[CommandUse]]:
    """Return the problems of a line that leave open what runs, and its uses.

    A path or an address that is not known leaves open only what is touched.
    """
    line = parse_command_line(text)
    uses = list(find_uses(line, "/w", "/h", posixpath.normpath))
    problems = [(use.program, problem) for use in uses for problem in use.problems]
    excuses = [problem for program, problem in problems if not is_about_files(program, problem)]
    return [line.problem] * bool(line.problem) + excuses, uses


def is_about_files(program: str, problem: str) -> bool:
    """Whether a problem is only about what a program touches."""
    about_files = ("the path ", "the address ", "its folder ", "git ", "the home folder ")
    may_be_option = problem.endswith("may be an option") and program in PROGRAMS
    return problem.startswith(about_files) or may_be_option


def find_surprise(text: str, ran: Ran) -> str:
    """Return what ran and was not judged, or nothing. A line with a problem may run anything."""
    excuses, uses = find_excuses(text)
    if excuses:
        return ""
    for words in ran.programs:
        if not any(matches(use.argv, words) for use in uses):
            return f"{text!r} ran {words!r}, judged {[use.argv for use in uses]!r}"
    if any(use.problems for use in uses):
        return ""
    written = {p.path for use in uses for p in use.paths if p.access in ("write", "create")}
    for file in ran.files:
        if f"/w/{file}" not in written:
            return f"{text!r} made {file!r}, judged {sorted(written)!r}"
    return ""


@pytest.mark.skipif(bool(missing), reason=missing)
@pytest.mark.timeout(7200)
def test_what_bash_runs_was_judged(tmp_path: Path) -> None:
    stubs = build_stubs(tmp_path)
    generator = LineGenerator(SEED)
    surprises: list[str] = []
    ran_programs = judged = 0
    for batch in range(LINES // BATCH):
        lines = [generator.make_line() for _ in range(BATCH)]
        for text, ran in zip(lines, run_lines(lines, tmp_path / str(batch), stubs), strict=True):
            ran_programs += len(ran.programs)
            judged += not find_excuses(text)[0]
            if surprise := find_surprise(text, ran):
                surprises.append(surprise)
                print(surprise, flush=True)
    print(f"{LINES} lines, {judged} whose programs are known, {ran_programs} programs ran")
    assert not surprises
    assert ran_programs > LINES // 2
    assert judged > LINES // 5
