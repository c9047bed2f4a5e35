"""The table of lines: what each would run and touch."""

from __future__ import annotations

import posixpath

import pytest
from apps.terminal.tests.shell.lines import LINES

from adh.shell import find_uses, parse_command_line


def describe_uses(text: str) -> tuple[str, ...]:
    """Return the uses of a line in the words of the table."""
    line = parse_command_line(text)
    uses = find_uses(line, "/p", "/h", posixpath.normpath)
    described = ["!!"] if line.problem else []
    for use in uses:
        words = " ".join("..." if word is None else word for word in use.argv)
        paths = "".join(f" {path.access}:{path.path}" for path in use.paths)
        urls = "".join(f" url:{url}" for url in use.urls)
        marks = ("! " if use.problems else "") + ("= " if use.read_only else "")
        described.append(f"{marks}{words}{' <-' if paths or urls else ''}{paths}{urls}")
    return tuple(described)


@pytest.mark.parametrize(("text", "expected"), LINES, ids=[text for text, _ in LINES])
def test_a_line_is_judged(text: str, expected: tuple[str, ...]) -> None:
    assert describe_uses(text) == expected
