"""Makes the facts of a call that rules judge: its paths resolved, its command parsed, its addresses found.

This is the only place that resolves the paths of a call. It must never guess: an argument that it cannot
understand is an error, and a parameter whose name means a path is one for every tool.

Rules free `ls` and `git status` by their names. Where the search path has a folder of the project, a file in
it may have such a name, and is another program than that of the system: the line then has a problem.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from functools import cache

import msgspec

from adh.rules.facts import Access, CallFacts, CommandUse, PathUse
from adh.shell.command_line import parse_command_line
from adh.shell.program_names import is_known_program
from adh.shell.quoting import make_bash_line
from adh.shell.uses import find_uses
from adh.storage.places import Places
from adh.storage.search_path import DEFAULT_FOLDERS, find_project_program, list_folders_outside

Parameters = Sequence[tuple[str, Access]]

_PATHS: Mapping[str, Parameters] = {
    "read_file": (("file_path", "read"),),
    "write_file": (("file_path", "write"),),
    "list_directory": (("directory", "list"),),
    "get_file_info": (("file_path", "read"),),
    "create_directory": (("directory", "create"),),
    "delete_file": (("file_path", "delete"),),
    "execute_command": (("cwd", "run"),),
}
"""The parameters of the tools that are paths, each with its access."""

_PATH_NAMES = (
    "path",
    "file_path",
    "file",
    "filename",
    "directory",
    "folder",
    "cwd",
    "source",
    "target",
)
_URL_NAMES = ("url", "urls")
_BY_EFFECT: Sequence[tuple[str, Access]] = (
    ("deletes_fs", "delete"),
    ("writes_fs", "write"),
    ("executes_process", "run"),
)


class FactsError(Exception):
    """A call cannot be judged, so it does not run.

    Args:
        argument: the name of the argument.
        problem: the problem with it, as the rest of a sentence.
    """

    def __init__(self, argument: str, problem: str) -> None:
        super().__init__(argument, problem)
        self.argument = argument
        self.problem = problem

    def __str__(self) -> str:
        return f"The argument {self.argument!r} {self.problem}."


def build_facts(
    tool: str,
    arguments: Mapping[str, object],
    places: Places,
    folder: str,
    effects: Mapping[str, frozenset[str]] | None = None,
) -> CallFacts:
    """Return the facts of a call as the disk is now.

    Args:
        tool: the name of the tool.
        arguments: its validated arguments.
        places: the project, the home folder, and where programs are found.
        folder: the working folder, absolute and resolved.
        effects: the effects that each tool declares; those of an unknown tool are not known.

    Raises:
        FactsError: an argument cannot be judged.
    """
    declared = (effects or {}).get(tool, frozenset())
    home = os.path.realpath(places.home)
    paths = tuple(_find_paths(tool, arguments, declared, (folder, home)))
    runs_in = next((use.path for use in paths if use.access == "run"), folder)
    uses, unparsed = _parse_command(tool, arguments, runs_in, home)
    return CallFacts(
        tool=tool,
        arguments=arguments,
        effects=declared,
        paths=paths,
        commands=mark_project_programs(uses, places),
        unparsed=unparsed,
        urls=tuple(_find_urls(arguments)),
        project=str(places.project),
        folder=runs_in,
        home=home,
    )


def resolve_path(written: str, folder: str, home: str) -> str:
    """Return a path absolute, without `..`, `~` and links, as far as its parts exist.

    >>> resolve_path("a/../b", "/nowhere", "/people/ada"), resolve_path("~/x", "/", "/people/ada")
    ('/nowhere/b', '/people/ada/x')
    """
    if written == "~" or written.startswith("~/"):
        written = home + written[1:]
    return os.path.realpath(os.path.join(folder, written))  # noqa: PTH118  # REASON: with realpath


def _find_paths(
    tool: str, arguments: Mapping[str, object], effects: frozenset[str], base: tuple[str, str]
) -> Iterator[PathUse]:
    for name, access in _PATHS.get(tool) or _guess_parameters(arguments, effects):
        written = arguments.get(name)
        if written is None:
            continue
        if not isinstance(written, str):
            raise FactsError(name, "must be the text of a path")
        path = _resolve_argument(name, written, base)
        creates = access == "write" and not os.path.lexists(path)
        yield PathUse(path, "create" if creates else access, written)


def _guess_parameters(arguments: Mapping[str, object], effects: frozenset[str]) -> Parameters:
    """Return which arguments of a tool of somebody else are paths, by their names."""
    access: Access = "read"
    access = next((access for effect, access in _BY_EFFECT if effect in effects), access)
    return [(name, access) for name in _PATH_NAMES if isinstance(arguments.get(name), str)]


def _resolve_argument(name: str, written: str, base: tuple[str, str]) -> str:
    if "\0" in written:
        raise FactsError(name, "holds a NUL character")
    try:
        written.encode()
        return resolve_path(written, *base)
    except UnicodeEncodeError:
        raise FactsError(name, "is not valid Unicode") from None
    except OSError:
        raise FactsError(name, "is a path that the system does not accept") from None


def _parse_command(
    tool: str, arguments: Mapping[str, object], folder: str, home: str
) -> tuple[tuple[CommandUse, ...], str]:
    """Return the simple commands of a call, and why they could not all be found."""
    command = arguments.get("command")
    if tool != "execute_command" or command is None:
        return (), ""
    if not isinstance(command, str):
        raise FactsError("command", "must be the text of a command")
    shell = arguments.get("shell", True)
    if not isinstance(shell, bool):
        raise FactsError("shell", "must be true or false")
    try:
        line = parse_command_line(make_bash_line(command, shell=shell))
    except ValueError as error:
        raise FactsError("command", str(error)) from None
    return find_uses(line, folder, home, os.path.realpath), line.problem


def _find_urls(arguments: Mapping[str, object]) -> Iterator[str]:
    for name in _URL_NAMES:
        value = arguments.get(name)
        for url in value if isinstance(value, list | tuple) else (value,):
            if url is None:
                continue
            if not isinstance(url, str):
                raise FactsError(name, "must be the text of an address")
            yield url


def mark_project_programs(uses: Sequence[CommandUse], places: Places) -> tuple[CommandUse, ...]:
    """Return the uses of a line, with a problem for each whose known name is that of a program of the project.

    Args:
        uses: the uses.
        places: the project, and where programs are found.
    """

    @cache
    def find(name: str) -> str:
        return find_project_program(name, places.program_folders, str(places.project))

    return tuple(_mark(use, find(use.program)) if _is_searched(use) else use for use in uses)


def find_search_path(facts: CallFacts, places: Places) -> str:
    """Return the PATH without folders of the project, for a line that names known programs of the system alone.

    A file that is written into the project after the judgement then replaces none of them. For another line
    it returns an empty text: its programs may be those of an environment in the project, and a rule of the
    person or the person allowed them.

    Args:
        facts: the judged call.
        places: the project, and where programs are found.
    """
    project = str(places.project)
    if not facts.commands or not all(_is_searched(use) for use in facts.commands):
        return ""
    names = {use.program for use in facts.commands}
    if any(find_project_program(name, places.program_folders, project) for name in names):
        return ""
    return os.pathsep.join(list_folders_outside(places.program_folders, project) or DEFAULT_FOLDERS)


def _is_searched(use: CommandUse) -> bool:
    """Whether the shell searches for the program of a use, and rules know its name."""
    return bool(use.argv) and use.argv[0] == use.program and is_known_program(use.program)


def _mark(use: CommandUse, found: str) -> CommandUse:
    if not found:
        return use
    problem = f"{use.program} is {found} here, which is not the {use.program} of the system"
    return msgspec.structs.replace(use, problems=(*use.problems, problem), read_only=False)
