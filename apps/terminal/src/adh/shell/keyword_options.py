"""Checks the words right after `time` and `coproc`, where bash's grammar and programs differ.

It never says what is run: it finds what is read in two ways.
"""

from __future__ import annotations

from collections.abc import Sequence

from tree_sitter import Node

from adh.shell.parsed_line import Word

OPTIONS = {"time": ("-p", "--"), "coproc": ()}
"""What bash takes after each word of its grammar, in this order and without quotes."""


def find_keyword_problem(
    words: Sequence[Word], groups: Sequence[Sequence[Node]], redirects: Sequence[Node]
) -> str:
    """Return why what bash runs after its word `time` or `coproc` is not certain, or nothing.

    After these, whatever begins with a dash is itself the program: `time -p -p` runs `-p`. The program
    `time`, which bash runs after a pipe, has other options.

    Args:
        words: the words of a command that sets no variables.
        groups: the nodes of its words.
        redirects: the nodes of its redirections.
    """
    taken = 0
    while taken < len(words) and words[taken].text in OPTIONS:
        options = OPTIONS[words[taken].text]
        taken += 1
        for option in options:
            taken += taken < len(words) and words[taken].text == option
    starts = [group[0].start_byte for group in groups]
    places = [redirect.start_byte for redirect in redirects]
    if not taken or any(place < starts[0] for place in places):
        # After a redirection it is a program, as any other word.
        return ""
    following = words[taken : taken + 1]
    if following and (following[0].value or following[0].prefix).startswith("-"):
        return f"{following[0].text!r} is an option or the program that is run"
    if any(place < starts[taken - 1] for place in places):
        return "a redirection before an option of the shell's grammar"
    return ""
