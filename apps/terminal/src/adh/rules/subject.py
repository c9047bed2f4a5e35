"""The subject that one rule is compared with: a tool with at most one path and one simple command.

It must never be built but from the facts of a call.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal

from msgspec import Struct

from adh.rules.facts import Access, CallFacts, CommandUse, PathUse
from adh.rules.patterns import normalize_path

COMMAND_TOOL = "execute_command"
FILE_TOOLS: Mapping[Access, str] = {
    "read": "read_file",
    "list": "list_directory",
    "write": "write_file",
    "create": "write_file",
    "delete": "delete_file",
}

Scope = Literal["call", "paths", "path_rules"]


class Subject(Struct, frozen=True, kw_only=True):
    """One question to the rules.

    Args:
        tool: the name of the tool that rules are compared with.
        facts: the call that it belongs to.
        path: the one path that it is about; None for none.
        command: the one simple command that it is about; None for none.
        scope: "call" for the call itself; "paths" when it stands for a file tool that a command does
            the work of, so that only restrictions of paths and times concern it; "path_rules" when
            moreover only rules with path_matches concern it.
    """

    tool: str
    facts: CallFacts
    path: PathUse | None = None
    command: CommandUse | None = None
    scope: Scope = "call"

    @property
    def line(self) -> str:
        """The whole command line of the call; empty for other calls."""
        return str(self.facts.arguments.get("command", "")) if self.command_call else ""

    @property
    def command_call(self) -> bool:
        """Whether it is about a command line."""
        return self.tool.casefold() == COMMAND_TOOL

    def list_path_forms(self, *, strict: bool) -> tuple[str, ...]:
        """Return the forms of the path that a pattern is compared with.

        A rule that frees a path sees its target. One that restricts it also sees it as it is written, since a
        pattern may name a link.
        """
        if self.path is None:
            return ()
        if not strict or not self.path.written:
            return (self.path.path,)
        facts = self.facts
        return (self.path.path, normalize_path(facts.folder, self.path.written, facts.home))

    @property
    def urls(self) -> tuple[str, ...]:
        """The addresses that it reaches."""
        if self.scope != "call":
            return ()
        return self.command.urls if self.command is not None else self.facts.urls


def list_command_subjects(facts: CallFacts, command: CommandUse) -> Iterator[Subject]:
    """Yield the subjects of one simple command: itself for each path, and the file tools' paths."""
    for path in command.paths or (None,):
        yield Subject(tool=COMMAND_TOOL, facts=facts, path=path, command=command)
    for path in command.paths:
        if path.access in FILE_TOOLS:
            yield Subject(tool=FILE_TOOLS[path.access], facts=facts, path=path, scope="paths")


def list_call_subjects(facts: CallFacts) -> Iterator[Subject]:
    """Yield the subjects of the call itself, apart from its commands."""
    runs_commands = facts.tool.casefold() == COMMAND_TOOL and bool(facts.commands)
    if not runs_commands or facts.unparsed:
        for path in facts.paths or (None,):
            yield Subject(tool=facts.tool, facts=facts, path=path)
    for path in facts.paths:
        # The folder that commands run in is seen by them as a listing shows it.
        other = FILE_TOOLS.get(path.access, "list_directory" if runs_commands else facts.tool)
        if other.casefold() != facts.tool.casefold():
            scope: Scope = "paths" if runs_commands else "path_rules"
            yield Subject(tool=other, facts=facts, path=path, scope=scope)
