"""The table of lines: what each would run and touch."""

from __future__ import annotations

import posixpath

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


def test_a_line_is_judged() -> None:
    found = [(text, describe_uses(text), expected) for text, expected in LINES]
    assert [row for row in found if row[1] != row[2]] == []
    assert len(found) > 400
