"""Confinement of commands by bubblewrap: a command sees the disk read-only, but for the project.

Rules and checks judge a command by its words, and a program may write wherever its user may. Where
bubblewrap works, a command whose rule asks for the check `sandbox` runs inside it: it can write to the
project and to a temporary folder of its own, and it does not see the keys of the person. The network
stays. Where bubblewrap is missing, the outcome of the check says so. This module must never treat a
bubblewrap that does not start as one that works.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

from msgspec import Struct

from adh.rules.patterns import is_inside

_PROBE_SECONDS = 5.0


class Confinement(Struct, frozen=True):
    """Whether commands can be confined here.

    Args:
        program: the path of bubblewrap; empty if commands cannot be confined.
        problem: why they cannot.
    """

    program: str = ""
    problem: str = ""

    @property
    def explanation(self) -> str:
        """The sentence about it for the person."""
        if self.program:
            return "The command runs confined: it can write to the project only."
        return f"The command is judged by its words only and is not confined: {self.problem}."


NOT_CONFINED = Confinement(problem="bubblewrap is not installed")


def find_confinement(folders: Iterable[str]) -> Confinement:
    """Return how commands can be confined here. It starts bubblewrap once, for at most 5 seconds.

    Args:
        folders: the folders to search, absolute and outside of the project: it is started unasked.
    """
    program = shutil.which("bwrap", path=os.pathsep.join(folders))
    if program is None:
        return NOT_CONFINED
    program = os.path.realpath(program)
    words = [program, *_SYSTEM, "--", program, "--version"]
    try:
        probe = subprocess.run(  # noqa: S603  # REASON: fixed words
            words,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_PROBE_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return Confinement(problem=f"bubblewrap does not start ({type(error).__name__})")
    if probe.returncode != 0:
        return Confinement(problem="bubblewrap may not make namespaces here")
    return Confinement(program)


_SYSTEM = (
    *("--die-with-parent", "--unshare-pid", "--unshare-ipc"),
    *("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp"),  # noqa: S108  # REASON: its own, inside
)


def confine_words(
    confinement: Confinement, project: str, folder: str, hidden: Iterable[str]
) -> tuple[str, ...]:
    """Return the words that stand before a command so that it runs confined; empty if it cannot.

    Args:
        confinement: how commands are confined here.
        project: the folder that the command may write to, absolute and resolved.
        folder: the folder that the command begins in.
        hidden: the folders that the command must not see. Missing ones are left out.

    >>> confine_words(NOT_CONFINED, "/project", "/project", ["/people/ada/.ssh"])
    ()
    """
    if not confinement.program:
        return ()
    words = [confinement.program, *_SYSTEM, "--bind", project, project]
    for place in sorted({os.path.realpath(place) for place in hidden}):
        if Path(place).is_dir() and not is_inside(project, place):
            words += ["--tmpfs", place]
    return (*words, "--chdir", folder, "--")
