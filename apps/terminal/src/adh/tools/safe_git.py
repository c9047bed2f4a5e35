"""Runs the read-only forms of git so that they start no program that the repository names.

The rules let these forms run unasked, and a hostile repository names programs in its settings. A line whose
uses of git are all such forms finds another `git` first in its search path, which adds options and calls
the real one. This module must never change a line that does more with git: a person agreed to that as it is.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from adh.shell.command_line import parse_command_line
from adh.shell.git_forms import (
    SAFE_GIT_ENVIRONMENT,
    is_read_only_git,
    make_git_program,
)
from adh.shell.uses import find_uses
from adh.storage.private_files import read_private_file, replace_private_file

_MOST_BYTES = 100_000


def only_reads_with_git(command: str, folder: str, home: str) -> bool:
    """Whether a line uses git, and only in forms that read.

    Args:
        command: the command line.
        folder: its working folder, absolute and resolved.
        home: the person's home folder.

    >>> only_reads_with_git("git log | head", "/", "/"), only_reads_with_git("git push", "/", "/")
    (True, False)
    """
    line = parse_command_line(command)
    if line.problem:
        return False
    uses = [use for use in find_uses(line, folder, home, os.path.realpath) if "git" in use.program]
    return bool(uses) and all(is_read_only_git(use.argv) for use in uses)


def make_git_environment(environ: Mapping[str, str], folder: Path) -> dict[str, str]:
    """Return the environment of a command whose uses of git only read.

    Args:
        environ: the environment that it has otherwise.
        folder: where the program stands that calls git; it is written if it is not there.

    Raises:
        StorageError: the program cannot be written.
    """
    search_path = environ.get("PATH", "")
    program = shutil.which("git", path=search_path)
    kept = {name: value for name, value in environ.items() if not name.startswith("GIT_")}
    kept |= SAFE_GIT_ENVIRONMENT
    if program is not None:
        _write_program(folder / "git", program)
        kept["PATH"] = os.pathsep.join((str(folder), search_path))
    return kept


def _write_program(path: Path, program: str) -> None:
    content = make_git_program(program).encode()
    if read_private_file(path, _MOST_BYTES) != content:
        replace_private_file(path, content, mode=0o700)
