"""Reads the options of a program from its words, by a description of the options.

A word that the description does not account for is a problem. Nothing is known here of any program.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

from msgspec import Struct

from adh.shell.parsed_line import Word

READING = frozenset({"", "plain", "read", "list", "names", "pattern", "patternfile"})


class Form(Struct, frozen=True):
    """The options of a program, and the role of its other words.

    Args:
        options: one string: `-abc` are options without a value, `-n:ROLE` and `--name=ROLE` take
            one, `--name?=ROLE` takes one that is attached only.
        operands: the role of the other words, such as "read"; see `adh.shell.operand_roles`.
        default: the folder that is used without operands, such as "."; empty if none is.
        stops: whether options end at the first operand, as for programs that run another.
        skip: how many operands come before the command that a program runs.
    """

    options: str = ""
    operands: str = "plain"
    default: str = ""
    stops: bool = False
    skip: int = 0


class Arguments(Struct):
    """The words of a program, sorted.

    Args:
        options: each option that is set.
        values: the values of options that have one, with their roles.
        operands: the other words.
        problems: the words that are not accounted for.
    """

    options: list[str]
    values: list[tuple[str, Word]]
    operands: list[Word]
    problems: list[str]


class Described(Struct, frozen=True):
    """The options of a form, by name. A role of "" means that the option takes no value."""

    short: Mapping[str, str]
    long: Mapping[str, str]
    attached_only: frozenset[str]

    @property
    def acts(self) -> bool:
        """Whether an option can do more than change the output or read another file."""
        roles = (*self.short.values(), *self.long.values())
        return any(role not in READING for role in roles)


@cache
def describe_options(options: str) -> Described:
    """Return the options of a form's text.

    >>> describe_options("-ab -n:plain --output=write").long
    {'--output': 'write'}
    """
    short: dict[str, str] = {}
    long: dict[str, str] = {}
    attached: set[str] = set()
    for token in options.split():
        if token.startswith("--"):
            name, _, role = token.partition("=")
            if name.endswith("?"):
                name = name[:-1]
                attached.add(name)
            long[name] = role
        elif ":" in token:
            name, _, role = token[1:].partition(":")
            if name.endswith("?"):
                name = name[:-1]
                attached.add("-" + name)
            short[name] = role
        else:
            short.update(dict.fromkeys(token[1:], ""))
    return Described(short, long, frozenset(attached))


def read_arguments(form: Form, words: Sequence[Word]) -> Arguments:
    """Return the options, values and operands among the words after a program.

    Args:
        form: the options of the program.
        words: its words, without the program itself.
    """
    described = describe_options(form.options)
    found = Arguments([], [], [], [])
    waiting = list(words)
    while waiting:
        word = waiting.pop(0)
        text = word.value
        if text is None or word.home is not None:
            add_unknown(described, word, found)
            if form.stops:
                found.operands.extend(waiting)
                break
        elif text == "--":
            found.operands.extend(waiting)
            break
        elif text.startswith("--"):
            read_long(described, word, waiting, found)
        elif text.startswith("-") and text != "-":
            read_short(described, word, waiting, found)
        else:
            found.operands.append(word)
            if form.stops:
                found.operands.extend(waiting)
                break
    return found


def add_unknown(described: Described, word: Word, found: Arguments) -> None:
    """Add a word whose value is known only at run time, which may be an option."""
    if word.home is None and word.prefix.startswith("-"):
        found.problems.append(f"the option {word.text!r} is known only when it runs")
        return
    if word.home is None and not word.prefix and described.acts:
        found.problems.append(f"{word.text!r} may be an option")
    found.operands.append(word)


def read_long(described: Described, word: Word, waiting: list[Word], found: Arguments) -> None:
    """Read an option such as `--name` or `--name=value`."""
    name, equals, value = (word.value or "").partition("=")
    role = described.long.get(name)
    if role is None:
        # Programs take abbreviations of their options, so an unknown one may be any.
        found.problems.append(f"the option {name} is not known")
        return
    found.options.append(name)
    if equals:
        found.values.append((role or "plain", Word(word.text, value)))
        if not role:
            found.problems.append(f"the option {name} takes no value")
    elif role and name not in described.attached_only:
        take_value(name, role, waiting, found)


def read_short(described: Described, word: Word, waiting: list[Word], found: Arguments) -> None:
    """Read options such as `-abc`, `-n5` or `-n 5`."""
    letters = (word.value or "")[1:]
    for index, letter in enumerate(letters):
        role = described.short.get(letter)
        if role is None:
            found.problems.append(f"the option -{letter} is not known")
            return
        found.options.append(f"-{letter}")
        if not role:
            continue
        rest = letters[index + 1 :]
        if rest:
            found.values.append((role, Word(word.text, rest)))
        elif f"-{letter}" not in described.attached_only:
            take_value(f"-{letter}", role, waiting, found)
        return


def take_value(name: str, role: str, waiting: list[Word], found: Arguments) -> None:
    """Take the next word as the value of an option."""
    if not waiting:
        found.problems.append(f"the option {name} has no value")
        return
    value = waiting.pop(0)
    if value.many:
        found.problems.append(f"the value of {name} is known only when it runs")
    found.values.append((role, value))
