"""Reads the programs whose words have a grammar of their own, such as `find` and `git`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from adh.shell.parsed_line import Word
from adh.shell.reading import Reading

SPECIAL_PROGRAMS: dict[str, Callable[[Sequence[Word]], Reading]] = {}


def read_special(name: str, words: Sequence[Word]) -> Reading | None:
    """Return what a program with its own grammar does; None if it has none."""
    reader = SPECIAL_PROGRAMS.get(name)
    return None if reader is None else reader(words)
