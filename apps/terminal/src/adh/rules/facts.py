"""The facts that rules judge: a call of a tool with its paths resolved and its command parsed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

Access = Literal["read", "list", "write", "create", "delete", "run"]


class PathUse(Struct, frozen=True):
    """A path that a call touches.

    Args:
        path: the absolute path, without `..`, `~` and symbolic links.
        access: the access of the call to it.
        written: the path as the call has it.
    """

    path: str
    access: Access
    written: str = ""


class CommandUse(Struct, frozen=True):
    """One simple command of a line: one program with its words, wherever in the line it stands.

    Args:
        argv: the program and its words; None for a word that is known only when it runs, such as `$x`.
        text: its text in the line.
        paths: the paths that it touches, those of redirections included.
        urls: the addresses that it reaches.
        problems: why it cannot be judged by its words, such as `eval`; empty if it can.
        read_only: whether it is a form of git that certainly only reads.
    """

    argv: tuple[str | None, ...]
    text: str
    paths: tuple[PathUse, ...] = ()
    urls: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    read_only: bool = False

    @property
    def program(self) -> str:
        """The name of the program without its folder; empty when it is known only at run time."""
        first = self.argv[0] if self.argv else None
        return (first or "").rpartition("/")[2]


class CallFacts(Struct, frozen=True, kw_only=True):
    """A call of a tool, as rules see it.

    Args:
        tool: the name of the tool.
        arguments: its validated arguments.
        effects: the effects that the tool declares, such as "writes_fs".
        paths: the paths of the call itself; those of its commands are in `commands`.
        commands: the simple commands of its command line, in order.
        unparsed: why the command line could not be parsed; empty if it could.
        urls: the addresses that the call itself reaches.
        project: the folder of the project, absolute and resolved.
        folder: the folder that the call works in.
        home: the home folder of the person, absolute and resolved; without it no pattern that
            begins with `~/` matches.
    """

    tool: str
    arguments: Mapping[str, object]
    effects: frozenset[str] = frozenset()
    paths: tuple[PathUse, ...] = ()
    commands: tuple[CommandUse, ...] = ()
    unparsed: str = ""
    urls: tuple[str, ...] = ()
    project: str = "/"
    folder: str = "/"
    home: str = ""
