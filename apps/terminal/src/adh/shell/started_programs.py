"""Finds, among the words of a program that is not known, another program that it may start.

It must never free anything: what it finds is judged beside the program itself.
"""

from __future__ import annotations

from collections.abc import Sequence

from adh.rules.patterns import SYSTEM_FOLDERS
from adh.shell.interpreters import SHELLS
from adh.shell.parsed_line import Word

# These names are also ordinary words, such as the form of `docker rm`: an option must follow them.
WITH_OPTION = frozenset({"rm", "dd", "sudo", "su", "chmod", "chown", "mkfs", "shred"})
DD_WORDS = ("if=", "of=")


def find_started_program(words: Sequence[Word]) -> tuple[Word, ...]:
    """Return the first of the words that names a program, with the words after it; empty if none does.

    Args:
        words: the words after a program that is not known.

    >>> words = [Word("-x", "-x"), Word("rm", "rm"), Word("-rf", "-rf"), Word("/", "/")]
    >>> [word.value for word in find_started_program(words)]
    ['rm', '-rf', '/']
    """
    for at, word in enumerate(words):
        if names_program(word, words[at + 1 :]):
            return tuple(words[at:])
    return ()


def names_program(word: Word, following: Sequence[Word]) -> bool:
    """Whether a word, with the ones after it, looks like a program and its words."""
    folder, _, name = (word.value or "").rpartition("/")
    if word.value is None or word.home is not None:
        return False
    if folder in SYSTEM_FOLDERS or (name in SHELLS and not folder):
        return True
    after = (following[0].value or following[0].prefix) if following else ""
    return not folder and name in WITH_OPTION and after.startswith(("-", *DD_WORDS))
