"""The parts of a command line, and the effects of a program as its words show them.

These are plain values. They never hold a node of the syntax tree, a file or a process.
"""

from __future__ import annotations

from msgspec import Struct, field

from adh.rules.facts import Access

LONGEST_LINE = 65_536
"""How many bytes a command line may have. A longer one is a problem."""

DEEPEST_LINE = 40
"""How deep the syntax tree of a line may be in statements and words. A deeper one is a problem."""


class Word(Struct, frozen=True):
    """A word of a command, as far as it is known before the command runs.

    Args:
        text: the word as the line has it.
        value: the text that the program receives, without quotes; None if it is known only at run time.
        prefix: how the value certainly begins, when `value` is None.
        home: the person whose home folder the word begins with: "" for `~` and `$HOME`, a name for
            `~name`, None for no such beginning. `value` and `prefix` then follow the home folder.
        pattern: whether the shell puts the names of files in place of the word.
        unmatched: the text that the program receives when no file fits the pattern; None if it is known
            only at run time. It follows the home folder too.
        many: whether the shell may make any number of words of it, or none.
        unknown: whether a part of it comes from a variable or a command, and not only from files.
    """

    text: str
    value: str | None
    prefix: str = ""
    home: str | None = None
    pattern: bool = False
    unmatched: str | None = None
    many: bool = False
    unknown: bool = False


class Redirection(Struct, frozen=True):
    """A redirection of a command to a file.

    Args:
        operator: the operator without the number of its descriptor, such as ">>".
        target: the file.
    """

    operator: str
    target: Word


class Assignment(Struct, frozen=True):
    """A variable that the line sets.

    Args:
        name: the name of the variable.
        value: its value; None for an array.
    """

    name: str
    value: Word | None


class FolderStep(Struct, frozen=True):
    """A change of the working folder before a command.

    Args:
        target: the folder; None for the home folder.
        physical: whether links are resolved before `..`, as `cd -P` does.
    """

    target: Word | None
    physical: bool = False


Folders = frozenset[tuple[FolderStep, ...] | None]
"""The ways by which a command may have come to its folder. None: it is known only at run time."""

START: Folders = frozenset({()})


class SimpleCommand(Struct, frozen=True, kw_only=True):
    """One program with its words, as it stands in the line.

    Args:
        text: its text in the line.
        words: the program and its words.
        redirections: its redirections to files.
        assignments: the variables that are set for it, or by it.
        folders: the ways by which its folder may have been changed before.
        problems: why it cannot be judged by its words.
    """

    text: str
    words: tuple[Word, ...] = ()
    redirections: tuple[Redirection, ...] = ()
    assignments: tuple[Assignment, ...] = ()
    folders: Folders = START
    problems: tuple[str, ...] = ()


class ParsedLine(Struct, frozen=True):
    """A command line as its simple commands.

    Args:
        commands: every simple command, wherever in the line it stands, in order of the text.
        problem: why the line as a whole cannot be judged; empty if it can. The commands are then
            those that were recognized, and there may be others.
    """

    commands: tuple[SimpleCommand, ...] = ()
    problem: str = ""


class Reading(Struct):
    """The effects of a program, as its words show them.

    Args:
        paths: the words that are paths, with the access to each.
        problems: why the program cannot be judged by its words.
        urls: the addresses that it reaches.
        programs: the programs that it runs, each with its words.
        lines: the command lines that it gives to a shell.
        variables: the names of the variables that it sets for programs that it runs.
        elsewhere: whether the programs that it runs work in another folder or on another machine.
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
