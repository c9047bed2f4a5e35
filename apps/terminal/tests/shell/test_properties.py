"""What holds for every line: no crash, bounded time, and no line freer than its strictest part."""

from __future__ import annotations

import posixpath
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adh.rules.facts import CommandUse
from adh.shell import ParsedLine, find_uses, parse_command_line
from adh.shell.parsed_line import LONGEST_LINE

PARTS = (
    "ls", "ls -la src", "cat .env", "rm -rf build", "git status", "git push", "echo 'a; b'", "sudo rm x",
    'cat "a b"', "cp a b", "grep foo a", "python -c x", "$x y", "eval ls", "find . -delete", "sh -c 'rm x'",
    "echo a > f", "cat < f", "curl http://h/x", "A=1 ls", "PATH=. ls", "env rm x", "xargs rm", "[ -f x ]",
)  # fmt: skip
FORMS = (
    "{0}; {1}", "{0} && {1}", "{0} || {1}", "{0} | {1}", "{0} & {1}", "{0}\n{1}", "( {0}; {1} )",
    "{{ {0}; {1}; }}", "echo $( {0} ); {1}", 'echo "$( {0} )" && {1}', "if {0}; then {1}; fi",
    "while {0}; do {1}; done", "for i in $( {0} ); do {1}; done", "case a in a) {0};; *) {1};; esac",
    "f() {{ {0}; }}; {1}", "! ( {0} ); {1}", "x=$( {0} ) {1}", "diff <( {0} ) >( {1} )", "echo ${{x:-$( {0} )}}; {1}",
    "[[ $( {0} ) ]] && {1}", "echo `echo a` $( {0}; {1} )", "{0} # note\n{1}", "{{ {0}; }} > out; {1}",
)  # fmt: skip
ALPHABET = "ab -'\"`$(){}[];&|<>\\\n#!=*~/.,:+%@?0\u00e9"


def judge(text: str) -> tuple[ParsedLine, tuple[CommandUse, ...]]:
    """Return a line and its uses."""
    line = parse_command_line(text)
    return line, find_uses(line, "/p", "/h", posixpath.normpath)


def is_as_strict(use: CommandUse, other: CommandUse) -> bool:
    """Whether a use touches and doubts at least as much as another of the same words.

    Of a program that is not known, a person is asked in any case.
    """
    is_known = use.argv[:1] != (None,)
    same = (use.argv == other.argv or not is_known) and set(other.paths) <= set(use.paths)
    return same and set(other.problems) <= set(use.problems)


@given(st.lists(st.sampled_from(PARTS), min_size=2, max_size=5), st.data())
def test_a_line_is_never_freer_than_a_part(parts: list[str], data: st.DataObject) -> None:
    text = parts[0]
    for part in parts[1:]:
        text = data.draw(st.sampled_from(FORMS)).format(text, part)
    _, uses = judge(text)
    for part in parts:
        for wanted in judge(part)[1]:
            assert any(is_as_strict(use, wanted) for use in uses), (text, wanted)


@given(st.text(ALPHABET, max_size=80))
def test_no_text_crashes_it(text: str) -> None:
    judge(text)


@given(st.text(max_size=40))
def test_no_unicode_crashes_it(text: str) -> None:
    judge(text)


@given(st.text("ab '\"$`\\;|&()<>*", max_size=20))
def test_what_is_in_single_quotes_is_one_word(text: str) -> None:
    quoted = "'" + text.replace("'", "'\\''") + "'"
    line, uses = judge(f"echo {quoted}")
    assert not line.problem
    assert [use.argv for use in uses] == [("echo", text)]


@given(st.sampled_from(PARTS), st.text('ab \t$`;|&<>()"', max_size=12))
def test_a_comment_changes_nothing(part: str, note: str) -> None:
    assert judge(f"{part} # {note}")[1] == judge(part)[1]


def test_a_line_that_is_too_long_is_a_problem() -> None:
    assert "longer" in parse_command_line("a" * (LONGEST_LINE + 1)).problem
    assert "longer" in parse_command_line("\u4e2d" * (LONGEST_LINE // 2)).problem
    assert parse_command_line("echo " + "a" * 60_000).problem == ""


@pytest.mark.parametrize(
    ("start", "end"),
    [
        ("(", ")"),
        ("$(", ")"),
        ("{ ", "; }"),
        ('"$(', ')"'),
        ("${x:-", "}"),
        ("if ", "; then a; fi"),
    ],
)
def test_deep_nesting_is_a_problem_and_no_error(start: str, end: str) -> None:
    for depth in (60, 500, 5_000):
        line, _ = judge(start * depth + "ls" + end * depth)
        assert line.problem or depth == 60


HARD = (
    "(", "$(", "`", "'", '"', "{", "<<E\n", "a;", "a|", "$((", "${", "[[ ", "{a,", "\\", "a=(", "<(", "*",
    "case a in ", "if ", "f(){ ", "\n", "a ", "$'", "{a,b}", "! ", "x=1 ", ">a ", "cd a;", "sudo ", "a\\\n",
    "echo {1..2}", "eval ", "[a", "&&", "$x", "~", "#", "env ",
)  # fmt: skip


@pytest.mark.slow  # takes half a second or more
@pytest.mark.parametrize("piece", HARD)
def test_time_is_bounded(piece: str) -> None:
    text = piece * (10_000 // len(piece))
    started = time.process_time()
    judge(text)
    assert time.process_time() - started < 2.5


@pytest.mark.slow  # takes half a second or more
@settings(max_examples=20)
@given(st.sampled_from(HARD), st.sampled_from(HARD))
def test_time_of_two_pieces_is_bounded(first: str, second: str) -> None:
    text = (first + second) * (4_000 // len(first + second))
    started = time.process_time()
    judge(text)
    assert time.process_time() - started < 2
