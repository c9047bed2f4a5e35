"""Which places no call may touch, whatever a rule allows.

It must never follow a link: paths are resolved before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from adh.checks.confinement import is_inside
from adh.rules.facts import CallFacts, PathUse

SYSTEM_PLACES = ("/etc", "/usr", "/bin", "/sbin", "/boot", "/dev", "/proc", "/sys", "/System")
PRIVATE_FOLDERS = (".ssh", ".gnupg")
_HARMLESS_DEVICES = frozenset(
    {"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"}
    | {"/dev/stdin", "/dev/stdout", "/dev/stderr"}
)
_CHANGES = ("write", "create", "delete")


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
    """Return why a call may not run because it changes this program's rules, log or copies; else "".

    Args:
        facts: the call.
        own_folders: the folders of this program.
    """
    for use in list_uses(facts):
        for folder in own_folders:
            above = use.access == "delete" and is_inside(folder, use.path)
            if use.access in _CHANGES and (is_inside(use.path, folder) or above):
                return f"{use.path} belongs to this program, and no tool may change it"
    return ""
