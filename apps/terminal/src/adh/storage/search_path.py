"""Where programs are found by their names: the folders of PATH, and which of them a project can fill.

A folder of the project may hold a program that is called like one of the system. This module must never
start a program.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence

from adh.rules.patterns import SYSTEM_FOLDERS, is_inside

DEFAULT_FOLDERS = ("/usr/local/bin", "/usr/bin", "/bin")
"""The folders that are searched if PATH names none."""


def list_program_folders(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the absolute folders of PATH, in the order in which they are searched.

    A relative or an empty entry means the folder that a command runs in, so that a file of the project would
    stand in for a program of the system. Such entries are left out.

    Args:
        environ: the environment.

    >>> list_program_folders({"PATH": ".:/opt/bin::bin:/bin"}), list_program_folders({})
    (('/opt/bin', '/bin'), ('/usr/local/bin', '/usr/bin', '/bin'))
    """
    folders = (folder for folder in environ.get("PATH", "").split(os.pathsep))
    return tuple(folder for folder in folders if folder.startswith("/")) or DEFAULT_FOLDERS


def list_folders_outside(folders: Sequence[str], project: str) -> tuple[str, ...]:
    """Return the folders that are not of a project, wherever their links lead.

    Args:
        folders: absolute folders.
        project: the folder of the project, absolute and resolved.
    """
    return tuple(
        folder for folder in folders if not _is_of_project(os.path.realpath(folder), project)
    )


def find_project_program(name: str, folders: Sequence[str], project: str) -> str:
    """Return the path of a program of the project that a name stands for; empty if it stands for another one.

    Args:
        name: the name of the program, without a folder.
        folders: the folders that are searched, in order.
        project: the folder of the project, absolute and resolved.
    """
    found = shutil.which(name, path=os.pathsep.join(folders))
    if found is None:
        return ""
    folder, program = os.path.realpath(os.path.split(found)[0]), os.path.realpath(found)
    return found if any(_is_of_project(path, project) for path in (folder, program)) else ""


def _is_of_project(path: str, project: str) -> bool:
    """Whether a resolved path lies in the project; if that is the root, its system folders do not count."""
    if not is_inside(path, project):
        return False
    systems = (folder for folder in SYSTEM_FOLDERS if is_inside(folder, project))
    return not any(is_inside(path, folder) for folder in systems)
