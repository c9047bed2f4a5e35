"""The places that no call may touch, even if a rule allows it.

It must never follow a link: paths are resolved before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from adh.rules.facts import CallFacts, PathUse
from adh.rules.patterns import is_inside

SYSTEM_PLACES = ("/etc", "/usr", "/bin", "/sbin", "/boot", "/dev", "/proc", "/sys", "/System")
PRIVATE_FOLDERS = (".ssh", ".gnupg")
_HARMLESS_DEVICES = frozenset(
    {"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"}
    | {"/dev/stdin", "/dev/stdout", "/dev/stderr"}
)
_CHANGES = ("write", "create", "delete")
_READERS = frozenset(
    {
        "cat",
        "cd",
        "date",
        "echo",
        "find",
        "grep",
        "head",
        "ls",
        "pwd",
        "stat",
        "tail",
        "wc",
        "which",
    }
)


def list_uses(facts: CallFacts) -> Iterator[PathUse]:
    """Yield every path of a call: its own and those of its commands."""
    yield from facts.paths
    for command in facts.commands:
        yield from command.paths


def list_hidden(home: str, own_folders: Iterable[str]) -> tuple[str, ...]:
    """Return the folders that a confined command must not see."""
    return (*(f"{home}/{name}" for name in PRIVATE_FOLDERS), *own_folders)


def find_protected(facts: CallFacts, home: str, own_folders: Iterable[str]) -> str:
    """Return why a call may not touch its paths, as a sentence; empty if it may.

    Args:
        facts: the call.
        home: the person's home folder.
        own_folders: the folders of this program.

    >>> uses = (PathUse("/etc/passwd", "read", "x"),)
    >>> find_protected(CallFacts(tool="read_file", arguments={}, paths=uses), "/people/ada", ())
    '/etc/passwd is protected.'
    """
    places = (*SYSTEM_PLACES, *list_hidden(home, own_folders))
    for use in list_uses(facts):
        if use.path in _HARMLESS_DEVICES:
            continue
        if any(is_inside(use.path, place) for place in places):
            return f"{use.path} is protected."
        if use.access in _CHANGES and not is_inside(use.path, facts.project):
            return f"{use.path} is outside of the project."
        if use.access == "delete" and is_inside(facts.project, use.path):
            return f"{use.path} is the root of the project."
    return ""


def find_own_folder(facts: CallFacts, own_folders: Iterable[str]) -> str:
    """Return why a call may not run because it may change this program's rules, log or copies; else "".

    A program that is not known only to read its operands may change them: `tar -C`, `sqlite3`.

    Args:
        facts: the call.
        own_folders: the folders of this program.
    """
    reads_alone = all(command.program in _READERS for command in facts.commands)
    for folder in own_folders:
        for use in list_uses(facts):
            if use.access == "delete" and is_inside(folder, use.path) and use.path != folder:
                return f"{use.path} holds files of this program, and no tool may delete them"
            changes = use.access in _CHANGES or not reads_alone
            if changes and is_inside(use.path, folder):
                return f"{use.path} belongs to this program, and no tool may change it"
        if not reads_alone and _names_folder(facts, folder):
            return f"{folder} belongs to this program, and no tool may change it"
    return ""


def _names_folder(facts: CallFacts, folder: str) -> bool:
    """Whether a word of a command names something in a folder, be it as `--into=WORD`."""
    words = (word for command in facts.commands for word in command.argv if word)
    return any(f"{folder}/" in f"{word}/" for word in words)
