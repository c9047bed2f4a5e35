"""Which runs of a journal are sessions, and which stand beside one of them.

`ada/:title` holds the titles of `ada`, and `ada/t1.i0.tool.0` is what an agent did that was a tool
of it. This module must never take another session of a similar name for one of these.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable

from holdfast.core.effects import is_nested_run
from holdfast.core.errors import ConfigurationError

TITLES = "/:title"

_OF_TOOLS = re.compile(r"(/t\d+\.i\d+\.tool\.\d+(\.again\.\d+)?)+")


def title_run(session: str) -> str:
    """The run that holds the titles of a session.

    >>> title_run("ada")
    'ada/:title'
    """
    return session + TITLES


def is_session(run: str) -> bool:
    """Whether a run is a session of its own.

    >>> [is_session(run) for run in ("ada", "ada/notes", "ada/:title", "ada/t1.i0.tool.0")]
    [True, True, False, False]
    """
    return not run.endswith(TITLES) and not is_nested_run(run)


def find_related_runs(session: str, runs: Iterable[str]) -> list[str]:
    """The runs that belong to a session and are not the session itself, by name.

    >>> find_related_runs("ada", ["ada", "ada/notes", "ada/:title", "ada/t1.i0.tool.0", "adam/:title"])
    ['ada/:title', 'ada/t1.i0.tool.0']
    """
    length = len(session)
    return sorted(
        run
        for run in runs
        if run.startswith(session)
        and (run[length:] == TITLES or _OF_TOOLS.fullmatch(run, length) is not None)
    )


def new_name() -> str:
    """A name that no other session has."""
    return f"{random.getrandbits(128):032x}"


def check_session_name(session: object, argument: str = "session") -> str:
    """The name as it is. Raises ConfigurationError when no session can have it."""
    if not isinstance(session, str) or not session.strip():
        raise ConfigurationError(argument, f"must be a text that is not empty, got {session!r}")
    if not is_session(session):
        raise ConfigurationError(
            argument,
            f"{session!r} is what stands beside a session: its titles, or what its tools did",
            fix="Choose another name",
        )
    return session
