"""Finds how a program uses its operands, by the form of its options.

It sorts words into paths, names of variables and problems. It resolves nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from adh.rules.facts import Access
from adh.shell.option_forms import Arguments, Form
from adh.shell.parsed_line import Word
from adh.shell.variables import is_safe_variable

ACCESSES: dict[str, Access] = {
    "read": "read", "list": "list", "write": "write", "create": "create", "delete": "delete",
    "run": "run", "folder": "write", "patternfile": "read",
}  # fmt: skip
RECURSIVE_GREP = frozenset({"-r", "-R", "--recursive", "--dereference-recursive"})


class Roles(Struct):
    """The paths among the words of a program, with the access to each, and the problems."""

    paths: list[tuple[Access, Word]]
    problems: list[str]

    def add(self, access: Access, words: Sequence[Word]) -> None:
        """Add words that are paths."""
        self.paths.extend((access, word) for word in words)


def assign_roles(form: Form, found: Arguments) -> Roles:
    """Return how a program uses the words that were found.

    Args:
        form: the options of the program.
        found: its words, sorted.
    """
    roles = Roles([], list(found.problems))
    for role, word in found.values:
        add_value(role, word, roles)
    value_roles = {role for role, _ in found.values}
    operands = found.operands
    if form.operands in ("pattern", "pattern-tree"):
        assign_pattern(form, found, value_roles, roles)
    elif form.operands in ACCESSES:
        default = [Word(form.default, form.default)] if form.default else []
        roles.add(ACCESSES[form.operands], operands or default)
    elif form.operands in ("copy", "move", "link"):
        assign_copy(form.operands, operands, "folder" in value_roles, roles)
    else:
        assign_others(form, operands, value_roles, roles)
    return roles


def assign_others(form: Form, operands: list[Word], value_roles: set[str], roles: Roles) -> None:
    """Sort the operands of the kinds that few programs have."""
    if form.operands == "read_write":
        roles.add("read", operands[:1])
        roles.add("write", operands[1:])
    elif form.operands == "mode":
        roles.add("write", operands if "list" in value_roles else operands[1:])
    elif form.operands == "name":
        for word in operands:
            add_name(word, roles)
    elif form.operands == "date":
        if any(not (word.value or word.prefix).startswith("+") for word in operands):
            roles.problems.append("sets the clock")
    elif form.operands == "none" and operands:
        roles.problems.append(f"{operands[0].text!r} is not known there")


def add_value(role: str, word: Word, roles: Roles) -> None:
    """Add the value of an option."""
    if role in ACCESSES:
        roles.add(ACCESSES[role], [word])
    elif role == "code":
        roles.problems.append("an argument is code")
    elif role == "names":
        roles.problems.append("the names of its files are in a file")
    elif role == "name":
        add_name(word, roles)


def add_name(word: Word, roles: Roles) -> None:
    """Check the name of a variable that a program sets."""
    name = (word.value if word.value is not None else "").partition("=")[0].rstrip("+")
    if not is_safe_variable(name):
        roles.problems.append(f"sets {word.text!r}, which may change what programs do")


def assign_pattern(form: Form, found: Arguments, value_roles: set[str], roles: Roles) -> None:
    """Sort the operands of `grep` and its like: the first is the pattern unless an option is."""
    files = list(found.operands)
    if not value_roles & {"pattern", "patternfile"} and files:
        first = files[0]
        if not first.many:
            files = files[1:]
    recursive = form.operands == "pattern-tree" or RECURSIVE_GREP & set(found.options)
    if not files and recursive:
        files = [Word(form.default, form.default)]
    roles.add("read", files)


def assign_copy(kind: str, operands: list[Word], to_folder: bool, roles: Roles) -> None:
    """Sort the operands of `cp`, `mv` and `ln`: the last is written unless an option names it."""
    sources = operands if to_folder else operands[:-1]
    if kind == "link" and len(operands) == 1 and not to_folder:
        roles.add("read", operands)
        roles.add("create", [Word(".", ".")])
        return
    roles.add("read", sources)
    if kind == "move":
        roles.add("delete", sources)
    if not to_folder:
        roles.add("write", operands[-1:])
