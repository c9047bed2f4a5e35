"""Lists of braces: bash itself says what words they make, and what is judged covers all of them."""

from __future__ import annotations

import random
import shlex
import subprocess

import pytest

from adh.shell import parse_command_line

PARTS = (
    "{", "}", "{", "}", ",", ",", "..", "a", "b", "''", '""', "\\ ", '" "', "\\,", "','", "\\{", "'}'", ".", "$x",
    "${x:-y}", '"$x"', "$(echo c)", "`echo d`", '"$(echo "e")"', "${x#{}", "${x:+}}", "~", "x=", "{}", "{a,b}",
    "{1..3}", "\\\\", "$'\\''", '$"t"', '"${x:-"}"}"', "$((1))", "$'{'",
)  # fmt: skip
WORDS = 2_000
SHOW = 'set -f; p() { printf "%s\\0" "$@"; }; . /dev/stdin'
END = b"\1\n"


def run_in_bash(words: list[str]) -> list[tuple[str, ...]]:
    """Return the words that bash makes of each word."""
    lines = [f"eval {shlex.quote(f'p {word}')} 2>/dev/null; printf '\\1\\n'\n" for word in words]
    found = subprocess.run(
        ["bash", "--norc", "-c", SHOW], input="".join(lines).encode(), check=True, timeout=60,
        capture_output=True, env={"PATH": "/usr/bin:/bin", "HOME": "/h", "LC_ALL": "C.UTF-8"},
    ).stdout.split(END)[:-1]  # fmt: skip
    return [tuple(word.decode() for word in made.split(b"\0")[:-1]) for made in found]


def read_values(word: str) -> list[str | None] | None:
    """Return the values of the words of a line, None for an unknown one; None if it has a problem."""
    line = parse_command_line(f"p {word}")
    if line.problem or not line.commands or any(one.problems for one in line.commands):
        return None
    words = line.commands[0].words[1:]
    return [word.value if word.home is None else "/h" + (word.value or "") for word in words]


def covers(values: list[str | None], words: tuple[str, ...]) -> bool:
    """Whether the words are these values, where an unknown one stands for any number of words."""
    if not values:
        return not words
    first, *rest = values
    if first is None:
        return any(covers(rest, words[at:]) for at in range(len(words) + 1))
    return words[:1] == (first,) and covers(rest, words[1:])


@pytest.mark.slow  # takes half a second or more
def test_what_bash_makes_of_braces_was_judged() -> None:
    chosen = random.Random(20)
    words = ["".join(chosen.choices(PARTS, k=chosen.randint(2, 9))) for _ in range(WORDS)]
    known = 0
    for word, made in zip(words, run_in_bash(words), strict=True):
        values = read_values(word)
        if values is not None and made:
            assert covers(values, made), (word, values, made)
            known += None not in values
    assert known > WORDS // 20


@pytest.mark.parametrize(
    ("word", "values"),
    [
        ("{pq},q}", ["pq}", "q"]),
        ("''{}p,q}", ["}p", "q"]),
        ("{}p,q}", ["{}p,q}"]),
        ("{a{b,c}", ["{ab", "{ac"]),
        ("{a,b", ["{a,b"]),
        ("{a,b}}", ["a}", "b}"]),
        ("{{a,b}", ["{a", "{b"]),
        ("{a..c,d}", ["a..c", "d"]),
        ("{a..}", ["{a..}"]),
        ("{a..c}", [None]),
        ("{a..{b,c}}", [None]),
        ("{a','..c}", [None]),
        ("{,a}", [None]),
        ("' '{},b}", [None]),
        ("{$x,b}", [None, "b"]),
        ("{" * 17 + "a,b}", [None]),
        ("{" + "a," * 64 + "a}", [None]),
    ],
)
def test_odd_braces_are_read_as_bash_does_or_not_known(word: str, values: list[str | None]) -> None:
    assert read_values(word) == values
    assert covers(values, run_in_bash([word])[0])


@pytest.mark.parametrize("word", ["{${x#{},b}", '{"${x:-"},"}",b}', "{a,`echo '}'`}"])
def test_braces_beside_an_expansion_with_braces_or_quotes_are_a_problem(word: str) -> None:
    assert read_values(word) is None
