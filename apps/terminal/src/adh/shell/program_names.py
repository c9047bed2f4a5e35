"""Judges the first word of a command: whether it names the program that it seems to name."""

from __future__ import annotations

from adh.rules.patterns import SYSTEM_FOLDERS
from adh.shell.parsed_line import Word
from adh.shell.program_table import PROGRAMS
from adh.shell.special_programs import READERS
from adh.shell.wrappers import SPECIAL, WRAPPERS

RESERVED = frozenset(
    ["!", "{", "}", "(", ")", "[[", "]]", "if", "then", "elif", "else", "fi", "case", "esac", "for", "select", "while", "until", "do", "done", "in", "function", "coproc"]
)  # fmt: skip
SHARED_FOLDERS = frozenset({*SYSTEM_FOLDERS, "/usr/local/bin", "/opt/homebrew/bin"})
"""The folders whose programs every user of the machine has."""
UNJUDGED_BUILTINS = {
    "source": "runs the lines of a file in this shell",
    ".": "runs the lines of a file in this shell",
    "alias": "defines another meaning of a word",
    "unalias": "changes the meaning of a word",
    "shopt": "changes how lines are read",
    "enable": "changes which builtins there are",
    "hash": "changes where programs are found",
    "bind": "binds keys to commands",
    "complete": "sets what completes a word",
    "compgen": "may run what completes a word",
    "compopt": "sets what completes a word",
    "fc": "runs lines of the history",
    "history": "reads or writes the history",
    "let": "evaluates the values of variables",
    "caller": "is for a debugger",
    "dirs": "changes the stack of folders",
}


def is_system_program(word: Word) -> bool:
    """Whether the shell finds the program by its name, or in a folder of the system."""
    folder, slash, _ = (word.value or "").rpartition("/")
    return word.home is None and (not slash or folder in SHARED_FOLDERS)


def is_known_program(name: str) -> bool:
    """Whether the meaning of a program's words is known, so that it may be judged by its name."""
    return name in PROGRAMS or name in WRAPPERS or name in SPECIAL or name in READERS


def check_program(word: Word) -> list[str]:
    """Return why a word may run something else than its name says.

    Args:
        word: the first word of a command.
    """
    name = word.value
    if not name or word.home:
        return ["the program is known only when it runs"]
    base = name.rpartition("/")[2]
    if not name.isascii():
        return ["the name of the program has letters that look like others"]
    if not name.isprintable() or any(c.isspace() for c in name):
        return ["the name of the program has spaces or control characters"]
    if name in RESERVED and word.text == name and name not in ("[[", "coproc"):
        return [f"{name!r} is a word of the shell's grammar here"]
    if "/" in name or word.home is not None:
        if is_known_program(base) and not is_system_program(word):
            return [f"runs {name}, which is not the {base} of the system"]
        return []
    if problem := UNJUDGED_BUILTINS.get(name):
        return [f"{name} {problem}"]
    return []
