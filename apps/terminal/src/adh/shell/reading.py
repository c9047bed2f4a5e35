"""What was read from the words of one program: files, addresses, and what it runs in turn."""

from __future__ import annotations

from msgspec import Struct, field

from adh.rules.facts import Access
from adh.shell.parsed_line import Word


class Reading(Struct):
    """What the words of a program say that it does.

    Args:
        paths: the words that are paths, with what is done to each.
        problems: why the program cannot be judged by its words.
        urls: the addresses that it reaches.
        programs: the programs that it runs, each with its words.
        lines: the command lines that it gives to a shell.
        variables: the names of the variables that it sets for what it runs.
        elsewhere: whether what it runs works in another folder or on another machine.
        read_only: whether it is a form of git that certainly only reads.
    """

    paths: list[tuple[Access, Word]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    urls: list[str] = field(default_factory=list)
    programs: list[tuple[Word, ...]] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    variables: list[str] = field(default_factory=list)
    elsewhere: bool = False
    read_only: bool = False
