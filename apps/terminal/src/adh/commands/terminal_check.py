"""Whether the screen can be shown here. It must never guess: a screen in a pipe writes escape sequences into a file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

_DUMB = ("", "dumb", "unknown")
ADVICE = 'Without a screen: adh run "what to do"'


class Stream(Protocol):
    """The part of a standard stream that is looked at."""

    def isatty(self) -> bool:
        """Whether it is a terminal."""
        ...


def find_screen_problem(environ: Mapping[str, str], stdin: Stream, stdout: Stream) -> str:
    """Return why the screen cannot be shown, as a sentence; empty if it can.

    Args:
        environ: the environment; TERM names the kind of the terminal.
        stdin: the standard input.
        stdout: the standard output.

    >>> import io
    >>> find_screen_problem({"TERM": "xterm"}, io.StringIO(), io.StringIO())
    'the screen needs a terminal, and standard input is none'
    """
    for name, stream in (("input", stdin), ("output", stdout)):
        if not stream.isatty():
            return f"the screen needs a terminal, and standard {name} is none"
    kind = environ.get("TERM", "")
    if kind in _DUMB:
        return f"this terminal cannot show a screen: TERM is {kind or 'not set'}"
    return ""
