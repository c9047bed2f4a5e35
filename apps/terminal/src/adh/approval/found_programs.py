"""Which programs the names of a command stand for: a program of the project is not the one of the system.

Rules free `ls` and `git status` by their names. Where the search path has a folder of the project, a file in it
may have such a name. This module must never free anything: it only adds problems and removes folders.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cache

import msgspec

from adh.rules.facts import CallFacts, CommandUse
from adh.shell.program_names import is_known_program
from adh.storage.places import Places
from adh.storage.search_path import DEFAULT_FOLDERS, find_project_program, list_folders_outside


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

    Whatever is written into the project after the judgement then stands in for none of them. For another line
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
