"""Splits a command that runs without a shell into its words, and writes such words as a bash line.

What is judged and what runs must come from the same split: bash and this one read `#`, `$'...'` and a
line break differently.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence


def split_plain_words(command: str) -> tuple[str, ...]:
    """Return the words of a command that runs without a shell.

    Raises:
        ValueError: a quote is not closed.

    >>> split_plain_words("cat # .env")
    ('cat', '#', '.env')
    """
    try:
        return tuple(shlex.split(command))
    except ValueError:
        raise ValueError("has a quote that is not closed") from None


def quote_words(words: Sequence[str]) -> str:
    r"""Return the bash line that runs a program with exactly these words. Every word is quoted.

    >>> quote_words(["a=b", "it's"])
    "'a=b' 'it'\\''s'"
    """
    return " ".join("'" + word.replace("'", "'\\''") + "'" for word in words)


def make_bash_line(command: str, *, shell: bool) -> str:
    """Return the line that bash would run to do what a command does.

    Args:
        command: the command.
        shell: whether bash reads it; otherwise its words are run as they are.

    Raises:
        ValueError: it runs without a shell, and a quote is not closed.
    """
    return command if shell else quote_words(split_plain_words(command))
